"""The embedded backend: a small model in this process, on NumPy, with a radix cache.

Invariant: a request becomes a task here, or a ``BackendError``, before the engine hears of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from appl.backend import (
    UNCONDITIONAL,
    Chunk,
    Emit,
    Profile,
    Request,
    Response,
    Sample,
    Sampling,
    check_media,
    check_provider_fields,
)
from appl.backend.price import Free
from appl.base.threads import start as start_thread
from appl.errors import (
    BackendTimeout,
    ConfigError,
    InvalidOption,
    ModelNotFound,
    Unsupported,
    nearest,
)
from appl.prompt import Messages
from appl_backends.embedded.blas_threads import BlasThreads
from appl_backends.embedded.cache import PrefixCache
from appl_backends.embedded.constraint import AnswerForm, Constraints
from appl_backends.embedded.engine import BatchEngine
from appl_backends.embedded.model import Llama
from appl_backends.embedded.naive import NaiveCache
from appl_backends.embedded.probe import TokenProbe
from appl_backends.embedded.radix import BLOCK, RadixCache
from appl_backends.embedded.sampler import TOLERANCE, Draw, fresh_seed
from appl_backends.embedded.task import AnswerPiece, EngineTask
from appl_backends.embedded.tokenizer import Encoded, Tokenizer, is_begun, too_long
from appl_backends.embedded.tools import announced, offer
from appl_backends.embedded.worker import EngineThread
from appl_backends.option_scores import scored

if TYPE_CHECKING:
    from appl_backends.embedded.adapters import Adapter
    from appl_backends.embedded.drafts import DraftCursor, Drafts

MODEL = "embedded"
WEIGHTS = Path(__file__).parent / "weights"
FEATURES = frozenset(
    {
        "choices",
        "choice_methods",
        "regex",
        "grammar",
        "schema",
        "logprobs",
        "seed",
        "n",
        "prefill",
        "stream",
        "prefix_cache",
        "stop_tokens",
        "constrained_prefill",
        "tools",
        "drafts",
        "embeddings",
    }
)


class Embedded:
    """A :class:`~appl.backend.Backend` that answers with the model in the folder *weights*.

    It runs on this machine, so its answers cost nothing.
    ``cache_tokens`` and ``row_tokens`` bound the memory of the prefix cache and of the running
    sequences (about 7 KB a token with the shipped model, taken as it is used); ``max_batch`` is
    the number of sequences that run at once and ``chunk`` the prompt tokens computed in one step.
    ``threads`` is the number of BLAS threads of a step (``None``: as the process has it set).
    ``ahead`` says whether tokens are computed in advance where an earlier answer or a constraint
    tells them: that is faster, and changes no answer. With ``tokens`` ``"ids"`` answers keep their
    token ids and those of their prompts, for ``appl trace export --train``; with ``"logprobs"``
    also the log-probabilities.
    *adapters* are folders of LoRA adapters, by the names that ``gen(lora=...)`` has for them; each
    is loaded when a call first asks for it, and requests of several are computed in one batch.
    With a ``seed``, requests without one derive theirs from it and from where they are asked.
    """

    prices = Free()

    def __init__(
        self,
        *,
        weights: str | os.PathLike[str] | None = None,
        cache: Literal["radix", "naive"] = "radix",
        seed: int | None = None,
        max_tokens: int = 256,
        max_batch: int = 32,
        chunk: int = 256,
        cache_tokens: int = 16384,
        row_tokens: int = 16384,
        threads: int | None = 1,
        ahead: bool = True,
        adapters: Mapping[str, str | os.PathLike[str]] | None = None,
        tokens: Literal["ids", "logprobs"] | None = None,
    ) -> None:
        if min(max_tokens, max_batch, chunk, cache_tokens, row_tokens) < 1:
            raise InvalidOption("max_tokens, max_batch, chunk and memory sizes must be positive")
        self.folder = folder = Path(weights) if weights is not None else WEIGHTS
        if not (folder / "model.safetensors").is_file():
            raise ModelNotFound(f"there is no model in {folder} (no file model.safetensors)")
        try:
            model = Llama.load(folder)
            self.tokenizer = Tokenizer(folder)
            self.constraints = Constraints(self.tokenizer, model.shape.vocab)
            self.defaults = Defaults.read(folder, max_tokens)
        except Exception as error:  # of JSON, tensors, a vocabulary, or of the libraries for them
            why = f"{type(error).__name__}: {error}"
            raise ConfigError(f"the model in {folder} cannot be read: {why:.500}") from error
        kept = _cache(cache, model, cache_tokens)
        self.engine = BatchEngine(
            model,
            self.tokenizer,
            kept,
            max_batch=max_batch,
            chunk=chunk,
            row_tokens=row_tokens,
            jumps=ahead,
        )
        self._adapters = {name: Path(at).expanduser() for name, at in (adapters or {}).items()}
        for name, at in self._adapters.items():
            if not (at / "adapter_config.json").is_file():
                raise ConfigError(f"adapter {name!r}: there is no adapter_config.json in {at}")
        self._loaded: dict[str, Adapter] = {}
        self._features = FEATURES if ahead else FEATURES - {"drafts"}
        self._drafts: Drafts | None = None
        if tokens is not None:
            from appl.backend.tokens import check_kept  # few programs keep tokens

            check_kept(tokens)
        self._seed, self._tokens = seed, tokens
        self.worker = EngineThread(self.engine, BlasThreads(threads))
        # The thread keeps the engine and its memory; it ends with a backend that nobody closes.
        weakref.finalize(self, self.worker.end).atexit = False

    @property
    def profile(self) -> Profile:
        """The name, features and limits of this backend."""
        return Profile(
            "embedded",
            self._features,
            options=frozenset({"lora"}) if self._adapters else frozenset(),
            models=(MODEL,),
            default_model=MODEL,
            context=self.engine.context,
        )

    @property
    def cache_tokens(self) -> int | None:
        """The number of tokens in the prefix cache; none with the naive one."""
        return self.engine.cache.report().blocks * BLOCK

    def prompt_tokens(self, request: Request) -> list[int]:
        """The token ids of the prompt of *request*; those of whole messages are kept with them."""
        return self._prompt(request).ids

    async def warm(self, request: Request, tokens: int) -> None:
        """Have the first *tokens* tokens of the prompt of *request* in the prefix cache."""
        begin = self.prompt_tokens(request)[: max(1, tokens)]
        task = EngineTask(begin, [Draw(0.0, 1.0, 0, 0)], 0, priority=request.priority)
        task.space, task.adapter = await asyncio.to_thread(self._adapter, request.sampling)
        await self.worker.run(task)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*; with *emit*, also pass on text as it comes."""
        if request.sampling.dimensions is not None:
            return await self._embedded(request)
        try:
            async with asyncio.timeout(request.timeout):
                task = await self.task(request, stream=emit is not None)
                if self._tokens == "logprobs" and task.options is None:
                    task.probe = TokenProbe(len(task.prompt))
                response = await self.worker.run(task, _numbered(emit, request.sample))
        except TimeoutError:
            raise BackendTimeout(f"no answer within {request.timeout} s") from None
        if request.sampling.choices is not None:
            alone = await self._alone(request, task)
            response = _chosen(response, request, task, alone)
        elif self._tokens:
            from appl_backends.embedded.kept_tokens import with_tokens  # few programs keep ids

            response = with_tokens(response, request, task)
        return _named(response, request.messages)

    async def _embedded(self, request: Request) -> Response:
        """The vectors of the messages of *request*, made off the loop."""
        from appl_backends.embedded.vectors import vectors  # few runs ask for vectors

        self._check(request)
        made = asyncio.to_thread(vectors, request, self.engine.model, self.tokenizer, MODEL)
        return await made

    async def _alone(self, request: Request, task: EngineTask) -> list[list[float]]:
        """The log-probabilities of the options' tokens without a prompt, where they are needed."""
        if request.sampling.normalize != UNCONDITIONAL:
            return []
        each = (self._unprompted(option, task) for option in task.options or ())
        return list(await asyncio.gather(*each))

    async def _unprompted(self, option: list[int], asked: EngineTask) -> list[float]:
        """The log-probabilities of an option's tokens, and of its end; 0 for the first one."""
        if len(option) < (1 if asked.ends_turn else 2):
            return [0.0]
        draws, rest = [Draw(0.0, 1.0, 0, 0)], [option[1:]]
        task = EngineTask(option[:1], draws, 1, options=rest, ends_turn=asked.ends_turn)
        task.space, task.adapter = asked.space, asked.adapter
        await self.worker.run(task)
        return [0.0, *task.live[0].entries]

    def count_tokens(self, text: str) -> int:
        """The number of tokens of *text*, without role and end of a message."""
        return len(self.tokenizer.encode(text))

    async def aclose(self) -> None:
        """Stop the engine; what it still had to answer fails."""
        loop = asyncio.get_running_loop()
        stopped = loop.create_future()

        def stop() -> None:
            self.worker.stop()
            loop.call_soon_threadsafe(stopped.set_result, None)

        start_thread(stop, "appl-closing")  # no executor works at the end of a process
        await stopped

    def cache_report(self) -> dict[str, int]:
        """Tokens, blocks and hits of the cache, and what the engine has computed."""
        engine = self.engine
        return {
            **asdict(engine.cache.report()),
            **asdict(engine.counters),
            "running": len(engine.running),
            "waiting": len(engine.waiting),
            "row_tokens_free": engine.rows.room,
        }

    def _check(self, request: Request) -> None:
        if request.model not in ("", MODEL):
            raise ModelNotFound(
                f"the embedded backend has no model {request.model!r}, only {MODEL!r}"
                f"{nearest(request.model, [MODEL])}"
            )
        for name, value in request.sampling.extra:
            if name != "lora":
                raise Unsupported(f"the embedded backend has no option {name!r}")
            if not isinstance(value, str) or value not in self._adapters:
                raise ModelNotFound(
                    f"the embedded backend has no adapter {value!r:.100}"
                    f"{nearest(str(value), self._adapters)}; see "
                    "[backends.embedded.adapters]"
                )
        check_media(self.profile, request.messages)
        check_provider_fields(self.profile, request.messages)
        if request.n < 1:
            raise Unsupported(f"n must be at least 1, got {request.n}")

    async def task(
        self, request: Request, *, stream: bool = False, begun: bool = True
    ) -> EngineTask:
        """*request* as the engine takes it; raises a ``BackendError`` for what it cannot do.

        Without *begun*, an assistant's message at the end is answered, not continued. What may
        take long is done off the loop.
        """
        self._check(request)
        sampling, last = request.sampling, request.messages
        slow = bool(sampling.extra) or sampling.tools
        constrained = slow or sampling.regex or sampling.grammar or sampling.schema
        if constrained or (last is not None and len(last.message.content) > 4096):
            return await asyncio.to_thread(self._prepare, request, stream, begun)
        return self._prepare(request, stream, begun)

    def _prepare(self, request: Request, stream: bool, begun: bool) -> EngineTask:
        sampling, room = request.sampling, self.engine.context
        prompt = self._prompt(request, begun)
        options = self._options(request, prompt)
        wanted = self.defaults.max_tokens if sampling.max_tokens is None else sampling.max_tokens
        if wanted < 1:
            raise Unsupported(f"max_tokens must be at least 1, got {wanted}")
        tokens = min(wanted, room - len(prompt.ids))
        drafts = self._drafts_of(request, prompt, tokens) if request.draft is not None else []
        space, adapter = self._adapter(sampling)
        return EngineTask(
            prompt.ids,
            self._draws(request),
            tokens,
            prompt.healed,
            sampling.stop,
            sampling.logprobs,
            self._constraint(sampling, prompt),
            options,
            stream and options is None,
            request.priority,
            frozenset(sampling.stop_tokens),
            offer(sampling, self.constraints, begun and is_begun(request.messages), request.digest),
            ends_turn=_ends_turn(request),
            space=space,
            drafts=drafts,
            adapter=adapter,
        )

    def _adapter(self, sampling: Sampling) -> tuple[str, Adapter | None]:
        """The adapter that *sampling* asks for, and its place in the cache; loaded if need be."""
        name = dict(sampling.extra).get("lora")
        if name is None:
            return "", None
        if name not in self._loaded:
            from appl_backends.embedded.adapters import Adapter  # few runs have any

            folder, model = self._adapters[name], self.engine.model
            try:  # two calls may both load it, to the same effect
                self._loaded[name] = Adapter.load(folder, model.shape, model.gains)
            except Exception as error:  # of JSON, tensors, or what it is for
                why = f"{type(error).__name__}: {error}"
                raise Unsupported(f"the adapter in {folder} cannot be used: {why:.500}") from error
        return f"lora:{name}", self._loaded[name]

    def _drafts_of(self, request: Request, prompt: Encoded, tokens: int) -> list[DraftCursor]:
        if request.sampling.choices is not None or "drafts" not in self._features:
            return []
        if self._drafts is None:
            from appl_backends.embedded.drafts import Drafts  # few runs have drafts

            self._drafts = Drafts(self.tokenizer)
        return self._drafts.cursors(request, prompt, tokens)

    def _prompt(self, request: Request, begun: bool = True) -> Encoded:
        sampling = request.sampling
        return self.tokenizer.prompt(
            request.messages,
            self.engine.context - 1,
            heal=sampling.grammar is None,
            tools=announced(sampling.tools) if sampling.tools else "",
            begun=begun,
        )

    def _draws(self, request: Request) -> list[Draw]:
        sampling, default = request.sampling, self.defaults
        temperature = default.temperature if sampling.temperature is None else sampling.temperature
        top_p = default.top_p if sampling.top_p is None else sampling.top_p
        if not temperature >= 0.0 or not 0.0 < top_p <= 1.0:
            raise Unsupported(
                f"temperature must be at least 0 and top_p in (0, 1], got {temperature} and {top_p}"
            )
        seed = self._seed_of(request)
        return [Draw(temperature, top_p, seed, request.sample + i) for i in range(request.n)]

    def _seed_of(self, request: Request) -> int:
        if request.sampling.seed is not None:
            return request.sampling.seed
        if self._seed is None:
            return fresh_seed(os.urandom(8))
        return fresh_seed(f"{self._seed}\0{request.address}\0{request.ordinal}".encode())

    def _constraint(self, sampling: Sampling, prompt: Encoded) -> Any:
        wanted = AnswerForm(sampling.regex, sampling.grammar, sampling.schema)
        if wanted == AnswerForm() or sampling.choices is not None:
            return None
        if not sampling.begun:
            return self.constraints.compile(wanted, prompt.healed)
        begun = sampling.begun[: len(sampling.begun) - len(prompt.healed)]
        return self.constraints.compile(wanted).after(self.tokenizer.encode(begun))

    def _options(self, request: Request, prompt: Encoded) -> list[list[int]] | None:
        choices = request.sampling.choices
        if choices is None:
            return None
        if not choices:
            raise Unsupported("there are no options to choose from")
        found = [self.tokenizer.option(request.messages, prompt, option) for option in choices]
        longest = len(prompt.ids) + max(map(len, found))
        if longest > self.engine.context:
            raise too_long(f"{longest} (with its longest option)", self.engine.context)
        return found


