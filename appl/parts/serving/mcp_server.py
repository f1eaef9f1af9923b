"""Served functions as MCP tools, by the official package: on standard streams, or at ``/mcp``.

The package has the types of tasks, but does not dispatch them (2.3). So a call names its run in the
result's ``_meta``, and a further tool gets the result of a run by its name: also after a crash, and
for a client that did not wait.

Invariant: a tool call is a run like any other. It has no session that a restart of the server could
end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from appl.backend import canonical
from appl.base.extras import needed
from appl.base.packages import version
from appl.parts.serving.execution import RunSettings
from appl.parts.serving.functions import Schema, ServedFunction, WrongArguments
from appl.parts.serving.runs import RunLimits, Runs
from appl.parts.serving.served_run import ServedRun
from appl.parts.web.lifetime import stopping
from appl.parts.web.refusals import Refusal

_USE = "`appl serve --mcp`"
with needed("mcp", _USE):
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.shared.exceptions import MCPError

RUN, KEY = "appl/run", "appl/key"
"""Names in ``_meta``: of the run, in a result; of what makes a repeated call the same run, in a
request."""
RESULT_TOOL = "appl_run"
_LONGEST_WAIT = 50.0  # many clients give up after 60 s
_ABOUT_RESULT = (
    "The result of an earlier call of another tool of this server, by the name of its run: of one "
    "that took too long, that waited for a person, or whose server was stopped meanwhile."
)


class FunctionTools:
    """The functions of *runs* as tools."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.server: Server[Any] = Server(
            "appl",
            version=version(),
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = [_tool(function) for function in self._runs.functions.values()]
        fields = {
            "run": {"type": "string", "description": "the name of the run"},
            "wait": {"type": "number", "description": "seconds to wait for its end"},
        }
        schema = {"type": "object", "properties": fields, "required": ["run"]}
        return types.ListToolsResult(
            tools=[
                *tools,
                types.Tool(name=RESULT_TOOL, description=_ABOUT_RESULT, input_schema=schema),
            ]
        )

    async def _call(
        self, context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        given = params.arguments or {}
        try:
            if params.name == RESULT_TOOL and RESULT_TOOL not in self._runs.functions:
                return await self._known(given)
            function = self._runs.functions.get(params.name)
            if function is None:
                raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r:.80}")
            arguments = canonical(given)
            function.arguments(arguments)
            key = (params.meta or {}).get(KEY)
            key = key if isinstance(key, str) and key else None
            run = await self._runs.accept(function, arguments, key)
            with contextlib.suppress(Exception):  # only for clients that want to hear of progress
                await context.session.report_progress(0.0, None, f"run {run.name}")
            await run.over()
            return result_of(run)
        except WrongArguments as error:
            return _failed(str(error), {"detail": error.problems})
        except Refusal as refusal:
            return _failed(str(refusal), {"code": refusal.code, "after": refusal.retry_after})

    async def _known(self, given: Mapping[str, Any]) -> types.CallToolResult:
        name, wait = given.get("run"), given.get("wait", _LONGEST_WAIT)
        if not isinstance(name, str) or isinstance(wait, bool) or not isinstance(wait, int | float):
            return _failed("give the name of a run, and a number of seconds as wait", {})
        run = await self._runs.find(name)
        if run is None:
            return _failed(f"there is no run {name!r:.120} of these functions", {})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(wait, _LONGEST_WAIT))):
                await run.over()
        return result_of(run)


def _tool(function: ServedFunction) -> types.Tool:
    return types.Tool(
        name=function.name,
        description=function.description or None,
        input_schema=function.parameters,
        output_schema=_wrapped(function.returns),
    )


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object"


def _wrapped(schema: Schema) -> Schema:
    """*schema* as that of an object, which a structured result has to be."""
    if _is_object(schema):
        return schema
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    outer: Schema = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def result_of(run: ServedRun) -> types.CallToolResult:
    """The result of a tool call whose run has ended, or goes on."""
    meta = {RUN: run.name}
    data = run.as_data()
    if run.state != "finished":
        return _failed(_told(run, data), data, meta)
    value = data["result"]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    structured = value if _is_object(run.function.returns) else {"result": value}
    return types.CallToolResult(content=[_text(text)], structured_content=structured, _meta=meta)


def _told(run: ServedRun, data: Mapping[str, Any]) -> str:
    later = f"call {RESULT_TOOL} with run={run.name!r} later"
    if run.state == "waiting":
        waits = "; ".join(f"{each['text']} ({each['address']})" for each in data["waits"])
        return f"the run waits for something outside: {waits}; {later}"
    if run.state in ("failed", "cancelled"):
        return f"{data['error']['type']}: {data['error']['message']} (run {run.name})"
    return f"the run is {run.state}; {later}"


def _failed(
    text: str, data: Mapping[str, Any], meta: dict[str, Any] | None = None
) -> types.CallToolResult:
    return types.CallToolResult(
        content=[_text(text)], structured_content=dict(data), is_error=True, _meta=meta
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


# -- on standard streams


async def serve_stdio(
    functions: Sequence[ServedFunction], settings: RunSettings, limits: RunLimits, grace: float
) -> None:
    """Serve *functions* as tools until standard input ends, SIGTERM or SIGINT comes."""
    runs = Runs({each.name: each for each in functions}, settings, limits)
    over = asyncio.Event()
    tools = FunctionTools(runs)
    try:
        with stopping(over, until_eof=False):
            await runs.start()
            async with stdio_server() as (reading, writing):
                options = tools.server.create_initialization_options()
                serving = asyncio.create_task(tools.server.run(reading, writing, options))
                serving.add_done_callback(lambda _: over.set())
                await over.wait()
                await runs.stop(grace)
                # The answers of runs that have ended get a moment to leave.
                with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                    async with asyncio.timeout(0.5):
                        await serving
    finally:
        runs.close()


# -- at /mcp


@contextlib.asynccontextmanager
async def route(runs: Runs, most_bytes: int) -> AsyncIterator[Callable[..., Any]]:
    """A block with the handler of ``/mcp``.

    Each request stands alone: no session is kept, so that none is lost with the server.
    """
    manager = StreamableHTTPSessionManager(
        FunctionTools(runs).server,
        json_response=True,
        stateless=True,
        max_request_body_size=most_bytes,
    )

    async def answer(request: web.Request) -> web.StreamResponse:
        exchange = _Exchange(request, await request.read())
        await manager.asgi_app(exchange.scope(), exchange.receive, exchange.send)
        assert exchange.response is not None, "an application answers"
        return exchange.response

    async with manager.run():
        yield answer


class _Exchange:
    """One request of aiohttp for an application of ASGI, and its response."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request, self._body, self._read = request, body, False
        self.response: web.Response | None = None

    def scope(self) -> dict[str, Any]:
        """The request as ASGI has it."""
        request = self._request
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.scheme,
            "path": request.path,
            "raw_path": request.path.encode(),
            "query_string": request.query_string.encode(),
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
            "server": None,
            "client": None,
        }

    async def receive(self) -> dict[str, Any]:
        """The body, and then silence: the connection is looked after elsewhere."""
        if self._read:
            await asyncio.Event().wait()
        self._read = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take a part of the response."""
        if message["type"] == "http.response.start":
            self.response = web.Response(status=message["status"])
            for name, value in message.get("headers", ()):
                if name.lower() != b"content-length":
                    self.response.headers.add(name.decode("latin-1"), value.decode("latin-1"))
        elif self.response is not None:
            body = self.response.body
            assert body is None or isinstance(body, bytes)
            self.response.body = (body or b"") + bytes(message.get("body", b""))
