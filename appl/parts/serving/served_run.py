"""A run as its clients see it, and what it streams.

Invariant: everything here happens on the server's event loop. A position in a stream is the same
however its text was cut into pieces, and in each process that goes on with the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from appl.parts.serving.functions import ServedFunction
from appl.parts.serving.journal import read

if TYPE_CHECKING:
    from appl.parts.serving.execution import ServedJob

_MOST_TEXT = 1 << 16
"""Characters of a text that are sent as one event, to a client that is behind."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """A piece of what a run streams: ``text``, ``item`` or ``call``.

    *at* is where it ends: the number of characters and items so far, the same for each way in which
    the text may be cut. Who comes back names it, and gets what is behind it.
    """

    kind: str
    data: Any
    at: int


class ServedRun:
    """A run as its clients see it; on the event loop."""

    def __init__(self, name: str, function: ServedFunction, arguments: str) -> None:
        self.name, self.function, self.arguments = name, function, arguments
        self.state = "queued"
        self.value: str | None = None
        self.usage: str | None = None
        self.events: list[RunEvent] = []
        self.job: ServedJob | None = None
        self._at = 0
        self._skip = 0
        self._news = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True if nothing more comes before somebody goes on with it."""
        return self.state not in ("queued", "running")

    def add(self, kind: str, data: Any) -> None:
        """Add a piece of its stream."""
        if kind == "text" and not data:
            return
        self._at += len(data) if kind == "text" else kind == "item"
        self.events.append(RunEvent(kind, data, self._at))
        self._tell()

    def become(self, state: str, value: str | None = None, usage: str | None = None) -> None:
        """Note the *state*."""
        self.state, self.value, self.usage = state, value, usage
        self._tell()

    def begin_attempt(self) -> None:
        """It goes on: its program streams from the beginning again."""
        self.events, self._at = [], 0
        self.become("queued")

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def news(self) -> None:
        """Wait for a change."""
        await self._news.wait()

    async def over(self) -> None:
        """Wait for its end."""
        while not self.is_over:
            await self.news()

    def as_data(self) -> dict[str, Any]:
        """The run for its clients."""
        data: dict[str, Any] = {
            "run": self.name,
            "function": self.function.name,
            # one that another server has accepted goes on there
            "status": "running" if self.state == "accepted" else self.state,
        }
        names = {"finished": "result", "waiting": "waits", "failed": "error", "cancelled": "error"}
        if self.state in names and self.value is not None:
            value = read(self.value)
            if names[self.state] == "error":
                value = {name: each for name, each in value.items() if name != "status"}
            data[names[self.state]] = value
        if self.usage is not None:
            data["usage"] = read(self.usage)
        return data

    @property
    def status(self) -> int:
        """The HTTP status of an answer that is this run."""
        if self.state == "finished":
            return 200
        if self.state in ("failed", "cancelled") and self.value is not None:
            status: int = read(self.value).get("status", 500)
            return status
        return 503 if self.state == "interrupted" else 202


async def pieces(run: ServedRun, position: int, alive: float) -> AsyncIterator[RunEvent | None]:
    """The events of *run* behind *position* until it is over; ``None`` after *alive* s of silence.

    A run that goes on after a stop streams from its beginning again: what was sent is left out.
    """
    events, index = run.events, 0
    while True:
        if run.events is not events:
            events, index = run.events, 0
        if index < len(events):
            found, index = _next(events, index)
            event = _behind(found, position)
            if event is not None:
                position = event.at
                yield event
        elif run.is_over:
            return
        else:
            try:
                async with asyncio.timeout(alive):
                    await run.news()
            except TimeoutError:
                yield None


def _next(events: Sequence[RunEvent], index: int) -> tuple[RunEvent, int]:
    """The event at *index*, with the text that follows a text at once, and the next index."""
    first = events[index]
    index += 1
    if first.kind != "text":
        return first, index
    texts, length = [first.data], len(first.data)
    while index < len(events) and events[index].kind == "text" and length < _MOST_TEXT:
        texts.append(events[index].data)
        length += len(texts[-1])
        index += 1
    return RunEvent("text", "".join(texts), events[index - 1].at), index


def _behind(event: RunEvent, position: int) -> RunEvent | None:
    """The part of *event* that lies behind *position*."""
    if event.kind == "call":
        return event if event.at >= position else None
    if event.at <= position:
        return None
    if event.kind == "text" and event.at - len(event.data) < position:
        return RunEvent("text", event.data[position - event.at :], event.at)
    return event
