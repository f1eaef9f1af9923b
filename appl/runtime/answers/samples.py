"""The samples of a question: those that a cache holds, and the missing ones from the backend.

Invariant: sample number *i* of one content is the same answer for every call that uses one cache,
under every schedule: what is asked on its behalf is named by the content, not by the call, and the
same content is never asked twice at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast, runtime_checkable

from appl.backend import Backend, Chunk, Emit, Profile, Request, Response, Sample, Usage
from appl.base import services
from appl.errors import InvalidOption
from appl.prompt import digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RUN = "run"
Ask = Callable[[Request, Emit | None], Coroutine[object, object, Response]]


class Store(Protocol):
    """Answers by content: response number *i* holds sample number *i* alone."""

    blocking: bool
    """Whether it reads and writes files, which is not done on the I/O loop."""

    def load(self, content: bytes, count: int) -> list[Response]:
        """The first *count* samples of *content*, as far as they are there without a gap."""

    def save(self, content: bytes, first: int, answers: list[Response]) -> list[Response]:
        """Keep *answers* as the samples from number *first* on; what is there already stays.

        Returns what is there now at their numbers.
        """

    def close(self) -> None:
        """Let go of files."""


@runtime_checkable
class NamedStore(Store, Protocol):
    """A store that a call brings itself."""

    name: str
    """Its name among the caches of a run."""


class RunAnswers:
    """Answers that are kept as long as their run: ``cache="run"``."""

    blocking = False

    def __init__(self) -> None:
        self._answers: dict[bytes, list[Response]] = {}

    def load(self, content: bytes, count: int) -> list[Response]:
        return self._answers.get(content, [])[:count]

    def save(self, content: bytes, first: int, answers: list[Response]) -> list[Response]:
        answers_before = self._answers.setdefault(content, [])
        answers_before += answers[len(answers_before) - first :]
        return answers_before[first : first + len(answers)]

    def close(self) -> None:
        self._answers.clear()


class Caches:
    """The caches that one run uses, by name: ``run``, or the path of a file."""

    def __init__(self, open_file: Callable[[Path], Store] | None = None) -> None:
        self._open_file = open_file or _open_file
        self._stores: dict[str, Store] = {}
        self.used = True

    def named(self, wanted: object) -> str | None:
        """The name of the cache that ``cache=`` *wanted* means, opened if any are ``used``.

        Raises ``InvalidOption``.
        """
        if wanted is None or wanted is False:
            return None
        if isinstance(wanted, NamedStore):
            if self.used:
                self._stores[wanted.name] = wanted
            return wanted.name if self.used else None
        if not isinstance(wanted, str | Path) or not str(wanted):
            raise InvalidOption(
                f"gen(cache=...) takes 'run' or the path of a file, got {wanted!r:.80}"
            )
        name = RUN if wanted == RUN else str(Path(wanted).expanduser().absolute())
        if not self.used:
            return None
        if name not in self._stores:
            self._stores[name] = RunAnswers() if name == RUN else self._open_file(Path(name))
        return name

    def __getitem__(self, name: str) -> Store:
        return self._stores[name]

    def close(self) -> None:
        """Let go of all of them."""
        stores, self._stores = self._stores, {}
        for store in stores.values():
            store.close()


def _open_file(path: Path) -> Store:
    return cast(Store, services.answer_file(path))


class Samples:
    """A backend around *backend* that asks only for samples that are missing.

    A backend that cannot give several samples of one question is asked for each by itself. *stirs*
    is called before the backend is asked later than the call came; *warn* is told, with an address,
    when a cache fails: then the answer is asked for, and not kept.
    """

    def __init__(
        self,
        backend: Backend,
        caches: Caches,
        stirs: Callable[[], None],
        warn: Callable[[str, str], None],
    ) -> None:
        self._backend, self._caches, self._stirs, self._warn = backend, caches, stirs, warn
        self._takes_many = "n" in backend.profile.features
        self._turns: dict[tuple[str, bytes], _Turn] = {}

    @property
    def profile(self) -> Profile:
        """The profile of the backend."""
        return self._backend.profile

    def complete(
        self, request: Request, emit: Emit | None = None, ask: Ask | None = None
    ) -> Coroutine[object, object, Response]:
        """Answer *request* from its cache, if it has one, and from the backend.

        *ask* is how the backend is asked, where that takes more than its ``complete``.
        """
        ask = ask or self._backend.complete
        if request.cache is not None:
            return self._from_cache(request, request.cache, emit, ask)
        return self._ask(request, emit, ask)

    def remember(self, request: Request, answer: Response) -> None:
        """Keep an answer of an earlier run if the cache lasts as long as the run."""
        if request.cache is None or request.sample != 0:
            return
        store = self._caches[request.cache]
        if isinstance(store, RunAnswers):
            content = digest_of(self.profile.name, request.digest)
            store.save(content, 0, _singles(answer))

    async def aclose(self) -> None:
        """Close the backend."""
        await self._backend.aclose()

    async def _ask(self, request: Request, emit: Emit | None, ask: Ask) -> Response:
        if request.n == 1 or self._takes_many or request.sampling.choices is not None:
            return await ask(request, emit)
        asking: list[Coroutine[object, object, Response]] = []
        for number in range(request.n):
            first, seed = request.sample + number, request.sampling.seed
            one = dataclasses.replace(request, n=1, sample=first)
            if seed is not None and number:  # the same seed would draw the same sample
                sampling = dataclasses.replace(request.sampling, seed=seed + number)
                one = dataclasses.replace(one, sampling=sampling, _digest=None)
            asking.append(ask(one, emit and _numbered(emit, first)))
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        return joined([_answer(outcome) for outcome in outcomes])

    # -- the cache

    async def _from_cache(
        self, request: Request, name: str, emit: Emit | None, ask: Ask
    ) -> Response:
        content = digest_of(self.profile.name, request.digest)
        async with self._turn(name, content):
            cached = await self._use(request, name, "load", content, request.n) or []
            for number, answer in enumerate(cached if emit is not None else ()):
                assert emit is not None
                emit(Chunk(number, answer.text))
            if len(cached) == request.n:
                return _reused(cached)
            self._stirs()
            asked = (
                digest_of(name, content) if isinstance(self._caches[name], NamedStore) else content
            )
            fresh = await self._ask(_missing(request, len(cached), asked), emit, ask)
            new = _singles(fresh)
            stored = await self._use(request, name, "save", content, len(cached), new)
        saved = stored if stored is not None and emit is None else new
        samples = tuple(answer.samples[0] for answer in (*cached, *saved))
        return dataclasses.replace(fresh, samples=samples, reused=len(cached))

    async def _use(
        self, request: Request, name: str, what: Literal["load", "save"], *args: object
    ) -> list[Response] | None:
        """The result of a cache; ``None`` when it fails, which is no reason to lose an answer."""
        store = self._caches[name]
        action: Callable[..., list[Response]] = getattr(store, what)
        try:
            return await asyncio.to_thread(action, *args) if store.blocking else action(*args)
        except Exception as error:
            self._warn(request.address, f"the cache {name} cannot {what} answers: {error}")
            return None

    @asynccontextmanager
    async def _turn(self, name: str, content: bytes) -> AsyncIterator[None]:
        """A block in which no other call asks for the same content: the next finds this answer."""
        turn = self._turns.setdefault((name, content), _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[name, content]


def _answer(outcome: Response | BaseException) -> Response:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


class _Turn:
    """The turns of calls for one content: a lock, and the number of its users."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock, self.users = asyncio.Lock(), 0


