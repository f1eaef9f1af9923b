"""The connection to one MCP server: its start, its tools, and the results of their calls.

Invariant: nothing that a server sends takes more time or memory than the bounds of this module, and
whatever it does becomes a ``ToolServerError``.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future as ThreadFuture
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from appl.backend.http import masked
from appl.base.extras import library
from appl.errors import ToolServerError
from appl.mcp.exchange import MESSAGE_BYTES, Exchange, Watched
from appl.mcp.process import process_transport
from appl.prompt import Audio, Image, ToolMessage
from appl.runtime.answers.schema import Checker, checkable
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.reporter import printable

PAGES = 200
TOOLS = 10_000
LIST_BYTES = 16 << 20
"""The most pages and tools of a server's list, and the most bytes of all of it together."""

_CLOSING = 10.0
_LONGEST = 2000  # characters of a server's error
_USE = "a client of MCP servers"
_CONNECT_S, _READ_S = 30.0, 300.0  # of HTTP; a call has a deadline of its own


class ServerCommand(NamedTuple):
    """A server that a command starts. *errlog* takes its standard error; by default this one's."""

    words: Sequence[str]
    env: dict[str, str]
    cwd: str | os.PathLike[str] | None = None
    errlog: TextIO | None = None


class ServerConnection:
    """The connection to one server, which lives in a task of the I/O loop."""

    def __init__(self, name: str, timeout: float, call_timeout: float | None) -> None:
        self._name, self._timeout, self._call_timeout = name, timeout, call_timeout
        self._library: Any = library("mcp", _USE)
        self._exchange = Exchange(
            library("mcp", _USE, "mcp.types"),
            library("mcp", _USE, "mcp.shared.message").SessionMessage,
            library("mcp", _USE, "anyio").BrokenResourceError,
        )
        self._checkers: dict[str, Checker] = {}
        self._io = io_thread()
        self._loop = self._io.loop
        self.offered: ThreadFuture[list[dict[str, Any]]] = ThreadFuture()
        self._client: Any = None
        # Made here on any thread, but used on the I/O loop only.
        self._closing = asyncio.Event()
        self._limit: asyncio.Timeout | None = None
        self._serving: ThreadFuture[None] | None = None

    def open(self, target: object) -> None:
        """Connect; ``offered`` becomes the server's tools, or a ``ToolServerError``."""
        address = target(self._library) if callable(target) else target
        serving = self._serve(self._transport(address))
        self._serving = asyncio.run_coroutine_threadsafe(serving, self._loop)

    def close(self) -> ThreadFuture[None]:
        """Disconnect; the future is done when the server has ended."""
        assert self._serving is not None
        self._loop.call_soon_threadsafe(self._end)
        return self._serving

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolMessage:
        """The result of the tool *name*, from any loop. Raises ``ToolServerError``."""
        calling = asyncio.run_coroutine_threadsafe(self._call(name, arguments), self._loop)
        return await asyncio.wrap_future(calling)

    # -- the transport

    def _transport(self, target: Any) -> Any:
        """The library's client for *target*, so that all messages are seen here."""
        exchange, parameters_class = self._exchange, self._library.StdioServerParameters
        if isinstance(target, parameters_class):
            words = [target.command, *target.args]
            target = ServerCommand(words, dict(target.env or {}), target.cwd)
        if isinstance(target, ServerCommand):
            usual = library("mcp", _USE, "mcp.client.stdio").get_default_environment()
            errlog = target.errlog or _stderr()
            return process_transport(
                target.words, {**usual, **target.env}, target.cwd, errlog, exchange
            )
        if isinstance(target, str):
            return Watched(_http_transport(target), exchange)
        # A server object of this process speaks without messages.
        return Watched(target, exchange) if hasattr(target, "__aenter__") else target

    # -- on the I/O loop

    def _end(self) -> None:
        self._closing.set()
        if self._limit is not None and not self.offered.done():
            self._limit.reschedule(self._loop.time())  # nobody waits for its start any more

    async def _serve(self, target: object) -> None:
        try:
            # The client is opened, used and closed in this one task: its library binds it to the
            # task that opened it. Calls from other tasks go through self._client meanwhile.
            async with asyncio.timeout(self._timeout) as limit:
                self._limit = limit
                async with self._library.Client(target) as client:
                    tools = await _offered_by(client)
                    limit.reschedule(None)
                    self._client = client
                    self.offered.set_result(tools)
                    await self._closing.wait()
                    limit.reschedule(self._loop.time() + _CLOSING)  # for its farewell
        except Exception as error:
            if not self.offered.done():
                self.offered.set_exception(self._error("cannot be started", error, self._timeout))
        finally:
            self._client = None

    async def _call(self, name: str, arguments: dict[str, object]) -> ToolMessage:
        if self._client is None:
            raise ToolServerError(f"the MCP server {self._name!r} has ended")
        try:
            # The library's own limit begins when the question is written, and again with each
            # round in which the server asks back; this one holds for all of it. See
            # https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
            async with asyncio.timeout(self._call_timeout):
                result = await self._client.call_tool(name, arguments)
                if name in self._exchange.outputs and not result.is_error:
                    await asyncio.to_thread(self._check, name, result)  # seconds, if it is large
            return ToolMessage(_content(result), has_error=bool(result.is_error))
        except Exception as error:
            raise self._error(f"did not answer {name}", error, self._call_timeout) from None

    def _check(self, name: str, result: Any) -> None:
        """Refuse a structured *result* that is not of the schema that the server gave for it."""
        if result.structured_content is None:
            return
        if name not in self._checkers:
            self._checkers[name] = Checker(checkable(self._exchange.outputs[name])[0])
        problem = self._checkers[name].errors(result.structured_content)
        if problem is not None:
            raise ValueError(f"its result does not fit its own schema: {problem}")

    def _error(self, what: str, error: BaseException, seconds: float | None) -> ToolServerError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return ToolServerError(f"the MCP server {self._name!r} {what}: {_why(error, seconds)}")


