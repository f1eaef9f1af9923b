"""MCP servers as sources of tools: ``with appl.mcp.stdio("python", ["server.py"]) as server:``.

Invariant: a server lives from the beginning of its block to its end, on the I/O thread. If a record
says what it offered, it starts only with the first tool call that the record does not answer; a
replay thus starts none. The user is shown what a server offers, and what has changed in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future as ThreadFuture
from pathlib import Path
from typing import Any, TextIO

from appl.backend.http import address
from appl.errors import InvalidOption, RunError, ToolError, ToolServerError, TraceCorrupt, nearest
from appl.mcp.connection import ServerCommand, ServerConnection
from appl.prompt import ToolMessage, digest_of
from appl.runtime.answers.schema import checkable
from appl.runtime.concurrency.fiber import in_coroutine, strand_here
from appl.runtime.concurrency.future import awaited, result_of
from appl.runtime.concurrency.parallel import scope_beside
from appl.runtime.concurrency.task import Task, context_for
from appl.runtime.frame import FrameRun, here
from appl.runtime.tools import offers
from appl.runtime.tools.tool import Effect, SchemaReader, Tool

__all__ = ["MCPServer", "stdio"]

TIMEOUT = 30.0
CALL_TIMEOUT = 60.0
"""The default deadline of a call in seconds, which is also that of the TypeScript SDK."""

_CLOSING = 20.0
_SOME = 3  # parts of a schema that a message names


def stdio(
    command: str | os.PathLike[str],
    args: Sequence[str | os.PathLike[str]] = (),
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT,
    call_timeout: float | None = CALL_TIMEOUT,
    prefix: str = "",
    pure: bool | Collection[str] = (),
    idempotent: bool | Collection[str] = (),
    errlog: TextIO | None = None,
) -> MCPServer:
    """The server that *command* starts, with its standard input and output as transport.

    It inherits few variables (``PATH``, ``HOME``, …); *env* adds others. Its standard error goes to
    *errlog*, by default to this process's. See ``MCPServer``.
    """
    if isinstance(args, str):
        raise InvalidOption(f"stdio(command, args) takes a list of arguments, got {args!r}")
    words = [os.fspath(command), *(os.fspath(arg) for arg in args)]
    server = MCPServer(
        ServerCommand(words, dict(env or {}), cwd, errlog),
        name=_shown(words),
        timeout=timeout,
        call_timeout=call_timeout,
        prefix=prefix,
        pure=pure,
        idempotent=idempotent,
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
    tools, so that two servers may have tools of one name. *pure* and *idempotent* are the server's
    names of tools without effects, and of those that may run twice (``True``: all of them): what
    the server itself says of that is not believed. Needs the package ``mcp``: ``pip install
    'appl[mcp]'``.

    Raises ``ToolServerError`` when its block begins, and in each call that fails.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str = "",
        timeout: float = TIMEOUT,
        call_timeout: float | None = CALL_TIMEOUT,
        prefix: str = "",
        pure: bool | Collection[str] = (),
        idempotent: bool | Collection[str] = (),
    ) -> None:
        self.name = name or (address(target) if isinstance(target, str) else type(target).__name__)
        self._target, self._prefix = target, prefix
        self._timeout, self._call_timeout = timeout, call_timeout
        self._effects: dict[Effect, Collection[str] | None] = {
            "pure": _named("pure", pure),
            "idempotent": _named("idempotent", idempotent),
        }
        self._identity = _identity([target] if isinstance(target, str) else ["", self.name])
        self._tools: dict[str, Tool] | None = None
        self._link: ServerConnection | None = None
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
            with contextlib.suppress(TimeoutError):
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
        self._run = frame.run
        observe = frame.run.outside.observe
        start(lambda: observe(frame, "mcp", self._start), context_for(frame))
        return task

    def _start(self) -> list[dict[str, Any]]:
        link = self._connected()
        offered = link.offered.result()
        self._link = link
        self._show(offered)
        return offered

    def _connected(self) -> ServerConnection:
        """A connection to the server, which is starting."""
        link = ServerConnection(self.name, self._timeout, self._call_timeout)
        link.open(self._target)
        return link

    def _reached(self) -> ServerConnection:
        """The connection for a call; starts the server if a record gave its offer.

        It waits for the start, and so runs on a worker thread. Raises ``ToolServerError``.
        """
        with self._starting:
            if self._tools is None:
                raise ToolServerError(f"the MCP server {self.name!r} is closed")
            link, late = self._link, self._link is None
            if link is None:
                link = self._link = self._connected()
        offered = link.offered.result()
        if late:
            self._show(offered, self._recorded)
        return link

    def _show(
        self, offered: list[dict[str, object]], recorded: list[dict[str, object]] | None = None
    ) -> None:
        """Show the user the tools that are new to them, or to the *recorded* run."""
        assert self._run is not None
        lines = offers.news(self.name, self._identity, offered, self._run.tool_memory, recorded)
        if lines and not self._run.reporter.has_reported(("mcp", *lines)):
            self._run.reporter.tell_once(("mcp", *lines), lines[0])
            for line in lines[1:]:
                self._run.reporter.tell(line)

    def _take(self, offered: Any) -> None:
        """Have the tools that are *offered*, or stop the server; a record may hold anything."""
        try:
            self._recorded = _read(offered)
            self._check_names()
            self._tools = self._made()
        except BaseException:
            self._close()
            raise

    def _made(self) -> dict[str, Tool]:
        tools: dict[str, Tool] = {}
        for definition in self._recorded:
            tool = self._tool(definition)
            if tool.name in tools:
                offered = self._offered_names()
                same = (f"{each!r:.80}" for each in offered if self._shown(each) == tool.name)
                raise ToolError(
                    f"two tools of the MCP server {self.name!r} are called {tool.name!r} here: "
                    f"{', '.join(same)}. One would stand for the other, so that neither is offered"
                )
            tools[tool.name] = tool
        return tools

    def _check_names(self) -> None:
        """Refuse an effect for a tool that the server has not."""
        offered_names = self._offered_names()
        for effect, names in self._effects.items():
            for name in names or ():
                if name not in offered_names:
                    raise InvalidOption(
                        f"{effect}= names {name!r}, which is no tool of the MCP server "
                        f"{self.name!r}{nearest(name, offered_names)}"
                    )

    def _offered_names(self) -> list[str]:
        return [str(definition["name"]) for definition in self._recorded]

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
        reader = ArgumentReader(shown, offered["parameters"], self._tell_unchecked)
        return Tool(shown, offered["description"], invoke, self._effect(name), reader)

    def _effect(self, name: str) -> Effect:
        """The effect of a tool as the user says, not as the server does."""
        for effect, names in self._effects.items():
            if names is None or name in names:
                return effect
        return "effect"

    def _tell_unchecked(self, tool: str, parts: list[str]) -> None:
        """Tell once what of the arguments of *tool* is left to the server to check."""
        if self._run is not None:
            some = ", ".join(parts[:_SOME]) + (", …" if len(parts) > _SOME else "")
            self._run.reporter.tell_once(
                ("mcp arguments", self._identity, tool),
                f"the MCP server {self.name!r}: the arguments of {tool} are not checked here "
                f"against {some}; the rest of its schema is",
            )

    def _close(self) -> ThreadFuture[None] | None:
        with self._starting:
            link, self._link, self._tools = self._link, None, None
        return link.close() if link is not None else None


def _named(option: str, selection: object) -> Collection[str] | None:
    """The names of tools that *option* was given; ``None`` for all of them."""
    if isinstance(selection, bool):
        return None if selection else ()
    names = (
        () if isinstance(selection, str) or not isinstance(selection, Collection) else (*selection,)
    )
    if (selection and not names) or not all(isinstance(name, str) for name in names):
        raise InvalidOption(
            f"{option}= takes True, or a list of names of tools, got {selection!r:.80}"
        )
    return frozenset(names)


def _read(offered: Any) -> list[dict[str, Any]]:
    """*offered*, if it is a list of tools as a connection gives it. Raises ``TraceCorrupt``."""
    kinds = {"name": str, "description": str, "parameters": dict, "effect": str}
    for tool in offered if isinstance(offered, list) else [None]:
        if not isinstance(tool, dict) or any(
            not isinstance(tool.get(key), kind) for key, kind in kinds.items()
        ):
            raise TraceCorrupt(f"a recorded tool of an MCP server is none: {tool!r:.80}")
    return list(offered)


class ArgumentReader(SchemaReader):
    """Checks arguments against a server's schema, as far as that can be done here.

    The schema is read at the first call: a server may offer thousands. *tell* is told then of what
    is left out: references to elsewhere, and patterns that have no linear time.
    """

    def __init__(
        self, name: str, schema: Mapping[str, Any], tell: Callable[[str, list[str]], None]
    ) -> None:
        self.schema = dict(schema)
        self._name, self._tell = name, tell
        self._is_read = False

    def read(self, text: str) -> dict[str, object]:
        """The arguments by name. Raises ``BadArguments``."""
        if not self._is_read:
            checked, parts = checkable(self.schema)
            super().__init__(self._name, self.schema, checked)
            self._is_read = True
            if parts:
                self._tell(self._name, parts)
        return super().read(text)