def _missing(request: Request, count: int, content: bytes) -> Request:
    """The question for the samples after the *count* ones; it belongs to the content and its cache.

    So a backend that draws by address and seed draws the same for every call of that content.
    """
    return dataclasses.replace(
        request,
        address=f"/~{content.hex()}",
        ordinal=0,
        n=request.n - count,
        sample=count,
        cache=None,
    )


def _numbered(emit: Emit, number: int) -> Emit:
    return lambda chunk: emit(dataclasses.replace(chunk, sample=number))


def _singles(response: Response) -> list[Response]:
    nothing = dataclasses.replace(response, usage=Usage(), cost=None)
    return [dataclasses.replace(nothing, samples=(sample,)) for sample in response.samples]


def _reused(answers: list[Response]) -> Response:
    samples = tuple(answer.samples[0] for answer in answers)
    return dataclasses.replace(
        answers[0], samples=samples, usage=Usage(0, 0, 0), cost=0, reused=len(answers)
    )


def mixed(before: Response, fresh: Response) -> Response:
    """*fresh* with the samples of *before* before its own, which cost nothing now."""
    samples = (*before.samples, *fresh.samples)
    return dataclasses.replace(fresh, samples=samples, reused=len(before.samples) + fresh.reused)


def joined(responses: list[Response]) -> Response:
    """Several responses as one with all their samples."""
    return total_of(responses, [sample for response in responses for sample in response.samples])


def total_of(responses: Sequence[Response], samples: Iterable[Sample]) -> Response:
    """The last of *responses* with *samples*, the first's prompt, and usage and cost of all."""
    return dataclasses.replace(
        responses[-1],
        samples=tuple(samples),
        usage=Usage(
            _sum(response.usage.prompt_tokens for response in responses),
            _sum(response.usage.completion_tokens for response in responses),
            _sum(response.usage.cached_tokens for response in responses),
            _sum(response.usage.written_tokens for response in responses),
            _sum(response.usage.written_1h_tokens for response in responses),
            _sum(response.usage.reasoning_tokens for response in responses),
            tier=responses[-1].usage.tier,
        ),
        cost=_sum(response.cost for response in responses),
        prompt_logprobs=responses[0].prompt_logprobs,
        reused=sum(response.reused for response in responses),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum, ``None`` if one of them is."""
    numbers = list(counts)
    return None if None in numbers else sum(cast("list[int]", numbers))
