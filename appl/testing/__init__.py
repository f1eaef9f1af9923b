"""Tools for testing prompt programs: backends that answer from a script, runs around them, clocks.

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

    with running(Scripted(["Paris"])) as backend:
        assert capital("France") == "Paris"
    assert backend.requests[0].messages ...

``running(…, policy=Policy(…))`` sets limits, retries, deadlines or a budget;
``models=Models(…)`` and ``places={…: BackendEndpoint(…)}`` send calls to several backends.
``running(…, instruments=[log])`` with a ``Log`` keeps the events, such as ``CallStarted``,
``AttemptFailed`` and ``CallEnded``. ``Run`` is the run itself, also for ``async with``.
``on_backend_loop(backend.aclose)`` runs a function on the loop where backends answer.

``serving`` starts the embedded model behind HTTP in a process of its own, for tests of clients.
``FaultServer`` is an HTTP server that fails as its script of ``FAULTS`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from appl.backend import Chunk, Emit, Profile, Request, Response, Sample, Usage
from appl.base.lazy_names import names_of

if TYPE_CHECKING:
    from appl.runtime.answers.models import Model as Model, Models as Models
    from appl.runtime.event import (
        AttemptFailed as AttemptFailed,
        CallDispatched as CallDispatched,
        CallEnded as CallEnded,
        CallStarted as CallStarted,
        ChunkArrived as ChunkArrived,
        ChunksDelivered as ChunksDelivered,
        Delivered as Delivered,
        Event as Event,
        Instrument as Instrument,
        Observed as Observed,
        RunEnded as RunEnded,
        ScopeEntered as ScopeEntered,
        ScopeLeft as ScopeLeft,
        ToolEnded as ToolEnded,
        ToolStarted as ToolStarted,
        Warned as Warned,
    )
    from appl.runtime.run import Run as Run
    from appl.runtime.scheduling.dispatcher import BackendEndpoint as BackendEndpoint
    from appl.runtime.scheduling.policy import (
        Allowance as Allowance,
        Deadlines as Deadlines,
        Limits as Limits,
        Policy as Policy,
        Retries as Retries,
    )
    from appl.testing.clock import VirtualClock as VirtualClock
    from appl.testing.embedded_server import Served as Served, serving as serving
    from appl.testing.faults import (
        FAULTS as FAULTS,
        Fault as Fault,
        FaultServer as FaultServer,
        drawn as drawn,
    )
    from appl.testing.runs import Log as Log, on_backend_loop as on_backend_loop, running as running
    from appl.testing.schedules import Held as Held, Late as Late, Seeded as Seeded
    from appl.testing.scripts import Instant as Instant, Scripted as Scripted, calling as calling
    from appl.testing.wall_clock import WallClock as WallClock
else:
    __getattr__ = names_of(
        "appl",
        {
            "runtime.answers.models": "Model Models",
            "runtime.event": """
                AttemptFailed CallDispatched CallEnded CallStarted ChunkArrived ChunksDelivered
                Delivered Event Instrument Observed RunEnded ScopeEntered ScopeLeft ToolEnded
                ToolStarted Warned
            """,
            "runtime.run": "Run",
            "runtime.scheduling.dispatcher": "BackendEndpoint",
            "runtime.scheduling.policy": "Allowance Deadlines Limits Policy Retries",
            "testing.clock": "VirtualClock",
            "testing.embedded_server": "Served serving",
            "testing.faults": "FAULTS Fault FaultServer drawn",
            "testing.runs": "Log on_backend_loop running",
            "testing.schedules": "Held Late Seeded",
            "testing.scripts": "Instant Scripted calling",
            "testing.wall_clock": "WallClock",
        },
        __name__,
    )


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


def response(text: str, finish_reason: str = "stop") -> Response:
    """A response with one sample."""
    return Response((Sample(text, finish_reason),))


def said(request: Request) -> str:
    """The prompt of *request* as text: ``role: content`` lines."""
    return "\n".join(map(str, request.messages or ()))


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
        answer = or_vectors(lambda request: request.digest.hex()[:6])
        super().__init__(answer, **{"name": "echo", **profile})


def or_vectors(answer: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """*answer*, with the vectors of texts for requests that ask for these."""

    def answered(request: Request) -> Answer:
        if request.sampling.dimensions is None:
            return answer(request)
        from appl.testing.vectors import embedded  # few tests ask for vectors

        return embedded(request)

    return answered
