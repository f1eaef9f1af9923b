"""The end of a text, and its beginning, where a server does not see to them itself.

Invariant: a text gives the same whether it comes whole or in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence


def held(text: str, marks: Sequence[str]) -> int:
    """The length of the longest end of *text* that may be the beginning of one of *marks*."""
    found = 0
    for mark in marks:
        for size in range(min(len(mark) - 1, len(text)), found, -1):
            if text.endswith(mark[:size]):
                found = size
                break
    return found


class TextFilter:
    """The text of an answer without a repetition of *begun*, up to the first of the *stop* texts.

    *begun* is the beginning of the answer, which the prompt holds already; a server that was told
    to go on may repeat all of it, or its last line. ``skipped`` is the number of characters that
    were left out before the text, ``stopped`` is true if a stop text was found.
    """

    __slots__ = ("_beginnings", "_buffer", "_stop", "skipped", "stopped")

    def __init__(self, stop: Sequence[str] = (), begun: str = "") -> None:
        whole = begun.lstrip()
        line = whole.rstrip().rpartition("\n")[2].lstrip() + whole[len(whole.rstrip()) :]
        forms = (whole, whole.rstrip(), line, line.rstrip())
        self._beginnings = [each for each in dict.fromkeys(forms) if each]
        self._stop, self._buffer = stop, ""
        self.skipped, self.stopped = 0, False

    def feed(self, piece: str) -> str:
        """Take a piece of the answer; returns the text that is certain by now."""
        if self.stopped:
            return ""
        self._buffer += piece
        if self._beginnings:
            start = self._buffer.lstrip()
            if any(len(start) < len(b) and b.startswith(start) for b in self._beginnings):
                return ""  # it may be repeating
            self._skip(start)
        return self._certain(last=False)

    def close(self) -> str:
        """End the answer; returns the rest of its text."""
        if self.stopped:
            return ""
        if self._beginnings:
            self._skip(self._buffer.lstrip())
        return self._certain(last=True)

    def _skip(self, start: str) -> None:
        for beginning in self._beginnings:
            if start.startswith(beginning):
                rest = start[len(beginning) :]
                self.skipped, self._buffer = len(self._buffer) - len(rest), rest
                break
        self._beginnings = []

    def _certain(self, *, last: bool) -> str:
        text = self._buffer
        found = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._buffer = True, ""
            return text[: min(found)]
        certain = len(text) if last else len(text) - held(text, self._stop)
        self._buffer = text[certain:]
        return text[:certain]
