"""Server-sent events: JSON in ``data:`` lines, and mostly a last one that says ``[DONE]``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web


class EventStream:
    """A stream of events as the answer to *request*; begun by ``async with``, ended with it.

    *headers* stand before it. Without *done* its last event is one of the interface itself.
    A client that does not read is disconnected (``Arrivals``), which ends the handler.
    """

    def __init__(
        self, request: web.Request, *, done: bool = True, headers: Mapping[str, str] | None = None
    ) -> None:
        self._request, self._done = request, done
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                **(headers or {}),
            }
        )

    async def __aenter__(self) -> EventStream:
        await self.response.prepare(self._request)
        return self

    async def send(self, data: Mapping[str, Any], kind: str = "", at: int | None = None) -> None:
        """Send one event, which may be of a *kind*, and may have an id, *at*."""
        head = f"event: {kind}\n" if kind else ""
        number = "" if at is None else f"id: {at}\n"
        await self._write(f"{head}{number}data: {json.dumps(data)}\n\n")

    async def comment(self, text: str) -> None:
        """Send *text*, which clients skip: it shows that the stream is alive."""
        await self._write(f": {text}\n\n")

    async def _write(self, text: str) -> None:
        await self.response.write(text.encode())

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            if self._done:
                await self.response.write(b"data: [DONE]\n\n")
            await self.response.write_eof()
