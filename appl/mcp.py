"""MCP servers as sources of tools: ``with appl.mcp.stdio("python", ["server.py"]) as server:``.

Invariant: a server lives from the beginning of its block to its end, on the I/O thread. If a record
says what it offered, it starts only with the first tool call that the record does not answer; a
replay thus starts none. The user is shown what a server offers, and what has changed in it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future as ThreadFuture
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from appl.errors import InvalidOption, RunError, ToolError, ToolServerError
from appl.extras import library
from appl.prompt import Audio, Image, ToolMessage, digest_of
from appl.runtime.concurrency.fiber import in_coroutine, strand_here
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.parallel import scope_beside
from appl.runtime.concurrency.promise_values import awaited, result_of
from appl.runtime.concurrency.task import Task, context_for
from appl.runtime.frame import Frame, FrameRun, here
from appl.runtime.tools import offers
from appl.runtime.tools.arguments import read_object
from appl.runtime.tools.tool import Reads, SchemaReader, Tool

__all__ = ["MCPServer", "stdio"]

TIMEOUT = 30.0
_CLOSING = 10.0


def stdio(
    command: str | os.PathLike[str],
    args: Sequence[str | os.PathLike[str]] = (),
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT,
    call_timeout: float | None = None,
    prefix: str = "",
    errlog: TextIO | None = None,
) -> MCPServer:
    """The server that *command* starts, with its standard input and output as transport.

    It inherits few variables (``PATH``, ``HOME``, …); *env* adds others. Its standard error goes to
    *errlog*, by default to this process's. See ``MCPServer``.
    """
    if isinstance(args, str):
        raise InvalidOption(f"stdio(command, args) takes a list of arguments, got {args!r}")
    words = [os.fspath(command), *(os.fspath(arg) for arg in args)]

    def target(library: ModuleType) -> object:
        parameters = library.StdioServerParameters(
            command=words[0], args=words[1:], env=dict(env or {}), cwd=cwd
        )
        return library.stdio_client(parameters, errlog=errlog or _stderr())

    server = MCPServer(
        target, name=_shown(words), timeout=timeout, call_timeout=call_timeout, prefix=prefix
    )
    server._identity = _identity(words)
    return server


def _identity(words: Sequence[str]) -> str:
    """A digest that identifies a server among remembered tools: its command may hold keys."""
    return digest_of("mcp-server", *words).hex()


def _shown(words: list[str]) -> str:
    """A command by its program and script; further arguments may hold anything, even keys."""
    script = [words[1]] if len(words) > 1 and not words[1].startswith("-") else []
    return " ".join(Path(word).name for word in [words[0], *script])


class MCPServer:
    """An MCP server during its block; ``gen(tools=[server])`` offers its tools.

    *target* is a value for ``mcp.Client``: the URL of a server, a transport, or a server object, or
    a function of the ``mcp`` package that makes one. The server has *timeout* seconds to start, and
    *call_timeout* for each call (``None``: no limit). *prefix* is put before the names of its
    tools, so that two servers may have tools of one name. Needs the package ``mcp``: ``pip install
    'appl[mcp]'``.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str = "",
        timeout: float = TIMEOUT,
        call_timeout: float | None = None,
        prefix: str = "",
    ) -> None:
        self.name = name or (target if isinstance(target, str) else type(target).__name__)
        self._target, self._prefix = target, prefix
        self._timeout, self._call_timeout = timeout, call_timeout
        self._identity = _identity([target] if isinstance(target, str) else ["", self.name])
        self._tools: dict[str, Tool] | None = None
        self._link: _ServerConnection | None = None
        self._recorded: list[dict[str, object]] = []  # what it offers, before it is started
        self._run: FrameRun | None = None
        self._starting = threading.Lock()

    @property
    def tools(self) -> list[Tool]:
        """The tools that the server had when its block began."""
        return list(self._listed().values())

    def __getitem__(self, name: str) -> Tool:
        return self._listed()[name]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self._listed())

    def _listed(self) -> dict[str, Tool]:
        if self._tools is None:
            raise RunError(
                f"the MCP server {self.name!r} is not open: use it inside its block, "
                "`with appl.mcp.stdio(...) as server:`"
            )
        return self._tools

    # -- its block

    def __enter__(self) -> MCPServer:
        if in_coroutine():
            raise RunError("in a coroutine write `async with`: starting a server takes time")
        self._take(result_of(self._opening()))
        return self

    def __exit__(self, *error: object) -> None:
        closing = self._close()
        if closing is not None:
            closing.result(_CLOSING)

    async def __aenter__(self) -> MCPServer:
        self._take(await awaited(self._opening()))
        return self

    async def __aexit__(self, *error: object) -> None:
        closing = self._close()
        if closing is not None:
            await asyncio.shield(asyncio.wrap_future(closing))

    def _opening(self) -> Task:
        """Start the server, or take its offer from the record; runs on a worker thread."""
        if self._tools is not None:
            raise RunError(f"the MCP server {self.name!r} is open already")
        caller = here(lambda: f"mcp {self.name}")
        frame = scope_beside(caller, "mcp")
        task = Task(frame, strand_here().hub)
        caller.add(task)
        start = task.run_here if caller.run.services.sequential else task.run_in_thread
        start(lambda: self._offered(frame), context_for(frame))
        return task

    def _offered(self, frame: Frame) -> object:
        self._run = frame.run
        return frame.run.outside.observe(frame, "mcp", self._start)

    def _start(self) -> list[dict[str, Any]]:
        link = self._connected()
        found = link.offered.result()
        self._link = link
        self._show(found)
        return found

    def _connected(self) -> _ServerConnection:
        """A connection to the server, which is starting."""
        client = library("mcp", "a client of MCP servers")
        link = _ServerConnection(self.name, client, self._timeout, self._call_timeout)
        target = self._target
        link.open(target(link.library) if callable(target) else target)
        return link

    def _reached(self) -> _ServerConnection:
        """The connection for a call; starts the server if a record gave its offer.

        It waits for the start, and so runs on a worker thread. Raises ``ToolServerError``.
        """
        with self._starting:
            if self._tools is None:
                raise ToolServerError(f"the MCP server {self.name!r} is closed")
            link, late = self._link, self._link is None
            if link is None:
                link = self._link = self._connected()
        found = link.offered.result()
        if late:
            self._show(found, self._recorded)
        return link

    def _show(
        self, found: list[dict[str, object]], recorded: list[dict[str, object]] | None = None
    ) -> None:
        """Show the user the tools that are new to them, or to the *recorded* run."""
        assert self._run is not None
        lines = offers.news(self.name, self._identity, found, self._run.tool_memory, recorded)
        if lines and not self._run.reporter.was_told(("mcp", *lines)):
            self._run.reporter.tell_once(("mcp", *lines), lines[0])
            for line in lines[1:]:
                self._run.reporter.tell(line)

    def _take(self, offered: list[dict[str, Any]]) -> None:
        self._recorded = offered
        found: dict[str, Tool] = {}
        for definition in offered:
            tool = self._tool(definition)
            if tool.name in found:
                raise self._closed_by(tool.name, [other["name"] for other in offered])
            found[tool.name] = tool
        self._tools = found

    def _closed_by(self, name: str, offered: list[str]) -> ToolError:
        """The error for two tools with the name *name*; stops the server."""
        self._close()
        same = ", ".join(repr(other) for other in offered if self._shown(other) == name)
        return ToolError(
            f"two tools of the MCP server {self.name!r} are called {name!r} here: {same}. "
            "One would stand for the other, so that neither is offered"
        )

    def _shown(self, name: str) -> str:
        """The name that a model sees: letters, digits, dashes and underscores."""
        return re.sub(r"[^a-zA-Z0-9_-]", "_", self._prefix + name)[:64]

    def _tool(self, offered: dict[str, Any]) -> Tool:
        name = offered["name"]

        async def invoke(**arguments: object) -> ToolMessage:
            link = self._link
            if link is None or not link.offered.done():
                link = await asyncio.to_thread(self._reached)
            return await link.call(name, arguments)

        shown = self._shown(name)
        reader = argument_reader(shown, offered["parameters"])
        return Tool(shown, offered["description"], invoke, offered["effect"], reader)

    def _close(self) -> ThreadFuture[None] | None:
        with self._starting:
            link, self._link, self._tools = self._link, None, None
        return link.close() if link is not None else None


