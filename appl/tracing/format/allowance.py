"""Limits on the memory for reading a file, and on a document's length: counted, never measured.

Invariant: the count is at least the memory that the values take, so that a file of a few bytes
cannot become gigabytes of them.
"""

from __future__ import annotations

import re

from appl.errors import TraceCorrupt

RECORD = 256
_LEAST, _RATIO = 128 << 20, 50
_WRITTEN_LEAST, _WRITTEN_RATIO = 4 << 30, 1000
_LIST, _ITEM, _MAP, _PAIR = 64, 64, 240, 160  # bytes of an object, and of what it holds, at most
_TOO_MUCH = "the trace would take far more memory than its size suggests"
_TOO_LONG = "what the trace says is far longer than its size suggests"
_WIDER = re.compile(rb"[\xc4-\xef][\x80-\xbf]")  # of a string that takes 2 bytes a character
_WIDEST = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")  # and of one that takes 4


def unlimited() -> DecodingAllowance:
    """The allowance of what this process has made itself."""
    return DecodingAllowance(1 << 62)


def of_file(size: int) -> int:
    """The allowance of a file of *size* bytes: far more than what a run makes of as many."""
    return _LEAST + _RATIO * size


class Written:
    """Counts what is written of a file of *size* bytes, or no more than *most* characters: calls
    may share prompts that were recorded once."""

    def __init__(self, size: int, most: int = 0) -> None:
        self._remaining = most or _WRITTEN_LEAST + _WRITTEN_RATIO * size

    def spend(self, length: int) -> None:
        """Count *length* characters. Raises ``TraceCorrupt`` when they are too many."""
        self._remaining -= length
        if self._remaining < 0:
            raise TraceCorrupt(_TOO_LONG)


class DecodingAllowance:
    """At most ``most`` bytes, of which so many are ``used``; ``spend`` uses some.

    ``list_hook`` and ``map_hook`` are called with each list and map as it is made.
    """

    __slots__ = ("most", "used")

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0

    def spend(self, size: int) -> None:
        """Take *size* bytes. Raises ``TraceCorrupt`` when there are no more."""
        self.used = total = self.used + size
        if total > self.most:
            raise TraceCorrupt(_TOO_MUCH)

    def check(self, size: int) -> None:
        """As ``spend``, and nothing is taken."""
        if self.used + size > self.most:
            raise TraceCorrupt(_TOO_MUCH)

    def spend_text(self, encoded: bytes) -> None:
        """Take what texts made of *encoded* can take."""
        width = 1
        if not encoded.isascii():  # a hundred times as fast as the searches
            width = 4 if _WIDEST.search(encoded) else 2 if _WIDER.search(encoded) else 1
        self.spend(width * len(encoded))

    def list_hook(self, items: list[object]) -> list[object]:
        """Take what a list takes, and what is in it but for lists and maps."""
        self.used = total = self.used + _LIST + _ITEM * len(items)  # spend(), for every list
        if total > self.most:
            raise TraceCorrupt(_TOO_MUCH)
        return items

    def map_hook(self, items: dict[object, object]) -> dict[object, object]:
        """Take what a map takes, and what is in it but for lists and maps."""
        self.spend(_MAP + _PAIR * len(items))
        return items
