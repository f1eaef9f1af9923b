"""Formats and levels: what the items of a block look like, as data.

Invariant: nothing here depends on the items, whose separators and numbers ``layout`` finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from appl.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class Indexing:
    """The label before each item of a list.

    *method* counts (``number``, ``lower`` or ``letter``, ``upper`` or ``Letter``, ``roman``,
    ``Roman``; letters go on with aa, ab, …), is a sign (``star``, ``dash``, ``sharp3`` for
    ``###``), or is the text itself; with ``None`` nothing stands there. *ind* is how many numbers
    are passed over. *prefix* and *suffix* stand around it; the suffix is ``". "`` after what
    counts and a space otherwise, unless it is given.
    """

    method: str | None = None
    ind: int = 0
    prefix: str = ""
    suffix: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.method, str | None):
            raise InvalidOption(
                f'Indexing(method) is "number", "dash" and so on, or the text itself, got '
                f"{self.method!r:.80}"
            )
        if not isinstance(self.ind, int):
            raise InvalidOption(f"Indexing(ind=...) is a whole number, got {self.ind!r:.80}")
        if self.ind < 0:
            raise ValueError(f"Indexing(ind={self.ind}): a list starts at 0 or later")

    def label(self, position: int) -> str:
        """The label of the item at *position*, the first of which is 0."""
        from appl.prompt.layout import label_of  # loaded with the first format

        return label_of(self, position)


@dataclass(frozen=True, slots=True)
class Format:
    """The appearance of a block's items.

    *sep* stands between them (``None``: what stands between those around). *indent* is added to
    the indentation around, *new_indent* replaces it. An *inline* block is one item of the block
    around it, however many items it has.
    """

    sep: str | None = None
    indexing: Indexing = Indexing()
    indent: str = ""
    new_indent: str | None = None
    inline: bool = False


class Level:
    """A format that was entered, inside *outer*; each entry is a level of its own."""

    __slots__ = ("depth", "format", "indent", "outer", "sep")

    def __init__(self, outer: Level | None, format: Format) -> None:
        self.outer, self.format = outer, format
        self.depth: int = outer.depth + 1 if outer is not None else 1
        around = (outer.sep, outer.indent) if outer is not None else ("\n", "")
        self.sep: str = around[0] if format.sep is None else format.sep
        self.indent: str = (
            around[1] + format.indent if format.new_indent is None else format.new_indent
        )

    def __reduce__(self) -> Any:
        if self is UNFORMATTED:  # of which there is one
            return "UNFORMATTED"
        return Level, (self.outer, self.format)

    def path(self) -> list[Level]:
        """The levels down to this one, outermost first."""
        levels: list[Level] = []
        level: Level | None = self
        while level is not None:
            levels.append(level)
            level = level.outer
        levels.reverse()
        return levels


UNFORMATTED = Level(None, Format())
"""The level of what stands for itself wherever it is said: whole messages."""