def _stderr() -> TextIO:
    """This process's standard error if another process can write to it, otherwise nowhere."""
    for stream in (sys.stderr, sys.__stderr__):
        try:
            if stream is not None and stream.fileno() >= 0:
                return stream
        except (OSError, ValueError):  # a notebook's, or one that a test has replaced
            continue
    return Path(os.devnull).open("w")  # lives as long as the server


class _ServerConnection:
    """The connection to one server, which lives in a task of the I/O loop."""

    def __init__(
        self, name: str, library: ModuleType, timeout: float, call_timeout: float | None
    ) -> None:
        self.library = library
        self._name, self._timeout, self._call_timeout = name, timeout, call_timeout
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
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(target), self._loop)

    def close(self) -> ThreadFuture[None]:
        """Disconnect; the future is done when the server has ended."""
        assert self._serving is not None
        self._loop.call_soon_threadsafe(self._end)
        return self._serving

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolMessage:
        """The result of the tool *name*, from any loop. Raises ``ToolServerError``."""
        calling = asyncio.run_coroutine_threadsafe(self._call(name, arguments), self._loop)
        return await asyncio.wrap_future(calling)

    # -- on the I/O loop

    def _end(self) -> None:
        self._closing.set()
        if self._limit is not None and not self.offered.done():
            self._limit.reschedule(self._loop.time())  # nobody waits for its start any more

    async def _serve(self, target: object) -> None:
        # A server may answer at any time, so the I/O loop must keep running on a thread of its own.
        self._io.workers += 1
        try:
            # The client is opened, used and closed in this one task: its library binds it to the
            # task that opened it. Calls from other tasks go through self._client meanwhile.
            async with asyncio.timeout(self._timeout) as limit:
                self._limit = limit
                async with self.library.Client(target) as client:
                    found = await _offered_by(client)
                    limit.reschedule(None)
                    self._client = client
                    self.offered.set_result(found)
                    await self._closing.wait()
        except Exception as error:
            if not self.offered.done():
                self.offered.set_exception(self._error("cannot be started", error))
        finally:
            self._client = None
            self._io.workers -= 1

    async def _call(self, name: str, arguments: dict[str, object]) -> ToolMessage:
        if self._client is None:
            raise ToolServerError(f"the MCP server {self._name!r} has ended")
        try:
            result = await self._client.call_tool(
                name, arguments, read_timeout_seconds=self._call_timeout
            )
        except Exception as error:
            raise self._error(f"did not answer {name}", error) from None
        return ToolMessage(_content(result), has_error=bool(result.is_error))

    def _error(self, what: str, error: BaseException) -> ToolServerError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        late = isinstance(error, TimeoutError)
        why = f"no answer within {self._timeout} s" if late else str(error) or type(error).__name__
        return ToolServerError(f"the MCP server {self._name!r} {what}: {why}")


