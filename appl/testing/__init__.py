"""Tools for testing prompt programs: backends that answer from a script, and runs around them.

Invariant: everything here is deterministic; nothing sleeps, and no answer depends on the clock.

``Echo`` answers with a function of the prompt alone. ``Scripted`` answers from a list, a dict or a
function. Both give ``embed`` vectors in which texts that share words are near each other.
``Instant`` answers at once, for measurements. ``Held`` answers when the test releases it.
``Seeded`` holds every answer until no program can go on, then releases one picked by a seed:
another seed is another schedule. ``Streamed`` is an answer in pieces, which each of them streams;
``Held`` and ``Seeded`` hold every piece. ``Late`` answers after a delay on a ``VirtualClock``,
which moves when nothing else can happen; with ``Policy(clock=…)`` limits and retries use it too.
``WallClock`` is the time of day for programs that wait for people and days; it moves when the test
says so.
``calling`` is an answer that calls tools. ``running`` makes a run around any of them::

    with running(Scripted(["Paris"])) as seen:
        assert capital("France") == "Paris"
    assert seen.requests[0].messages ...

``running(…, policy=Policy(…))`` sets limits, retries, deadlines or a budget;
``models=Models(…)`` and ``places={…: BackendEndpoint(…)}`` send calls to several backends.

``serving`` starts the embedded model behind HTTP in a process of its own, for tests of clients.
``FaultServer`` is an HTTP server that fails as its script of ``FAULTS`` says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from appl.backend import Backend, Chunk, Emit, Profile, Request, Response, Sample, Usage
from appl.base.lazy_names import names_of
from appl.errors import BackendError
from appl.prompt import ToolCall
from appl.runtime.answers.models import Model, Models
from appl.runtime.event import Event
from appl.runtime.run import Run
from appl.runtime.scheduling.dispatcher import BackendEndpoint
from appl.runtime.scheduling.policy import (
    Allowance,
    Deadlines,
    Limits,
    Policy,
    Retries,
)

if TYPE_CHECKING:
    from appl.testing.clock import VirtualClock as VirtualClock
    from appl.testing.embedded_server import Served as Served, serving as serving
    from appl.testing.faults import (
        FAULTS as FAULTS,
        Fault as Fault,
        FaultServer as FaultServer,
        drawn as drawn,
    )
    from appl.testing.schedules import Held as Held, Late as Late, Seeded as Seeded
    from appl.testing.wall_clock import WallClock as WallClock
else:
    __getattr__ = names_of(
        "appl",
        {
            "testing.embedded_server": "Served serving",
            "testing.clock": "VirtualClock",
            "testing.schedules": "Held Late Seeded",
            "testing.wall_clock": "WallClock",
            "testing.faults": "FAULTS Fault FaultServer drawn",
        },
        __name__,
    )

__all__ = [
    "FAULTS",
    "Allowance",
    "BackendEndpoint",
    "Deadlines",
    "Echo",
    "Fake",
    "Fault",
    "FaultServer",
    "Held",
    "Instant",
    "Late",
    "Limits",
    "Log",
    "Model",
    "Models",
    "Policy",
    "Retries",
    "Scripted",
    "Seeded",
    "Served",
    "Streamed",
    "VirtualClock",
    "WallClock",
    "calling",
    "drawn",
    "response",
    "running",
    "said",
    "serving",
]


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer in *pieces* of text (or ``Chunk``), with its end.

    *end* is an error, or a response whose text is that of the pieces; the default is the response
    made of the pieces.
    """

    pieces: tuple[str | Chunk, ...]
    end: Response | BaseException | None = None

    def chunks(self, first: int = 0) -> list[Chunk]:
        """The pieces as chunks, in the order in which they are emitted."""
        return [Chunk(first, piece) if isinstance(piece, str) else piece for piece in self.pieces]


Answer = str | Response | BaseException | Streamed
B = TypeVar("B", bound=Backend)
E = TypeVar("E", bound=Event)


def response(text: str, finish_reason: str = "stop") -> Response:
    """A response with one sample."""
    return Response((Sample(text, finish_reason),))


def said(request: Request) -> str:
    """The prompt of *request* as text: ``role: content`` lines."""
    return "\n".join(map(str, request.messages or ()))


def calling(*calls: tuple[str, object], text: str = "") -> Response:
    """A response that calls tools: names with their arguments, as JSON text or as data."""
    tool_calls_built = [
        ToolCall(
            f"call_{i}", name, arguments if isinstance(arguments, str) else json.dumps(arguments)
        )
        for i, (name, arguments) in enumerate(calls)
    ]
    return Response((Sample(text, "tool_calls", tool_calls=tuple(tool_calls_built)),))


