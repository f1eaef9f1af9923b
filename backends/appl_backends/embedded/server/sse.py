"""Server-sent events: JSON in ``data:`` lines, and a last one that says ``[DONE]``."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


class EventStream:
    """A stream of events as the answer to *request*; begun by ``async with``, ended with it."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
            }
        )

    async def __aenter__(self) -> EventStream:
        await self.response.prepare(self._request)
        return self

    async def send(self, data: dict[str, Any]) -> None:
        """Send one event."""
        await self.response.write(b"data: " + json.dumps(data).encode() + b"\n\n")

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.response.write(b"data: [DONE]\n\n")
            await self.response.write_eof()