async def _offered_by(client: Any) -> list[dict[str, object]]:
    """All tools of a server, from all pages, as plain data."""
    found, cursor = list[dict[str, Any]](), None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [_offer(tool) for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return found


def _offer(tool: Any) -> dict[str, object]:
    says = tool.annotations
    pure = says is not None and says.read_only_hint
    again = says is not None and says.idempotent_hint
    return {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.input_schema,
        "effect": "pure" if pure else "idempotent" if again else "effect",
    }


class _Unchecked:
    """A reader for a schema that cannot be checked here; the server checks the arguments."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def read(self, text: str) -> dict[str, Any]:
        """The arguments by name. Raises ``BadArguments``."""
        return read_object(text)


def argument_reader(name: str, schema: dict[str, object]) -> Reads:
    """A reader of the arguments of tool *name*, which fit its *schema*."""
    try:
        return SchemaReader(name, schema)
    except ToolError:
        return _Unchecked(schema)


def _content(result: Any) -> list[object]:
    """The content of a server's answer, as the parts of a message."""
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        return [json.dumps(result.structured_content, ensure_ascii=False)]
    return _separated(parts)


def _part(block: Any) -> str | Image | Audio:
    if block.type == "text":
        return str(block.text)
    if block.type == "image":
        return Image.from_bytes(base64.b64decode(block.data), block.mime_type)
    if block.type == "audio":
        return Audio.from_bytes(base64.b64decode(block.data), block.mime_type)
    if block.type == "resource" and isinstance(getattr(block.resource, "text", None), str):
        return str(block.resource.text)
    return str(block.model_dump_json(by_alias=True, exclude_none=True))


def _separated(parts: list[Any]) -> list[object]:
    """*parts* with a line break between neighbouring texts."""
    found: list[object] = []
    for part in parts:
        if found and isinstance(part, str) and isinstance(found[-1], str):
            found.append("\n")
        found.append(part)
    return found
