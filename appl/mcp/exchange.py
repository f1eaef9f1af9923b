"""The messages of one connection to an MCP server: which questions wait, and what came for them.

Invariant: a message that is none ends the call that it names, at once. A line that names no call is
left alone: servers write remarks where only messages should stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from appl.backend.check import PARTS

MESSAGE_BYTES = 16 << 20
"""The largest number of bytes of one message of a server."""

_ID = re.compile(rb'"id"\s*:\s*"?(\w{1,40})')
_SEARCHED = 4096  # bytes at either end of a message that is none, in which an id may stand
_PARSE_ERROR = -32700  # https://www.jsonrpc.org/specification#error_object


class Exchange:
    """The questions of one connection that wait for an answer, and the messages that come.

    *types* is the module ``mcp.types``, *message* the class that a session passes on, *closed* the
    error by which it knows that nothing more can be sent. ``outputs`` are the schemas of structured
    results by tool: the session is not given them, because it would match their patterns by an
    engine that a server can have work for ever.
    """

    def __init__(self, types: Any, message: Any, closed: type[Exception]) -> None:
        self._types, self._message, self.closed = types, message, closed
        self._waiting: dict[str, Any] = {}
        self._latest = 0
        self.outputs: dict[str, object] = {}

    def sent(self, item: Any) -> None:
        """Note what goes to the server: a question, or that one has been given up."""
        message = item.message
        number = getattr(message, "id", None)
        if number is not None and hasattr(message, "method"):
            self._waiting[str(number)] = number
            self._latest = max(self._latest, number if isinstance(number, int) else 0)
        elif getattr(message, "method", "") == "notifications/cancelled":
            self._waiting.pop(str((message.params or {}).get("requestId")), None)

    def line(self, data: bytes) -> Any:
        """The message in a line of a server's; ``None`` for a line that says nothing to anybody."""
        try:
            if data.count(b"[") + data.count(b"{") + data.count(b",") > PARTS:
                return self.refused(data, f"it has more than {PARTS} parts")
            message = self._types.jsonrpc_message_adapter.validate_json(data, by_name=False)
        except ValueError as error:
            return self.refused(data, _reason(error))
        return self.came(self._message(message))

    def refused(self, data: bytes, why: str) -> Any:
        """The end of the call that *data* names, which is no message; ``None`` if it names none."""
        for part in (data[:_SEARCHED], data[-_SEARCHED:]):
            for match in _ID.finditer(part):
                number = self._waiting.get(match[1].decode("ascii", "replace"))
                if number is not None:
                    return self._failed(number, f"its answer is no message: {why}")
        return None

    def came(self, item: Any) -> Any:
        """*item*, a message of the server's, as the session may have it.

        ``None`` for a remark: nobody waits for one, and the session would log those that it cannot
        read, with their text.
        """
        message = item.message
        if hasattr(message, "method"):
            return item if hasattr(message, "id") else None
        if self._waiting.pop(str(message.id), None) is None:
            # An answer with the id of no question ends the only call that waits, if that is clear.
            # One to a question that was given up is late, and nothing else.
            number = str(message.id)
            late = number.isdecimal() and len(number) < 19 and int(number) <= self._latest
            if late or len(self._waiting) != 1:
                return item
            (question,) = self._waiting.values()
            reason = f"it answered with the id {message.id!r:.40}, not with {question!r}"
            return self._failed(question, reason)
        result = getattr(message, "result", None)
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                output = tool.pop("outputSchema", None)
                if output is not None:
                    self.outputs[tool["name"]] = output
        return item

    def _failed(self, number: Any, why: str) -> Any:
        self._waiting.pop(str(number), None)
        error = self._types.ErrorData(code=_PARSE_ERROR, message=why)
        return self._message(self._types.JSONRPCError(jsonrpc="2.0", id=number, error=error))


def _reason(error: ValueError) -> str:
    """The fault of a message, in words that hold nothing of it."""
    errors: Any = getattr(error, "errors", None)
    first: Mapping[str, Any] = errors(include_input=False, include_url=False)[0] if errors else {}
    text = str(first.get("msg", ""))
    return text if text.startswith("Invalid JSON") else "its form is another"


class Watched:
    """A transport of the library's, whose messages pass an :class:`Exchange`."""

    def __init__(self, transport: AbstractAsyncContextManager[Any], exchange: Exchange) -> None:
        self._transport, self._exchange = transport, exchange

    async def __aenter__(self) -> tuple[Any, Any]:
        reads, writes = await self._transport.__aenter__()
        return _Reads(reads, self._exchange), _Writes(writes, self._exchange)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)


class _Stream:
    """A stream of the library's; it closes with its block."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner, self._exchange = inner, exchange

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Reads(_Stream):
    def __aiter__(self) -> _Reads:
        return self

    async def __anext__(self) -> Any:
        while True:
            item = self._seen(await self._inner.__anext__())
            if item is not None:
                return item

    async def receive(self) -> Any:
        """The same by another name."""
        return await self.__anext__()

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def _seen(self, item: Any) -> Any:
        return item if isinstance(item, Exception) else self._exchange.came(item)


class _Writes(_Stream):
    async def send(self, item: Any) -> None:
        self._exchange.sent(item)
        await self._inner.send(item)
