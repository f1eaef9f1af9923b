"""The end of a text, and its beginning, where a server does not see to them itself.

Invariant: a text gives the same whether it comes whole or in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

_SPACES = (" ", "\t")


def held(text: str, marks: Sequence[str]) -> int:
    """The length of the longest end of *text* that may be the beginning of one of *marks*."""
    found = 0
    for mark in marks:
        for size in range(min(len(mark) - 1, len(text)), found, -1):
            if text.endswith(mark[:size]):
                found = size
                break
    return found


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """The place of the first of the *stop* texts in *text*; ``None`` if there is none."""
    return min((at for each in stop if (at := text.find(each)) >= 0), default=None)


class TextFilter:
    """The text of an answer without a repetition of *begun*, up to the first of the *stop* texts.

    *begun* is the beginning of the answer, which the prompt holds already. A server may repeat it,
    and a model that was told to go on may do so for all of it, or for its last line, with other
    spaces. ``skipped`` is the number of characters that were left out before the text, ``stopped``
    is true if a stop text was found.
    """

    __slots__ = ("_beginnings", "_begun", "_buffer", "_is_first", "_stop", "skipped", "stopped")

    def __init__(self, stop: Sequence[str] = (), begun: str = "") -> None:
        whole = begun.strip()
        lines = (whole, whole.rpartition("\n")[2].strip())
        self._beginnings = [each for each in dict.fromkeys(lines) if each]
        self._begun, self._is_first = begun, bool(begun)
        self._stop, self._buffer = stop, ""
        self.skipped, self.stopped = 0, False

    def feed(self, piece: str) -> str:
        """Take a piece of the answer; returns the text that is certain by now."""
        if self.stopped:
            return ""
        self._buffer += piece
        if self._is_first:
            if self._may_repeat():
                return ""
            self._begin()
        return self._certain(last=False)

    def close(self) -> str:
        """End the answer; returns the rest of its text."""
        if self.stopped:
            return ""
        if self._is_first:
            self._begin()
        return self._certain(last=True)

    def _may_repeat(self) -> bool:
        """True while what came may be a part of the beginning, or of the spaces after it."""
        if self._buffer.startswith(self._begun):
            return False
        start = self._buffer.lstrip()
        if any(len(start) < len(b) and b.startswith(start) for b in self._beginnings):
            return True
        return self._begun.startswith(self._buffer) or not self._unrepeated()

    def _unrepeated(self) -> str:
        """The text after a repetition; spaces are not repeated."""
        if self._buffer.startswith(self._begun):
            return self._buffer[len(self._begun) :]
        start, rest = self._buffer.lstrip(), self._buffer
        for beginning in self._beginnings:
            if start.startswith(beginning):
                rest = start[len(beginning) :]
                break
        return rest.lstrip("".join(_SPACES)) if self._begun.endswith(_SPACES) else rest

    def _begin(self) -> None:
        rest = self._unrepeated()
        self.skipped, self._buffer = len(self._buffer) - len(rest), rest
        self._is_first = False

    def _certain(self, *, last: bool) -> str:
        text = self._buffer
        if (at := first_stop(text, self._stop)) is not None:
            self.stopped, self._buffer = True, ""
            return text[:at]
        certain = len(text) if last else len(text) - held(text, self._stop)
        self._buffer = text[certain:]
        return text[:certain]
