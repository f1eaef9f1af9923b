"""Server-sent events from bytes as they come, by the rule of the WHATWG.

Source: HTML Living Standard, section 9.2.6, "Interpreting an event stream".
Invariant: the events are the same wherever the bytes are cut. Events without data are left out.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator

from appl.backend.check import ANSWER_BYTES, TEXT
from appl.backend.http import too_long

Event = tuple[str, str]
"""The type of an event, empty if it has none, and its data."""

_BOM = b"\xef\xbb\xbf"
_EACH = 32
"""The weight of a line of data besides its characters: many short ones take memory, too."""

_FIRST = re.compile(rb"(?:data|event|id|retry)?:|(?:data|event|id|retry)[\r\n]")
"""The first bytes of a stream of events: a field, or a comment."""
_ENOUGH = 16


class EventParser:
    """The events of one stream, from *who*. Raises ``MalformedResponse`` for one that is too long.

    Data that no empty line follows is no event by the rule: :meth:`rest` has it.
    """

    __slots__ = ("_after_cr", "_begun", "_data", "_line", "_line_size", "_size", "_type", "_who")

    def __init__(self, who: str = "the server") -> None:
        self._who = who
        self._begun: bytes | None = b""  # the first bytes, while they may be a byte order mark
        self._after_cr = False
        self._line: list[bytes] = []
        self._data: list[str] = []
        self._type = ""
        self._line_size = self._size = 0

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that *piece* completes."""
        if self._begun is not None:
            piece = self._begun + piece
            if len(piece) < len(_BOM) and _BOM.startswith(piece):
                self._begun = piece
                return
            self._begun, piece = None, piece.removeprefix(_BOM)
        for line in self._lines(piece):
            if not line:
                if self._data and (event := self._complete())[1]:
                    yield event
                self._type = ""
            elif line[:5] == b"data:":
                self._add(line[5:])
            elif line[0] != 0x3A:  # no comment
                self._field(*line.partition(b":"))

    def rest(self) -> Iterator[Event]:
        """The event that the end of the stream cut off, as far as it came."""
        if self._begun:
            return
        if self._line and (line := b"".join(self._line)).startswith(b"data:"):
            self._add(line[5:])
        if self._data and (event := self._complete())[1]:
            yield event

    def _lines(self, piece: bytes) -> list[bytes]:
        """The lines that *piece* completes, without their ends: LF, CR, or both."""
        if self._after_cr and piece:
            self._after_cr, piece = False, piece.removeprefix(b"\n")
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *others = piece.split(b"\n")
        self._line_size += len(first)
        if self._line_size > ANSWER_BYTES:
            raise too_long(self._who)
        self._line.append(first)
        if not others:
            return []
        lines = [b"".join(self._line), *others[:-1]]
        self._line, self._line_size = [others[-1]], len(others[-1])
        return lines

    def _field(self, name: bytes, colon: bytes, value: bytes) -> None:
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._type = value.removeprefix(b" ").decode("utf-8", "replace")

    def _add(self, value: bytes) -> None:
        self._size += len(value) + _EACH
        if self._size > TEXT:
            raise too_long(self._who)
        self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))

    def _complete(self) -> Event:
        event, self._size = (self._type, "\n".join(self._data)), 0
        self._data.clear()
        return event


def begins_events(body: bytes, default: bool = False) -> bool | None:
    """True if *body* begins as a stream of events does; ``None`` if more of it must be seen.

    Where nothing tells, it is the *default*.
    """
    start = body.removeprefix(_BOM).lstrip(b" \t\r\n")
    if _FIRST.match(start):
        return True
    if start[:1] in (b"{", b"[", b"<"):
        return False
    return None if len(start) < _ENOUGH else default


async def opened(content_type: str, pieces: AsyncIterator[bytes]) -> tuple[bool, bytes]:
    """Whether a body is a stream of events, and its first bytes, which were read for that.

    These say it, and where they do not, the content type: that of some servers is wrong.
    """
    by_type, first = "event-stream" in content_type, b""
    async for piece in pieces:
        first += piece
        found = begins_events(first, by_type)
        if found is not None:
            return found, first
    return by_type, first


async def whole(first: bytes, pieces: AsyncIterator[bytes], who: str) -> bytes:
    """A body that is no stream: *first*, and the rest.

    Raises ``MalformedResponse`` for one that is too long.
    """
    found, size = [first], len(first)
    async for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES:
            raise too_long(who)
    return b"".join(found)
