"""Ropes: long texts that grow, kept as their pieces.

Invariant: a rope never changes; all its continuations share it.
"""

from __future__ import annotations

from appl.prompt.origin import NOWHERE, Spans, joined, trail


class Rope:
    """The text of *base*, if any, with *added* at its end; *spans* are those of *added*."""

    __slots__ = ("__weakref__", "_trail", "added", "base", "ends_line", "size", "spans")

    def __init__(self, base: Rope | None, added: str, spans: Spans = NOWHERE) -> None:
        self.base, self.added, self.spans = base, added, spans
        self._trail: int | None = None
        self.size: int = len(added) + (base.size if base is not None else 0)
        self.ends_line: bool = added.endswith("\n") if added or base is None else base.ends_line

    def pieces(self) -> list[str]:
        """The pieces, last one first."""
        texts: list[str] = []
        rope: Rope | None = self
        while rope is not None:
            texts.append(rope.added)
            rope = rope.base
        return texts

    def marks(self) -> Spans:
        """Marks that tell apart the origins of ropes of one text: empty if nothing is known."""
        todo: list[Rope] = []
        rope: Rope | None = self
        while rope is not None and rope._trail is None:
            todo.append(rope)
            rope = rope.base
        mark = 0 if rope is None or rope._trail is None else rope._trail
        for part in reversed(todo):
            part._trail = mark = trail(mark, part.size, part.spans)
        return (mark,) if mark else NOWHERE

    def all_spans(self) -> Spans:
        """The spans of the whole text."""
        spans: list[tuple[int, Spans]] = []
        rope: Rope | None = self
        while rope is not None:
            spans.append((len(rope.added), rope.spans))
            rope = rope.base
        return joined(reversed(spans))

    def tail(self, length: int) -> str:
        """The last *length* characters, or all of them."""
        texts: list[str] = []
        rope: Rope | None = self
        while rope is not None and length > 0:
            texts.append(rope.added[-length:])
            length -= len(rope.added)
            rope = rope.base
        return "".join(reversed(texts))

    def __str__(self) -> str:
        return "".join(reversed(self.pieces()))
