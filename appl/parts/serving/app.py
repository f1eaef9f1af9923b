"""The routes of a server of functions, and who may use them.

Invariant: whatever a client sends gets an answer with the name of its run, if it has one; a client
that reads slowly, or not at all, holds up nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web

from appl.backend import canonical
from appl.errors import ApplError
from appl.parts.serving import chat, embeddings, openapi
from appl.parts.serving.functions import ServedFunction, WrongArguments
from appl.parts.serving.journal import read
from appl.parts.serving.served_run import ServedRun, pieces
from appl.parts.web import refusals
from appl.parts.web.events import EventStream
from appl.parts.web.guard import (
    ARRIVAL_SECONDS,
    READING_SECONDS,
    Arrivals,
    Hosts,
    arrive,
)
from appl.parts.web.keys import Keys
from appl.parts.web.refusals import Refusal

if TYPE_CHECKING:
    from appl.parts.serving.runs import Runs

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LOG = logging.getLogger("appl.serve")
MOST_BYTES = 2 << 20
RUN = "Appl-Run"
"""The header with the name of the run."""
_ALIVE, _ALIVE_SECONDS = "the run goes on", 15.0
_LONGEST_WAIT = 60.0
_MOST_KEY = 255
_ADMIN = re.compile(r"/runs/[^/]+/(answers|resume)")
_OPEN = ("/docs", "/openapi.json")
_EVENTS = "text/event-stream"
_RETRIES = "x-stainless-retry-count"
"""The header by which OpenAI's clients say that they send a request again."""
_NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients repeat a request that failed; here it would be another run."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"


