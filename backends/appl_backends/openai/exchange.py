"""One question and its answer over HTTP, whole or as a stream of events.

Invariant: whatever a server sends, events or JSON, is read as what it is, whichever was asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from appl.backend import Chunk, Emit, Response
from appl.backend.check import read_json
from appl.backend.http import STREAM_BYTES
from appl_backends.http.events import Event, EventParser, begins_events, opened, whole
from appl_backends.openai.answer import ChatReader, json_in

if TYPE_CHECKING:  # it needs a library of an extra
    from appl_backends.http.client import Body, HttpClient


class EventAssembly(Protocol):
    """Puts an answer together from the events of a stream."""

    @property
    def complete(self) -> bool:
        """True if the answer has ended."""

    def take(self, event: Event) -> bool:
        """Add *event*, and pass on its text; true if it was the last one."""

    def take_rest(self, events: Iterator[Event]) -> None:
        """Add what the end of the stream cut off: the last event, if that is whole."""

    def response(self) -> Response:
        """The whole answer. Raises ``MalformedResponse`` where the stream was cut off."""


MakesAssembly = Callable[[ChatReader, Emit], EventAssembly]


async def exchange(
    http: HttpClient,
    head: bytes,
    body: Body,
    reader: ChatReader,
    assembly: MakesAssembly,
    emit: Emit | None,
) -> Response:
    """The answer to *body*; with *emit* it is asked for as a stream. Raises ``BackendError``."""
    who = reader.who
    if emit is not None:
        async with http.stream(head, body, who, STREAM_BYTES) as (kind, pieces):
            return await _streamed(reader, assembly, kind, pieces, emit)
    data = await http.exchange(head, body, who, _json_or_events)
    if type(data) is _Events:  # it streams, whatever it is asked for
        return await _streamed(reader, assembly, _Events.kind, _one(data), _nowhere)
    return reader.response(data)


async def _streamed(
    reader: ChatReader,
    assembly: MakesAssembly,
    kind: str,
    pieces: AsyncIterator[bytes],
    emit: Emit,
) -> Response:
    """The answer in a body of this *kind* that may be a stream."""
    is_stream, first = await opened(kind, pieces)
    if not is_stream:
        body = await whole(first, pieces, reader.who)
        return reader.response(json_in(body, reader.who, reader.secrets, kind))
    events, growing = EventParser(reader.who), assembly(reader, emit)
    piece: bytes | None = first
    while piece is not None:
        if any([growing.take(event) for event in events.feed(piece)]):
            break
        piece = await anext(pieces, None)
    else:
        if not growing.complete:
            growing.take_rest(events.rest())
    return growing.response()


class _Events(bytes):
    """A body that is a stream of events."""

    kind = "text/event-stream"


def _json_or_events(body: bytes) -> Any:
    """The JSON in *body*, or the body itself as ``_Events``. Raises ``ValueError``."""
    try:
        return read_json(body)
    except ValueError:
        if begins_events(body):
            return _Events(body)
        raise


def _nowhere(chunk: Chunk) -> None:
    """Drop *chunk*: nobody reads along."""


async def _one(piece: bytes) -> AsyncIterator[bytes]:
    yield piece
