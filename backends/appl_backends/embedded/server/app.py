"""The routes of the server, and who may use them.

Invariant: every failure becomes an answer here; an unexpected one is logged, and says no more than
that it happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Any

from aiohttp import web

from appl.errors import ApplError
from appl.parts.web import refusals
from appl.parts.web.guard import (
    ARRIVAL_SECONDS,
    READING_SECONDS,
    Arrivals,
    Hosts,
    arrive,
)
from appl.parts.web.keys import Keys
from appl.parts.web.refusals import Refusal, refusal_of
from appl_backends.embedded import Embedded
from appl_backends.embedded.sampler import Draw
from appl_backends.embedded.server.chat import Chat
from appl_backends.embedded.server.completions import Completions
from appl_backends.embedded.server.embeddings import Embeddings
from appl_backends.embedded.server.fields import parsed
from appl_backends.embedded.server.info import Info
from appl_backends.embedded.server.jobs import Jobs
from appl_backends.embedded.server.messages import MessagesRoute
from appl_backends.embedded.server.native import Generate
from appl_backends.embedded.server.responses import Responses
from appl_backends.embedded.server.special_tokens import Words
from appl_backends.embedded.task import EngineTask

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LOG = logging.getLogger("appl.serve")
_ADMIN = frozenset({"/flush_cache", "/shutdown"})
MOST_BYTES = 2 << 20


class EngineServer:
    """The embedded engine behind HTTP; ``app`` is what aiohttp runs, *stop* ends the process."""

    def __init__(
        self,
        backend: Embedded,
        keys: Keys,
        stop: Callable[[], None],
        *,
        queue: int = 1024,
        most_bytes: int = MOST_BYTES,
        incremental: bool = False,
        hosts: Collection[str] = (),
        arrival: float = ARRIVAL_SECONDS,
        reading: float = READING_SECONDS,
    ) -> None:
        self._backend, self._keys, self._stop, self._most = backend, keys, stop, most_bytes
        self._hosts, self._arrival = Hosts(hosts), arrival
        self.arrivals = Arrivals(arrival, reading)
        self.jobs = Jobs(backend, queue)
        self._words = Words(backend.tokenizer, backend.engine.model.shape.vocab)
        self._info = Info(self.jobs, {"incremental_streaming_output": incremental})
        self.app = web.Application(
            client_max_size=most_bytes, middlewares=[self._answered, self._guarded]
        )
        generate = Generate(self.jobs, self._words, incremental=incremental)
        self.app.add_routes(
            [web.route(method, path, handler) for method, path, handler in self._routes(generate)]
        )

    def _routes(self, generate: Generate) -> Iterator[tuple[str, str, Handler]]:
        info = self._info
        yield "POST", "/generate", generate.answer
        yield "PUT", "/generate", generate.answer
        yield "POST", "/v1/chat/completions", Chat(self.jobs, self._words).answer
        yield "POST", "/v1/completions", Completions(self.jobs, self._words).answer
        yield "POST", "/v1/embeddings", Embeddings(self._backend).answer
        yield "POST", "/v1/responses", Responses(self.jobs, self._words).answer
        messages = MessagesRoute(self.jobs, self._words)
        yield "POST", "/v1/messages", messages.answer
        yield "POST", "/v1/messages/count_tokens", messages.count
        yield "GET", "/v1/models", _json(info.models)
        yield "GET", "/v1/models/{model}", self._model
        yield "GET", "/v1/loads", _json(info.loads)
        yield "GET", "/health", self._health
        yield "GET", "/health_generate", self._health_generate
        yield "GET", "/metrics", self._metrics
        yield "POST", "/abort_request", self._abort
        yield "GET", "/flush_cache", self._flush
        yield "POST", "/flush_cache", self._flush
        yield "POST", "/shutdown", self._shutdown
        for older in ("", "get_"):
            yield "GET", f"/{older}model_info", _json(info.model)
            yield "GET", f"/{older}server_info", _json(info.server)
        for version in ("", "/v1"):
            yield "POST", f"{version}/tokenize", self._tokenize
            yield "POST", f"{version}/detokenize", self._detokenize

    # -- around every request -------------------------------------------------------------------

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._hosts.check(request)
        given = request.headers.get("Authorization")
        if given is None and "x-api-key" in request.headers:  # as Anthropic's clients send it
            given = f"Bearer {request.headers['x-api-key']}"
        if not self._keys.allow(request.path, given, admin=request.path in _ADMIN):
            return web.json_response({"error": "Unauthorized"}, status=401)
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
        say = refusals.openai if request.path.startswith("/v1/") else refusals.native
        if request.path.startswith("/v1/messages"):
            say = refusals.anthropic
        try:
            return await handler(request)
        except Refusal as refusal:
            return say(refusal)
        except ApplError as error:
            return say(refusal_of(error))
        except web.HTTPRequestEntityTooLarge:
            return say(Refusal(f"the body is larger than {self._most} bytes", 413))
        except web.HTTPException as error:
            return web.json_response({"detail": error.reason}, status=error.status)
        except ConnectionError:
            raise  # nobody is there to be answered
        except Exception:
            _LOG.exception("the request %s %s failed", request.method, request.path)
            return say(Refusal("the server failed inside; its log says more", 500))

    # -- short routes ---------------------------------------------------------------------------

    async def _model(self, request: web.Request) -> web.Response:
        card = self._info.card()
        if request.match_info["model"] != card["id"]:
            raise Refusal("The model does not exist", 404, param="model", code="model_not_found")
        return web.json_response(card)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _health_generate(self, request: web.Request) -> web.Response:
        start = self._backend.tokenizer.start
        await self._backend.worker.run(EngineTask([start], [Draw(0.0, 1.0, 0, 0)], 1))
        return web.Response()

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self._info.metrics())

    async def _abort(self, request: web.Request) -> web.Response:
        given = parsed(await request.read())
        if not given.flag("abort_all"):
            self.jobs.abort(given.text("rid", "") or "")
        elif not self._keys.allow(request.path, request.headers.get("Authorization"), admin=True):
            return web.json_response({"error": "Unauthorized"}, status=401)
        else:
            self.jobs.abort_all()
        return web.Response()

    async def _flush(self, request: web.Request) -> web.Response:
        if self.jobs.open or not self._backend.engine.flush():
            raise Refusal("Cache not flushed because there are pending requests.")
        return web.Response(text="Cache flushed.\n")

    async def _shutdown(self, request: web.Request) -> web.Response:
        self._stop()
        return web.Response()

    async def _tokenize(self, request: web.Request) -> web.Response:
        given = parsed(await request.read())
        prompt = given.text("prompt")
        if prompt is None:
            raise given.wrong("prompt", "a string")
        room = self._backend.engine.context
        if len(prompt) > room * self._backend.tokenizer.longest:
            raise Refusal(f"the prompt has {len(prompt)} characters, more than {room} tokens hold")
        tokens = await asyncio.to_thread(self._words.encode, prompt)
        return web.json_response({"tokens": tokens, "count": len(tokens), "max_model_len": room})

    async def _detokenize(self, request: web.Request) -> web.Response:
        given = parsed(await request.read())
        tokens = given.tokens("tokens", self._words.vocab)
        if len(tokens) > self._backend.engine.context:
            raise Refusal(f"{len(tokens)} tokens are more than the model's context holds")
        special = not given.flag("skip_special_tokens", True)
        return web.json_response({"text": self._words.decode(tokens, special=special)})


def _json(facts: Callable[[], dict[str, Any]]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(facts())

    return answer
