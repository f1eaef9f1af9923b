"""The client of an SGLang server: native requests of token ids over one pool of connections.

Invariant: a request that was sent is answered, or has failed, or was told to stop; and a prompt
that goes on from an answer begins with the very tokens that the server has generated.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from appl.backend import (
    UNCONDITIONAL,
    Emit,
    Profile,
    Request,
    Response,
    Sample,
    Sampling,
    Usage,
    check_provider_fields,
)
from appl.backend.price import Free
from appl.errors import (
    BackendError,
    BackendUnavailable,
    InvalidOption,
    ModelNotFound,
    PromptTooLong,
    Unsupported,
    nearest,
)
from appl.prompt.secret import conceal
from appl_backends.http.client import Body, most_connections
from appl_backends.option_scores import scored
from appl_backends.sglang import answers, request_bodies
from appl_backends.sglang.answer_text import AnswerReader, GrowingAnswers
from appl_backends.sglang.heads import FixedHead
from appl_backends.sglang.probe import EmbeddingsOnly, ServerFacts, server_at
from appl_backends.sglang.server_setup import Ready, check_tokenizer, load
from appl_backends.sglang.template import NOBODY, TAKEN
from appl_backends.sglang.tokens import TokenRun, begun
from appl_backends.sglang.tools import Offer, offer_of
from appl_backends.sglang.wire import STOP_S, Wire

if TYPE_CHECKING:
    from appl.runtime.scheduling.order import CallQueue, Order
    from appl_backends.sglang.adapters import Adapters
    from appl_backends.sglang.drafting import DraftingServer
    from appl_backends.sglang.prefill import PrefillServer

URL = "http://127.0.0.1:30000"
ENVIRONMENT = ("SGLANG_URL", "SGLANG_API_KEY", "SGLANG_ADMIN_KEY")
BESIDE = ("SGLANG_DRAFTING_URL", "SGLANG_PREFILL_URL")
FEATURES = frozenset(
    {
        "choice_methods",
        "choices",
        "embeddings",
        "grammar",
        "images",
        "logprobs",
        "n",
        "prefill",
        "prefix_cache",
        "prompt_logprobs",
        "reasoning",
        "regex",
        "schema",
        "seed",
        "stop_tokens",
        "stream",
        "tools",
    }
)
DRAFTING = frozenset({"drafts", "draft_runs"})
"""Further features of a client that has a server that speculates."""
TIE = 1e-6
_LONG = 32768
_COLD = 256
"""So many tokens computed twice cost more than to compute a prompt before its choices."""


class SGLang:
    """A :class:`~appl.backend.Backend` that asks the SGLang server at *url*.

    *url*, *api_key* and *admin_key* (which a server that has one wants for aborts) default to the
    variables ``SGLANG_URL``, ``SGLANG_API_KEY`` and ``SGLANG_ADMIN_KEY``; those keys are sent to
    no other address than that one. *tokenizer* is the folder
    with the model's ``tokenizer.json`` and chat template (default: where the server says that it
    has it); *template* is another chat template: ``plain``, a Jinja file, or the template itself.
    *max_tokens* bounds answers that say nothing themselves (default: the room in the context).
    *connections* is how many requests are on their way at once, *connect_timeout* the seconds in
    which a connection must be made. With *tokens* ``"ids"`` answers keep their token ids
    and those of their prompts, for ``appl trace export --train``; with ``"logprobs"`` also the
    log-probabilities. *advise* is told, once, what the server could be set to.
    *adapters* are folders of LoRA adapters, by the names that ``gen(lora=...)`` has for them: each
    is loaded by the server when a call first asks for it.
    *drafting* is the URL of a second server of the model, which speculates (NGRAM): calls go there
    while few are in flight and enough drafts are right. *prefill* is the URL of the server that
    computes the prompts, where the one at *url* only generates. Both take the same keys, and
    default to ``SGLANG_DRAFTING_URL`` and ``SGLANG_PREFILL_URL`` if *url* is ``SGLANG_URL``.
    The server is the user's own, so answers cost nothing, unless ``[prices]`` says otherwise.
    """

    prices = Free()

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        admin_key: str | None = None,
        model: str | None = None,
        tokenizer: str | os.PathLike[str] | None = None,
        template: str | None = None,
        max_tokens: int | None = None,
        connections: int = 1024,
        connect_timeout: float = 10.0,
        tokens: Literal["ids", "logprobs"] | None = None,
        advise: Callable[[str], None] | None = None,
        adapters: Mapping[str, str | os.PathLike[str]] | None = None,
        drafting: str | None = None,
        prefill: str | None = None,
    ) -> None:
        if connections < 1 or connect_timeout <= 0:
            raise InvalidOption("connections and connect_timeout must be positive")
        connections = min(connections, most_connections())
        where, key, admin = _address(url, api_key, admin_key)
        if where == os.environ.get(ENVIRONMENT[0]):
            drafts, prompts = map(os.environ.get, BESIDE)
            drafting, prefill = drafting or drafts, prefill or prompts
        conceal("api_key of sglang", key)
        conceal("admin_key of sglang", admin)
        self._wire = Wire(where, key, admin, connections, connect_timeout)
        self._worker = partial(Wire, key=key, admin=admin, connections=16, connect=connect_timeout)
        self._workers: tuple[Wire, ...] = ()
        self._tokenizer = Path(tokenizer).expanduser() if tokenizer is not None else None
        self._template, self._max_tokens, self._model = template, max_tokens, model
        if tokens is not None:
            from appl.backend.tokens import check_kept  # few programs keep tokens

            check_kept(tokens)
        self._advise, self._tokens = advise or _say, tokens
        self._rids = map(f"appl-{secrets.token_hex(4)}-{{}}".format, itertools.count(1))
        self._ready: Ready | None = None
        self._known: Ready | None = None
        self._connecting: asyncio.Task[Ready] | None = None
        self._adapters: Adapters | None = None
        if adapters:
            from appl_backends.sglang.adapters import Adapters  # few have any

            self._adapters = Adapters(adapters, self._wire)
        self._drafting: DraftingServer | None = None
        self._prefill: PrefillServer | None = None
        if drafting or prefill:
            self._add_server(drafting, prefill, connections)
        self._aborts: set[asyncio.Task[None]] = set()
        self._closed = self._told_of_seed = False
        features = FEATURES if self._drafting is None else FEATURES | DRAFTING
        self.profile = Profile(
            "sglang", features, request_bodies.OPTIONS, default_model=model, concurrency=connections
        )

    def _add_server(self, drafting: str | None, prefill: str | None, connections: int) -> None:
        """Ask a further server beside the one at ``url``. Raises ``InvalidOption`` for two."""
        if drafting and prefill:
            raise InvalidOption(
                "a server that only generates (prefill=) and one that speculates (drafting=) do "
                "not go together: leave one of them out"
            )
        if self._adapters is not None:
            raise InvalidOption(
                "adapters= are loaded by one server: leave out drafting= and prefill="
            )
        make = partial(self._worker, connections=connections)
        # Few have such a server.
        if drafting:
            from appl_backends.sglang.drafting import DraftingServer

            self._drafting = DraftingServer(make(drafting), self._wire, self._advise)
        elif prefill:
            from appl_backends.sglang.prefill import PrefillServer

            self._prefill = PrefillServer(make(prefill))

    # -- what it offers

    async def connect(self) -> None:
        """Ask the server what it is, and load its tokenizer. Raises ``BackendError``."""
        # A server for embeddings needs no tokenizer here; calls of another kind find out.
        with contextlib.suppress(EmbeddingsOnly):
            await self._connected()

    @property
    def server(self) -> ServerFacts | None:
        """The server's description of itself; ``None`` before it was asked."""
        return self._known.server if self._known is not None else None

    @property
    def cache_tokens(self) -> int | None:
        """The capacity of the server's prefix cache in tokens; ``None`` when it is not known."""
        return self._known.server.cache_tokens if self._known is not None else None

    def order(self, queue: CallQueue) -> Order:
        """The order of a run's calls, which keeps the prefix cache of the server in use."""
        # Imported here: a replay sends no calls.
        from appl.runtime.scheduling.prefix_order import PrefixOrder

        return PrefixOrder(self, queue)

    def prompt_tokens(self, request: Request) -> Sequence[int]:
        """The ids of the prompt of *request*; none before the server was asked what it is."""
        if self._known is None:
            return ()
        return self._known.prompts.of(request.messages, request.sampling.tools)

    async def flush_cache(self) -> None:
        """Have the server forget all that it has computed of prompts, as for a measurement.

        A server that is answering something refuses: then this raises ``BackendError``.
        """
        for wire in self._wires():
            await wire.tell("/flush_cache")

    async def warm(self, request: Request, tokens: int) -> None:
        """Have the first *tokens* tokens of the prompt in the server's cache."""
        ready = self._ready or await self._connected()
        if self._adapters is not None:
            await self._adapters.ready(request.sampling)
        prompt = await self._prompt(ready, request)
        rid = next(self._rids)
        body = request_bodies.ask_nothing(prompt[:tokens], request.sampling, rid, self._least)
        await self._asked(rid, body)
        prompt.computed(tokens)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*; with *emit*, also pass on text as it comes."""
        if request.sampling.dimensions is not None:
            return await self._embedded(request)
        ready = self._ready or await self._connected()
        self._check(request, ready.server)
        if self._adapters is not None:
            await self._adapters.ready(request.sampling)
        prompt = ready.prompts.known(request.messages, request.sampling.tools)
        if prompt is None:
            prompt = await self._prompt(ready, request)
        if request.sampling.choices is not None:
            return await self._choose(ready, request, prompt)
        if request.sampling.prompt_logprobs is not None:
            emit = None  # they come with a whole answer
        if request.sampling.tools or emit is not None or ready.thinking is not None:
            return await self._read(ready, request, prompt, emit)
        messages = request.messages
        has_form = request.sampling.regex is not None and not self._tokens
        head = ready.heads.of(request.sampling) if has_form else None
        if head is not None and messages is not None and not messages.needs and not begun(messages):
            whole = TokenRun(prompt, head.ids)
            if _fits(whole, ready.server):
                return await self._headed(ready, request, whole, head)
        rid = next(self._rids)
        body = self._body(ready, request, prompt, rid)
        found = await self._asked(rid, body, request=request, size=prompt.size)
        prompt.computed(prompt.size)
        return self._response(ready, request, found, prompt)

    async def _embedded(self, request: Request) -> Response:
        """The vectors of the messages of *request*, by a server that was started for embeddings."""
        from appl_backends.openai import embeddings  # few runs ask for vectors

        # Such a server has no chat template, and answers nothing else: it is not connected with.
        body = embeddings.body_of(request, request.model or self._model or "default", "sglang")
        data = await self._wire.post("/v1/embeddings", body)
        response = embeddings.response_of(data, request, self._wire.who)
        return replace(response, cost=0)

    async def aclose(self) -> None:
        """Close the connections, after what was cancelled has been told to stop."""
        # In this order: refuse new requests, end the attempt to connect, let the aborts reach the
        # server (they need the connections), and close the connections last.
        self._closed, self._ready = True, None
        if self._connecting is not None:
            self._connecting.cancel()
        await asyncio.gather(*self._aborts, return_exceptions=True)
        if self._drafting is not None:
            await self._drafting.aclose()
        if self._prefill is not None:
            await self._prefill.wire.aclose()
        for wire in (self._wire, *self._workers):
            await wire.aclose()

    # -- being ready

    async def _connected(self) -> Ready:
        if self._closed:
            raise BackendUnavailable(f"the connections to {self._wire.who} are closed")
        # All requests that come meanwhile wait for one attempt. The shield keeps one of them that
        # is cancelled from cancelling the attempt of the others.
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(self._connect_over)
        try:
            return await asyncio.shield(self._connecting)
        except BackendError as error:  # each call has an error of its own
            raise copy.copy(error) from None

    def _connect_over(self, task: asyncio.Task[Ready]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # every waiter raises it; without one nobody need know

    async def _connect(self) -> Ready:
        server = await server_at(self._wire)
        self._wire.names(server.model)
        if self._prefill is not None:
            server = await self._prefill.connect(server)
        elif self._drafting is not None:
            await self._drafting.connect(server)
        known = self._known
        if known is None or known.server.tokenizer != server.tokenizer:
            made = await asyncio.to_thread(
                load, server, self._tokenizer, self._template, self._max_tokens
            )
            await check_tokenizer(self._wire, made)
        else:
            made = replace(known, server=server)
        if self._drafting is not None:
            self._drafting.knows(made)
        for wire in self._workers:
            await wire.aclose()
        self._workers = tuple(map(self._worker, server.workers))  # a router passes no aborts on
        for line in server.advice() if known is None else ():
            self._advise(f"the SGLang server at {self._wire.url}: {line}")
        self._ready = self._known = made
        return made

    # -- asking

    async def _prompt(self, ready: Ready, request: Request) -> TokenRun:
        """The tokens of the prompt; long texts are encoded off the loop."""
        messages, tools = request.messages, request.sampling.tools
        if messages is not None and messages.size > _LONG:
            # Encoding takes tens of milliseconds from here on, which other requests need not wait.
            prompt = await asyncio.to_thread(ready.prompts.of, messages, tools)
        else:
            prompt = ready.prompts.of(messages, tools)
        server = ready.server
        if prompt.size >= (server.context or prompt.size + 1):
            raise PromptTooLong(
                f"the prompt has {prompt.size} tokens, and {server.model} has a context of "
                f"{server.context} with the answer; shorten the prompt"
            )
        if prompt.size > (server.longest or prompt.size):
            raise PromptTooLong(
                f"the prompt has {prompt.size} tokens, and {self._wire.who} has the memory for "
                f"{server.longest}; shorten the prompt"
            )
        return prompt

    def _body(
        self,
        ready: Ready,
        request: Request,
        prompt: TokenRun,
        rid: str,
        offer: Offer | None = None,
        more: bytes = b"",
    ) -> Body:
        """The body that asks *request*, for no more tokens than there is room for."""
        sampling, messages, server = request.sampling, request.messages, ready.server
        wanted, room = sampling.max_tokens or self._max_tokens, server.context
        if wanted is not None and room is not None and prompt.size + wanted >= room:
            sampling = replace(sampling, max_tokens=max(1, room - prompt.size - 1))
        parameters, seed = ready.parameters.of(sampling, offer), sampling.seed
        if server.priority:
            more += b',"priority":%d' % request.priority
        if self._tokens == "logprobs" and sampling.logprobs is sampling.prompt_logprobs is None:
            from appl_backends.sglang.kept_tokens import WITH_LOGPROBS  # few programs keep ids

            more += WITH_LOGPROBS
        if messages is not None and messages.needs:
            text = ready.prompts.text(messages, sampling.tools)
            return request_bodies.ask(
                request, request_bodies.of_images(text, messages), parameters, rid, more
            )
        if request.n > 1 and (
            self._prefill is not None or (seed is not None and server.deterministic)
        ):
            ids = prompt.all_text()
            seed = seed if server.deterministic else None
            return request_bodies.ask_each(request, ids, parameters, rid, seed, more)
        pieces = [b'"input_ids":[', *prompt.pieces(), b"]"]
        return request_bodies.ask(request, pieces, parameters, rid, more)

    async def _headed(
        self, ready: Ready, request: Request, prompt: TokenRun, head: FixedHead
    ) -> Response:
        """The answer to a request whose answers all begin with *head*, with which *prompt* ends."""
        rest, rid = replace(request, sampling=head.sampling), next(self._rids)
        body = self._body(ready, rest, prompt, rid)
        found = await self._asked(rid, body, request=rest, size=prompt.size)
        prompt.computed(prompt.size)
        listed = answers.answers(found, request.n, self._wire.who)
        return self._response(ready, request, list(map(head.on, listed)), prompt)

    async def _read(
        self, ready: Ready, request: Request, prompt: TokenRun, emit: Emit | None
    ) -> Response:
        """The answer to a request that offers tools, is streamed, or may be thought about."""
        sampling, messages = request.sampling, request.messages
        is_begun = messages is not None and begun(messages)
        offer = offer_of(sampling, ready.style, request.digest, is_begun)
        if offer is not None and offer.must:
            prompt = TokenRun(prompt, ready.prompts.tokenizer.encode(offer.opening()))
        thinking = None if is_begun else ready.thinking
        reader = AnswerReader(request.sample, sampling.stop, offer, thinking)
        rid, more = next(self._rids), b"" if emit is None else b',"stream":true'
        body = self._body(ready, request, prompt, rid, offer, more)
        stream, growing = None, None
        if emit is not None:
            growing = GrowingAnswers(reader, request.n, ready.server.incremental, self._wire.who)
            stream = partial(self._streamed, growing, emit, ready.server)
        found = await self._asked(rid, body, stream, request, size=prompt.size, growing=growing)
        return self._response(ready, request, found, prompt, reader)

    async def _streamed(
        self, growing: GrowingAnswers, emit: Emit, server: ServerFacts, wire: Wire, body: Body
    ) -> Any:
        drafting = self._drafting
        if drafting is not None and wire is drafting.wire and drafting.server is not None:
            server = drafting.server
        growing.begin(server.incremental)
        async with aclosing(wire.stream("/generate", body)) as events:
            async for event in events:
                for chunk in growing.add(event):
                    emit(chunk)
        return growing.complete()

    async def _asked(
        self,
        rid: str,
        body: Body,
        stream: Callable[[Wire, Body], Awaitable[Any]] | None = None,
        request: Request | None = None,
        prompts: int | None = None,
        size: int = 0,
        growing: GrowingAnswers | None = None,
    ) -> Any:
        """The answer of the server to *body*, perhaps by a *stream*, of which *growing* is told.

        The request *rid* is aborted if the waiting task is cancelled. *request* is what the body
        asks, with a prompt of *size* tokens, if another server may answer that, *prompts* the
        length of its list of prompts.
        """
        try:
            if self._drafting is not None and request is not None:
                send = partial(self._sent, body, stream)
                told = growing.told if growing is not None else None
                return await self._drafting.asked(request, size, send, told)
            if self._prefill is not None:
                if request is not None and request.n > 1:
                    prompts = request.n
                generate = partial(self._sent, stream=stream, wire=self._wire)
                return await self._prefill.asked(body, prompts, generate)
            return await self._sent(body, stream, self._wire)
        except asyncio.CancelledError:
            # The server would generate to the end for nobody. The abort is a task of its own,
            # because this one is being cancelled and must not wait.
            self._abort(rid)
            raise
        except BackendError as error:
            if self._prefill is not None:
                self._abort(rid)  # one server may wait for the other one, which has failed
            if isinstance(error, BackendUnavailable):
                self._ready = None  # it may come back as another one
                for wire in self._wires():
                    wire.learned.clear()
            raise

    def _sent(
        self,
        body: Body,
        stream: Callable[[Wire, Body], Awaitable[Any]] | None,
        wire: Wire,
    ) -> Awaitable[Any]:
        """The answer of the server behind *wire*."""
        if stream is not None:
            return stream(wire, body)
        return wire.exchange("POST", "/generate", body)

    def _wires(self) -> list[Wire]:
        """The servers that are asked."""
        others = [each.wire for each in (self._drafting, self._prefill) if each is not None]
        return [self._wire, *others]

    @property
    def _least(self) -> int:
        """The fewest tokens of an answer: what is computed for none is not handed over."""
        return 0 if self._prefill is None else 1

    def _abort(self, rid: str) -> None:
        if self._closed:
            return
        first, *beside = self._wires()
        for wire in (*(self._workers or [first]), *beside):
            path = "/abort_request"
            stopping = wire.within(STOP_S, wire.post(path, request_bodies.ask_to_stop(rid)), path)
            task = asyncio.ensure_future(stopping)
            self._aborts.add(task)  # the loop itself keeps no strong reference to a task
            task.add_done_callback(self._abort_over)

    def _abort_over(self, task: asyncio.Task[None]) -> None:
        self._aborts.discard(task)
        if not task.cancelled():
            task.exception()  # a server that is gone has stopped as well

    def _check(self, request: Request, server: ServerFacts) -> None:
        if request.model and request.model not in (server.model, self._model, server.short):
            raise ModelNotFound(
                f"{self._wire.who} serves {server.model!r}, not {request.model!r}"
                f"{nearest(request.model, [server.model])}; an adapter is chosen by gen(lora=...)"
            )
        if request.n < 1:
            raise Unsupported(f"n must be at least 1, got {request.n}")
        if request.sampling.seed is not None and not server.deterministic:
            self._tell_of_seed()
        messages = request.messages
        if messages is not None and messages.needs:
            self._check_images(request, server)
        if messages is not None and messages.provided:
            check_provider_fields(self.profile, messages, TAKEN)

    def _tell_of_seed(self) -> None:
        if not self._told_of_seed:
            self._told_of_seed = True
            self._advise(
                f"the SGLang server at {self._wire.url} ignores gen(seed=...): "
                "--enable-deterministic-inference has it heed seeds"
            )

    def _check_images(self, request: Request, server: ServerFacts) -> None:
        if server.images is False:
            raise Unsupported(f"{server.model} does not take images: say what is in them as text")
        if request.n > 1 and self._prefill is not None:
            raise Unsupported("n > 1 after images is not asked of two servers: ask n times")
        if request.sampling.choices is not None or request.sampling.tool_choice == "required":
            raise Unsupported(
                "choices are not scored after images, and tools not required: ask for a text"
            )

    # -- answering

    def _response(
        self,
        ready: Ready,
        request: Request,
        found: Any,
        prompt: TokenRun,
        reader: AnswerReader | None = None,
    ) -> Response:
        listed = answers.answers(found, request.n, self._wire.who, request.sampling.stop)
        if reader is None:
            samples = list(map(answers.sample, listed))
        else:
            samples = [reader.sample(each, index) for index, each in enumerate(listed)]
        for each, sample in zip(listed, samples, strict=True):
            if sample.text == each["text"] and each["output_ids"]:
                ids, is_cut = answers.generated(each)
                ready.prompts.answered(request.messages, sample.text, ids, cut=is_cut)
        said, model = request.messages, ready.server.model
        if self._tokens and (said is None or not said.needs):  # of an image nobody knows them
            from appl_backends.sglang.kept_tokens import with_tokens  # few programs keep ids

            samples = with_tokens(samples, listed, request, prompt, self._tokens)
        shed = said.shed_for(NOBODY) if said is not None and said.provided else ()
        response = Response(tuple(samples), answers.usage(listed), model, cost=0, shed=shed)
        if (most := request.sampling.prompt_logprobs) is None:
            return response
        wanted = request.sampling.logprobs
        return replace(
            response,
            samples=tuple([answers.asked_for(each, wanted) for each in samples]),
            prompt_logprobs=answers.prompt_tokens(listed[0], most, self._wire.who),
        )

    async def _choose(self, ready: Ready, request: Request, prompt: TokenRun) -> Response:
        """The most probable choice; its end counts where ``choice_end`` says so."""
        choices, sampling = request.sampling.choices, request.sampling
        assert choices is not None
        if not choices:
            raise Unsupported("there are no options to choose from")
        start, whole = ready.prompts.options(request.messages, prompt, choices, sampling.choice_end)
        if prompt.cold() * (len(choices) - 1) > _COLD:
            await self.warm(request, start)
        rid = next(self._rids)
        body = request_bodies.ask_scores(whole, start, sampling, rid, self._least)
        found = await self._asked(rid, body, prompts=len(whole))
        prompt.computed(start)
        listed = answers.answers(found, len(choices), self._wire.who)
        entries = [answers.scores(each, 1, self._wire.who) for each in listed]
        alone: list[list[float]] = []
        if sampling.normalize == UNCONDITIONAL:
            alone = await self._alone([ids[start:] for ids in whole], sampling)
        scores, best = scored(sampling.normalize, entries, alone, TIE)
        cached = answers.usage(listed).cached_tokens
        return Response(
            (Sample(choices[best], "stop"),) * request.n,
            Usage(prompt.size, 0, cached),
            ready.server.model,
            scores=scores,
            choice_method="logprob",
            cost=0,
        )

    async def _alone(
        self, choices: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[float]]:
        """The log-probabilities of the tokens of *choices* without a prompt; 0 for each first."""
        rid = next(self._rids)
        body = request_bodies.ask_scores(choices, 0, sampling, rid, self._least)
        found = await self._asked(rid, body, prompts=len(choices))
        listed = answers.answers(found, len(choices), self._wire.who)
        return [[0.0, *answers.scores(each, 1, self._wire.who)] for each in listed]


def _address(
    url: str | None, api_key: str | None, admin_key: str | None
) -> tuple[str, str | None, str | None]:
    """The server's URL and its keys; the environment's keys belong to the environment's URL."""
    there, key, admin = map(os.environ.get, ENVIRONMENT)
    if url is not None and url != there:
        return url, api_key, admin_key
    return there or URL, api_key or key, admin_key or admin


def _fits(prompt: TokenRun, server: ServerFacts) -> bool:
    """True if *server* takes *prompt*, and has room for an answer."""
    longest, context = server.longest or prompt.size, server.context or prompt.size + 2
    return prompt.size <= longest and prompt.size + 1 < context


def _say(line: str) -> None:
    print(f"appl: {line}", file=sys.stderr, flush=True)