def _ends_turn(request: Request) -> bool:
    """True if the end of the turn is scored behind each choice."""
    end = request.sampling.choice_end
    return not is_begun(request.messages) if end is None else end


def _cache(kind: str, model: Llama, tokens: int) -> PrefixCache:
    if kind == "radix":
        return RadixCache(model.shape, max(1, tokens // BLOCK))
    if kind == "naive":
        return NaiveCache()
    raise InvalidOption(f"cache must be 'radix' or 'naive', got {kind!r}")


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults of a request's options, from ``generation_config.json`` and the settings."""

    temperature: float
    top_p: float
    max_tokens: int

    @classmethod
    def read(cls, folder: Path, max_tokens: int) -> Defaults:
        path = folder / "generation_config.json"
        said = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        return cls(said.get("temperature", 1.0), said.get("top_p", 1.0), max_tokens)


def _numbered(emit: Emit | None, first: int) -> Callable[[AnswerPiece], None] | None:
    return emit and (lambda piece: emit(Chunk(first + piece.sample, piece.text)))


def _named(response: Response, messages: Messages | None) -> Response:
    return Response(
        response.samples,
        response.usage,
        MODEL,
        response.scores,
        response.choice_method,
        cost=0,
        shed=messages.shed_for("") if messages is not None else (),
    )


def _chosen(
    response: Response, request: Request, task: EngineTask, alone: list[list[float]]
) -> Response:
    """The response whose sample is the best option; ties go to the first."""
    choices = request.sampling.choices
    assert choices is not None
    entries = [run.entries for run in task.live]
    scores, best = scored(request.sampling.normalize, entries, alone, TOLERANCE)
    samples = (Sample(choices[best], "stop"),) * request.n
    return Response(samples, response.usage, scores=scores, choice_method="logprob")
