"""Server-sent events: JSON in ``data:`` lines, and mostly a last one that says ``[DONE]``."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


class EventStream:
    """A stream of events as the answer to *request*; begun by ``async with``, ended with it.

    Without *done* its last event is one of the interface itself.
    """

    def __init__(self, request: web.Request, *, done: bool = True) -> None:
        self._request, self._done = request, done
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
            }
        )

    async def __aenter__(self) -> EventStream:
        await self.response.prepare(self._request)
        return self

    async def send(self, data: dict[str, Any], kind: str = "") -> None:
        """Send one event, which may be of a *kind*."""
        head = f"event: {kind}\n" if kind else ""
        await self.response.write(f"{head}data: {json.dumps(data)}\n\n".encode())

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            if self._done:
                await self.response.write(b"data: [DONE]\n\n")
            await self.response.write_eof()