def _why(error: BaseException, seconds: float | None) -> str:
    """The words for *error*, on one line, bounded and without secrets."""
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s" if seconds is not None else "no answer"
    if hasattr(error, "error_count"):  # pydantic's, with the server's words in it, at any length
        return "its result has another form than the protocol says"
    words = " ".join(masked(str(error)[:_LONGEST]).split())
    return printable(words) or type(error).__name__


async def _offered_by(client: Any) -> list[dict[str, object]]:
    """All tools of a server, from all pages, as plain data. Raises ``ValueError`` beyond bounds.

    Each page is bounded too, as a message; the time for all of them is that for the start.
    """
    tools, cursors, size = list[dict[str, Any]](), set[str | None](), 0
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            # The effect is what the server says, which is no promise: "Clients MUST consider tool
            # annotations to be untrusted unless they come from trusted servers", see
            # https://modelcontextprotocol.io/specification/2025-11-25/server/tools
            says = tool.annotations
            pure = says is not None and says.read_only_hint
            is_idempotent = says is not None and says.idempotent_hint
            tools.append(
                {
                    "name": tool.name,
                    "description": tool.description or "",
                    "parameters": tool.input_schema,
                    "effect": "pure" if pure else "idempotent" if is_idempotent else "effect",
                }
            )
            size += len(json.dumps(tools[-1]))
        if len(tools) > TOOLS or size > LIST_BYTES:
            raise ValueError(
                f"it offers more than {TOOLS} tools, or {LIST_BYTES >> 20} MiB of them"
            )
        cursors.add(cursor)
        cursor = page.next_cursor
        if cursor is None:
            return tools
        if cursor in cursors:
            raise ValueError("its list of tools leads back to a page that was read")
    raise ValueError(f"its list of tools has more than {PAGES} pages")


# -- transports


@contextlib.asynccontextmanager
async def _http_transport(url: str) -> AsyncGenerator[tuple[Any, Any], None]:
    """The library's transport to *url*, with bounded bodies."""
    # It logs what it cannot read, which Python would print where nobody has set up logging.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    http = library("mcp", _USE, "httpx2")
    transport = library("mcp", _USE, "mcp.client.streamable_http").streamable_http_client
    client = http.AsyncClient(
        timeout=http.Timeout(_CONNECT_S, read=_READ_S),
        headers={"accept-encoding": "identity"},  # a few bytes may be gigabytes otherwise
        event_hooks={"response": [_bounds(http)]},
    )
    async with (
        client,
        transport(url, http_client=client, max_sse_event_size=MESSAGE_BYTES) as streams,
    ):
        yield streams


def _bounds(http: Any) -> Callable[[Any], Any]:
    """A hook that bounds the bodies of answers but those of event streams, which may go on."""

    class Bounded(http.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            size = 0
            async for part in self._inner:
                size += len(part)
                if size > MESSAGE_BYTES:
                    raise http.StreamError(f"it has more than {MESSAGE_BYTES >> 20} MiB")
                yield part

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def bound(response: Any) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise http.DecodingError("the server has compressed its answer, against the request")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = Bounded(response.stream)

    return bound


def _stderr() -> TextIO:
    """This process's standard error if another process can write to it, otherwise nowhere."""
    for stream in (sys.stderr, sys.__stderr__):
        try:
            if stream is not None and stream.fileno() >= 0:
                return stream
        except (OSError, ValueError):  # a notebook's, or one that a test has replaced
            continue
    return Path(os.devnull).open("w")  # lives as long as the server


# -- results


def _content(result: Any) -> list[object]:
    """The content of a server's answer, as the parts of a message. Raises ``ValueError``.

    A line break stands between neighbouring texts.
    """
    if not result.content and result.structured_content is not None:
        return [json.dumps(result.structured_content, ensure_ascii=False)]
    parts: list[object] = []
    for block in result.content:
        part = _part(block)
        if parts and isinstance(part, str) and isinstance(parts[-1], str):
            parts.append("\n")
        parts.append(part)
    return parts


def _part(block: Any) -> str | Image | Audio:
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        kind = Image if block.type == "image" else Audio
        try:
            return kind.from_bytes(base64.b64decode(block.data), block.mime_type)
        except ValueError as error:
            raise ValueError(f"its {block.type} is none: {error}") from None
    if block.type == "resource" and isinstance(getattr(block.resource, "text", None), str):
        return str(block.resource.text)
    return str(block.model_dump_json(by_alias=True, exclude_none=True))