class Fake:
    """A backend that answers with ``answer(request)``, and keeps every request.

    An answer is a text, a ``Response``, ``Streamed``, or an exception to raise. *pieces* cuts texts
    into the pieces in which they are streamed.
    """

    features: frozenset[str] = frozenset({"logprobs", "n", "prefill", "seed", "stream", "tools"})

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        *,
        pieces: Callable[[str], Iterable[str]] | None = None,
        **profile: object,
    ) -> None:
        self._answer, self._pieces = answer, pieces
        settings: dict[str, Any] = {"name": "fake", "features": self.features, **profile}
        settings["features"] = frozenset(settings["features"])
        settings["options"] = frozenset(settings.get("options", ()))
        self.profile = Profile(**settings)
        self.requests: list[Request] = []
        self.closed = False

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request* at once."""
        self.requests.append(request)
        answer = self._answer(request)
        if emit is not None:
            for chunk in self.chunks(request, answer):
                emit(chunk)
        return self.end(request, answer)

    def answer(self, request: Request) -> Response:
        """The answer to *request*; raises it if it is an exception."""
        return self.end(request, self._answer(request))

    def chunks(self, request: Request, answer: Answer) -> list[Chunk]:
        """The pieces in which *answer* is streamed; none if it comes as a whole."""
        if isinstance(answer, Streamed):
            return answer.chunks(request.sample)
        cut = self._pieces
        if cut is None or isinstance(answer, BaseException):
            return []
        samples = self.end(request, answer).samples
        return [
            Chunk(number, piece)
            for number, sample in enumerate(samples, request.sample)
            for piece in cut(sample.text)
        ]

    def end(self, request: Request, answer: Answer) -> Response:
        """*answer* as a response; raises it if it is an exception."""
        if isinstance(answer, Streamed):
            answer = answer.end if answer.end is not None else _response_of(answer.chunks())
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Response):
            return answer
        return Response((Sample(answer, "stop"),) * request.n, _usage(request, answer))

    async def aclose(self) -> None:
        """Note that the backend was closed."""
        self.closed = True

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts of all requests, by address."""
        return {request.address: said(request) for request in self.requests}


def _response_of(chunks: list[Chunk]) -> Response:
    text = "".join(chunk.text for chunk in chunks if chunk.kind == "text")
    reasoning = "".join(chunk.text for chunk in chunks if chunk.kind == "reasoning")
    return Response((Sample(text, "stop", reasoning=reasoning or None),))


def _usage(request: Request, text: str) -> Usage:
    words = sum(len(m.content.split()) for m in request.messages or ())
    return Usage(words, len(text.split()), None)


class Echo(Fake):
    """Answers with a short digest of the request's content: equal questions, equal answers.

    ``embed`` gets vectors made of the words of each text.
    """

    features = Fake.features | {"embeddings"}

    def __init__(self, **profile: Any) -> None:
        answer = _or_vectors(lambda request: request.digest.hex()[:6])
        super().__init__(answer, **{"name": "echo", **profile})


class Scripted(Fake):
    """Answers from *script*: a list in the order of requests, a dict by address, or a function.

    ``embed`` gets vectors made of the words of each text; the script has no part in them.
    """

    features = Fake.features | {"embeddings"}

    def __init__(
        self,
        script: Iterable[Answer] | dict[str, Answer] | Callable[[Request], Answer],
        **profile: Any,
    ) -> None:
        super().__init__(_or_vectors(_follow(script)), **{"name": "scripted", **profile})


def _or_vectors(answer: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """*answer*, with the vectors of texts for requests that ask for these."""

    def answered(request: Request) -> Answer:
        if request.sampling.dimensions is None:
            return answer(request)
        from appl.testing.vectors import embedded  # few tests ask for vectors

        return embedded(request)

    return answered


def _follow(
    script: Iterable[Answer] | dict[str, Answer] | Callable[[Request], Answer],
) -> Callable[[Request], Answer]:
    if callable(script):
        return script
    if isinstance(script, dict):
        by_address = script
        return lambda request: by_address.get(request.address, _missing(request))
    lines = iter(script)
    return lambda request: next(lines, _missing(request))


def _missing(request: Request) -> BackendError:
    return BackendError(f"the script has no answer for {request.address}: {said(request)!r:.200}")


class Instant(Fake):
    """Answers with one text at once and keeps nothing: for measuring the runtime itself."""

    def __init__(self, text: str = "ok", **profile: Any) -> None:
        super().__init__(lambda _: text, **{"name": "instant", **profile})
        self._response = response(text)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """The one response."""
        return self._response


class Log:
    """An instrument that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        """Keep *event*."""
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one class, in the order in which they happened."""
        return [event for event in self.events if isinstance(event, kind)]


@contextmanager
def running(backend: B, **options: Any) -> Generator[B, None, None]:
    """A run on *backend*, which the block gets; *options* are those of ``Run``.

    ``sequential=True`` is the naive runtime, which really waits at every call.
    """
    run = Run(backend, **options)
    run.is_isolated = True
    with run:
        yield backend
