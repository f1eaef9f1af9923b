"""Layouts: how the items of a block are separated, numbered and indented.

Invariant: formats and levels are data; separators, numbers and indents are found when a prompt is
rendered, in the order of its items, so that it does not matter when the text of one arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from appl.prompt.levels import UNFORMATTED, Indexing, Level

_DIGITS = (
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
)


def _letters(number: int) -> str:
    """A, B, … Z, AA, AB, …: as spreadsheets name their columns."""
    letters = ""
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def _roman(number: int) -> str:
    numeral = ""
    for value, digit in _DIGITS:
        times, number = divmod(number, value)
        numeral += times * digit
    return numeral


_COUNTS: dict[str, Callable[[int], str]] = {
    "number": str,
    "lower": lambda number: _letters(number).lower(),
    "letter": lambda number: _letters(number).lower(),
    "upper": _letters,
    "Letter": _letters,
    "roman": lambda number: _roman(number).lower(),
    "Roman": _roman,
}
_SIGNS = {"star": "*", "dash": "-"}


def label_of(indexing: Indexing, position: int) -> str:
    """The label of the item at *position*, the first of which is 0."""
    method = indexing.method
    if not method:
        return ""
    count, sharps, suffix = _COUNTS.get(method), method.removeprefix("sharp"), " "
    if count is not None:
        mark, suffix = count(indexing.ind + position + 1), ". "
    elif sharps != method and sharps.isdecimal():
        mark = "#" * int(sharps)
    else:  # every item has the same sign
        mark = _SIGNS.get(method, method)
    return indexing.prefix + mark + (suffix if indexing.suffix is None else indexing.suffix)


class Mark(NamedTuple):
    """The marks of the format around a text: before an item, and at the start of its lines."""

    sep: str
    label: str
    indent: str


class _OpenLevel:
    """A level that has been reached: how many items it has, and what stands before the next."""

    __slots__ = ("count", "level", "sep", "started")

    def __init__(self, level: Level, sep: str) -> None:
        self.level, self.sep = level, sep
        self.count, self.started = 0, False

    def label(self) -> str:
        label = self.level.format.indexing.label(self.count)
        self.count += 1
        return label

    def copy(self) -> _OpenLevel:
        other = _OpenLevel(self.level, self.sep)
        other.count, other.started = self.count, self.started
        return other


_REMEMBERED = 32


class Layout:
    """The progress of a rendering: the levels that are open, outermost first.

    A level that was left goes on where it was, if something is said in it again before 32 others
    are left: two generators may take turns in one prompt.
    """

    __slots__ = ("_closed_levels", "_open")

    def __init__(self) -> None:
        self._open: list[_OpenLevel] = []
        self._closed_levels: tuple[
            _OpenLevel, ...
        ] = ()  # the last one first; these are not changed any more

    def copy(self) -> Layout:
        """The same state, to go on from."""
        other = Layout()
        other._closed_levels = self._closed_levels
        other._open = [level.copy() for level in self._open]
        return other

    def mark(self, level: Level | None, starts: bool) -> Mark | None:
        """The mark of the next text of *level*, which is an item if it *starts* one.

        ``None`` for a text without any format.
        """
        if level is UNFORMATTED:
            return None
        stack = self._open
        if level is None:
            if stack:
                self._leave(0)
            return None
        if not stack or stack[-1].level is not level:
            self._reach(level)
        if not starts:
            return Mark("", "", level.indent)
        sep, label, counts = stack[-1].sep, "", True
        for around in reversed(stack):  # the first item of a block begins those around it too
            if counts:
                label = around.label() + label
            if around.started:
                break
            counts = counts and around.level.format.inline
            around.started, around.sep = True, around.level.sep
        return Mark(sep, label, level.indent)

    def _reach(self, level: Level) -> None:
        """Leave the levels that *level* is not in, and enter those that it is in."""
        stack, path = self._open, level.path()
        common = 0
        for open_level, other in zip(stack, path, strict=False):
            if open_level.level is not other:
                break
            common += 1
        self._leave(common)
        for other in path[common:]:
            before = next((closed for closed in self._closed_levels if closed.level is other), None)
            if before is None:
                stack.append(_OpenLevel(other, stack[-1].sep if stack else "\n"))
            else:
                self._closed_levels = tuple(
                    closed for closed in self._closed_levels if closed is not before
                )
                stack.append(before.copy())

    def _leave(self, depth: int) -> None:
        """Leave the levels that are more than *depth* deep."""
        self._closed_levels = (*self._open[depth:], *self._closed_levels)[:_REMEMBERED]
        del self._open[depth:]