class FunctionServer:
    """Functions behind HTTP; ``app`` is what aiohttp runs.

    With *is_local* the pages that describe the functions are shown without a key.
    """

    def __init__(
        self,
        runs: Runs,
        keys: Keys,
        *,
        most_bytes: int = MOST_BYTES,
        hosts: Collection[str] = (),
        arrival: float = ARRIVAL_SECONDS,
        reading: float = READING_SECONDS,
        is_local: bool = True,
    ) -> None:
        self._runs, self._keys, self._most = runs, keys, most_bytes
        self._hosts, self._arrival = Hosts(hosts), arrival
        self._is_local, self.arrivals = is_local, Arrivals(arrival, reading)
        self.app = web.Application(
            client_max_size=most_bytes, middlewares=[self._answered, self._guarded]
        )
        self.app.add_routes(
            [
                web.post("/functions/{name}", self._call),
                web.get("/functions", self._list),
                web.get("/runs/{run}", self._run),
                web.get("/runs/{run}/events", self._events),
                web.post("/runs/{run}/answers", self._answers),
                web.post("/runs/{run}/resume", self._resume),
                web.post("/runs/{run}/cancel", self._cancel),
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/embeddings", self._embeddings),
                web.get("/v1/models", self._models),
                web.get("/v1/models/{model}", self._model),
                web.get("/openapi.json", self._document),
                web.get("/docs", self._page),
                web.get("/health", self._health),
            ]
        )

    # -- around every request

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._hosts.check(request)
        path = request.path
        is_open = self._is_local and path in _OPEN
        given = request.headers.get("Authorization")
        admin = _ADMIN.fullmatch(path) is not None
        if not is_open and not self._keys.allow(path, given, admin=admin):
            what = "the admin key" if admin else "a key"
            raise Refusal(f"{path} needs {what}: Authorization: Bearer KEY", 401)
        await arrive(request, self._most, self._arrival)
        return await handler(request)

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.arrivals.begin(request)
        try:
            return await self._response(request, handler)
        finally:
            self.arrivals.end(request)

    async def _response(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        say = refusals.openai if request.path.startswith("/v1/") else _refused
        try:
            return await handler(request)
        except Refusal as refusal:
            return say(refusal)
        except WrongArguments as error:
            if request.path.startswith("/v1/"):
                return say(Refusal(str(error), 422))
            data = {"type": "WrongArguments", "message": str(error), "detail": error.problems}
            return web.json_response({"error": data}, status=422)
        except web.HTTPRequestEntityTooLarge:
            return say(Refusal(f"the body is larger than {self._most} bytes", 413))
        except web.HTTPMethodNotAllowed as error:
            ways = " or ".join(sorted(error.allowed_methods))
            return say(Refusal(f"{request.path} takes {ways}, got {error.method}", 405))
        except web.HTTPNotFound:
            return say(Refusal(f"there is no {request.path:.200}; /docs shows what there is", 404))
        except web.HTTPException as error:
            return say(Refusal(error.reason, error.status))
        except ConnectionError:
            raise  # nobody is there to be answered
        except ApplError as error:
            _LOG.warning("the request %s %s failed: %s", request.method, request.path, error)
            return say(Refusal(str(error), 500))
        except Exception:
            _LOG.exception("the request %s %s failed", request.method, request.path)
            return say(Refusal("the server failed inside; its log says more", 500))

    # -- functions

    def _function(self, name: str) -> ServedFunction:
        found = self._runs.functions.get(name)
        if found is None:
            known = ", ".join(self._runs.functions)
            raise Refusal(f"there is no function {name!r:.80}; served here: {known}", 404)
        return found

    async def _list(self, request: web.Request) -> web.Response:
        found = [
            {
                "name": each.name,
                "description": each.description,
                "arguments": each.parameters,
                "result": each.returns,
            }
            for each in self._runs.functions.values()
        ]
        return web.json_response({"functions": found})

    async def _call(self, request: web.Request) -> web.StreamResponse:
        function = self._function(request.match_info["name"])
        text = await request.read() or b"{}"
        function.arguments(text)
        streams = _EVENTS in request.headers.get("Accept", "")
        run = await self._accepted(request, function, canonical(read(text)), streams)
        if streams:
            return await self._follow(request, run, 0)
        if "respond-async" in request.headers.get("Prefer", ""):
            return _as_json(run, 202)
        await self._ended(run)
        return _as_json(run, run.status)

    async def _accepted(
        self, request: web.Request, function: ServedFunction, arguments: str, streams: bool
    ) -> ServedRun:
        key = request.headers.get("Idempotency-Key")
        if key is not None and not 0 < len(key) <= _MOST_KEY:
            raise Refusal(f"an Idempotency-Key has 1 to {_MOST_KEY} characters")
        again = request.headers.get(_RETRIES, "0") not in ("0", "")
        accepting = asyncio.ensure_future(
            self._runs.accept(function, arguments, key, streams=streams, again=again)
        )
        try:
            return await asyncio.shield(accepting)
        except asyncio.CancelledError:  # the client has gone; its run begins all the same
            accepting.add_done_callback(self._left)
            raise

    def _left(self, accepting: asyncio.Future[ServedRun]) -> None:
        if not accepting.cancelled() and accepting.exception() is None:
            self._runs.orphan(accepting.result())

    async def _ended(self, run: ServedRun) -> None:
        """Wait for the end of *run*, with its client."""
        try:
            await run.over()
        except asyncio.CancelledError:
            self._runs.orphan(run)
            raise

    # -- runs

    async def _found(self, request: web.Request) -> ServedRun:
        name = request.match_info["run"]
        run = await self._runs.find(name)
        if run is None:
            raise Refusal(f"there is no run {name!r:.120} of these functions", 404)
        return run

    async def _run(self, request: web.Request) -> web.Response:
        run = await self._found(request)
        seconds = _seconds(request.query.get("wait", "0"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _LONGEST_WAIT)):
                await run.over()
        return _as_json(run, 202 if run.status in (202, 503) else 200)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        run = await self._found(request)
        last = request.headers.get("Last-Event-ID", "0")
        try:
            position = int(last[:16])
        except ValueError:
            raise Refusal(f"Last-Event-ID is the id of an event, got {last!r:.40}") from None
        return await self._follow(request, run, position)

    async def _answers(self, request: web.Request) -> web.Response:
        run = await self._found(request)
        given = _object(await request.read())
        if not given:
            raise Refusal('send answers by address, as {"/main.0/ask_person.0": "yes"}')
        texts = {address: _as_text(value) for address, value in given.items()}
        await self._runs.answer(run, texts, request.headers.get("Appl-By"))
        return _as_json(await self._found(request), 202)

    async def _resume(self, request: web.Request) -> web.Response:
        run = await self._found(request)
        given = _object(await request.read() or b"{}")
        rerun, assume = given.get("rerun", []), given.get("assume", {})
        fits = isinstance(rerun, list) and all(isinstance(each, str) for each in rerun)
        fits = fits and isinstance(assume, dict)
        if not fits or not given.keys() <= {"rerun", "assume"}:
            raise Refusal('send {"rerun": [ADDRESS, …], "assume": {ADDRESS: TEXT}}, or nothing')
        taken = {address: _as_text(value) for address, value in assume.items()}
        await self._runs.resume(run, tuple(rerun), taken)
        return _as_json(await self._found(request), 202)

    async def _cancel(self, request: web.Request) -> web.Response:
        run = await self._found(request)
        self._runs.cancel(run)
        await run.over()
        return _as_json(run, 200)

    # -- events

    async def _follow(
        self, request: web.Request, run: ServedRun, position: int
    ) -> web.StreamResponse:
        """Send what *run* streams behind *position*, then the run itself."""
        async with EventStream(request, done=False, headers={RUN: run.name}) as stream:
            await stream.send({"run": run.name, "function": run.function.name}, "run")
            async for event in pieces(run, position, _ALIVE_SECONDS):
                if event is None:
                    await stream.comment(_ALIVE)
                else:
                    data = event.data if event.kind == "call" else {event.kind: event.data}
                    await stream.send(data, event.kind, event.at)
            await stream.send(run.as_data(), "end")
        return stream.response

    # -- OpenAI's interface

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = _object(await request.read())
        function = chat.asked(body, self._runs.functions)
        arguments = canonical(chat.arguments(body, function))
        function.arguments(arguments)
        streams = bool(body.get("stream"))
        run = await self._accepted(request, function, arguments, streams)
        if streams:
            return await self._chat_stream(request, run, body)
        await self._ended(run)
        if run.state != "finished":
            return _named(refusals.openai(chat.refusal(run)), run)
        return _named(web.json_response(chat.answer(run)), run)

    async def _chat_stream(
        self, request: web.Request, run: ServedRun, body: Mapping[str, Any]
    ) -> web.StreamResponse:
        async with EventStream(request, headers={RUN: run.name}) as stream:
            await stream.send(chat.delta(run, {"role": "assistant", "content": ""}))
            said = ""
            async for event in pieces(run, 0, _ALIVE_SECONDS):
                if event is None:
                    await stream.comment(_ALIVE)
                elif event.kind == "text":
                    said += event.data
                    await stream.send(chat.delta(run, {"content": event.data}))
            if run.state != "finished":
                why = chat.refusal(run)
                error = {"message": str(why), "type": "server_error", "code": why.code}
                await stream.send({"error": {**error, "param": None}})
                return stream.response
            rest = chat.text_of(run)
            if rest.startswith(said) and rest != said:  # what was not streamed
                await stream.send(chat.delta(run, {"content": rest[len(said) :]}))
            await stream.send(chat.delta(run, {}, "stop"))
            options = body.get("stream_options")
            if isinstance(options, dict) and options.get("include_usage"):
                head = chat.head(run, chunk=True)
                await stream.send({**head, "choices": [], "usage": chat.usage(run)})
        return stream.response

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = _object(await request.read())
        function = embeddings.function_in(body, self._runs.functions)
        arguments = canonical(embeddings.arguments(body, function))
        function.arguments(arguments)
        run = await self._accepted(request, function, arguments, False)
        await self._ended(run)
        if run.state != "finished":
            return _named(refusals.openai(chat.refusal(run)), run)
        return _named(web.json_response(embeddings.answer(run, body)), run)

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response(chat.models(self._runs.functions))

    async def _model(self, request: web.Request) -> web.Response:
        function = self._runs.functions.get(request.match_info["model"])
        if function is None or not (function.chat or function.embeds):
            raise Refusal("The model does not exist", 404, param="model", code="model_not_found")
        return web.json_response(chat.card(function))

    # -- about the server

    async def _document(self, request: web.Request) -> web.Response:
        functions = self._runs.functions.values()
        made = openapi.document(functions, keys=self._keys.api is not None)
        return web.json_response(made)

    async def _page(self, request: web.Request) -> web.Response:
        url = f"{request.scheme}://{request.host}"
        functions = self._runs.functions.values()
        text = openapi.page(functions, url, keys=self._keys.api is not None)
        headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _health(self, request: web.Request) -> web.Response:
        status = 503 if self._runs.stopping else 200
        return web.json_response({"status": "stopping" if status == 503 else "ok"}, status=status)


def _as_json(run: ServedRun, status: int) -> web.Response:
    response = web.json_response(run.as_data(), status=status)
    if status in (202, 503):
        response.headers["Location"] = f"/runs/{run.name}"
    if status == 503 or (status == 202 and run.state != "waiting"):
        response.headers["Retry-After"] = "5" if status == 503 else "1"
    return _named(response, run)


def _named(response: web.Response, run: ServedRun) -> web.Response:
    response.headers[RUN] = run.name
    if run.state in ("failed", "cancelled", "waiting"):
        response.headers.update(_NO_RETRY)
    return response


def _refused(refusal: Refusal) -> web.Response:
    error = {"type": "Refusal", "message": str(refusal), "code": refusal.code}
    response = web.json_response({"error": error}, status=refusal.status)
    if refusal.retry_after is not None:
        response.headers["Retry-After"] = str(refusal.retry_after)
    return response


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refusal("the body must be a JSON object")
    return found


def _as_text(value: object) -> str:
    """An answer as a person would type it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise Refusal(f"wait is a number of seconds, got {text!r:.40}")
    return seconds
