"""Tools for testing prompt programs: backends that answer from a script, and runs around them.

Invariant: everything here is deterministic; nothing sleeps, and no answer depends on the clock.

``Echo`` answers with a function of the prompt alone. ``Scripted`` answers from a list, or with what
a function says. ``Instant`` answers at once, for measuring. ``Seeded`` holds every answer until no
program can go on, then releases one that a seed picks: another seed is another schedule.
``running`` makes a run around any of them::

    with running(Scripted(["Paris"])) as seen:
        assert capital("France") == "Paris"
    assert seen.requests[0].messages ...
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

from appl.backend import Emit, Profile, Request, Response, Sample, Usage
from appl.errors import BackendError
from appl.runtime.event import Event
from appl.runtime.run import Run

__all__ = [
    "Echo",
    "Fake",
    "Held",
    "Instant",
    "Log",
    "Scripted",
    "Seeded",
    "response",
    "running",
    "said",
]

Answer = str | Response | BaseException


def response(text: str, finish_reason: str = "stop") -> Response:
    """A response with one sample."""
    return Response((Sample(text, finish_reason),))


def said(request: Request) -> str:
    """The prompt of *request* as text: ``role: content`` lines."""
    return "\n".join(f"{m.role}: {m.content}" for m in request.messages or ())


class Fake:
    """A backend that answers with ``answer(request)``, and keeps every request it saw.

    An answer is a text, a ``Response``, or an exception to raise.
    """

    features: frozenset[str] = frozenset({"n", "prefill", "seed"})

    def __init__(self, answer: Callable[[Request], Answer], **profile: Any) -> None:
        self._answer = answer
        given: dict[str, Any] = {"name": "fake", "features": self.features, **profile}
        given["features"] = frozenset(given["features"])
        given["options"] = frozenset(given.get("options", ()))
        self.profile = Profile(**given)
        self.requests: list[Request] = []
        self.closed = False

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request* at once."""
        self.requests.append(request)
        return self.answer(request)

    def answer(self, request: Request) -> Response:
        """The answer to *request*, or raise it."""
        answer = self._answer(request)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Response):
            return answer
        return Response((Sample(answer, "stop"),) * request.n, _usage(request, answer))

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True

    @property
    def prompts(self) -> dict[str, str]:
        """What was asked, by address."""
        return {request.address: said(request) for request in self.requests}


def _usage(request: Request, text: str) -> Usage:
    words = sum(len(m.content.split()) for m in request.messages or ())
    return Usage(words, len(text.split()), None)


class Echo(Fake):
    """Answers with a short digest of the request's content: equal questions, equal answers."""

    def __init__(self, **profile: Any) -> None:
        super().__init__(lambda request: request.digest.hex()[:6], **{"name": "echo", **profile})


class Scripted(Fake):
    """Answers from *script*: a list in the order of asking, a dict by address, or a function."""

    def __init__(
        self,
        script: Iterable[Answer] | dict[str, Answer] | Callable[[Request], Answer],
        **profile: Any,
    ) -> None:
        super().__init__(_follow(script), **{"name": "scripted", **profile})


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


class Held(Fake):
    """Answers only when told: ``release(address)``, or ``release()`` for all that wait."""

    def __init__(self, answer: Callable[[Request], Answer] | None = None, **profile: Any) -> None:
        super().__init__(answer or (lambda r: r.digest.hex()[:6]), **{"name": "held", **profile})
        self.waiting: dict[str, asyncio.Future[None]] = {}
        self.aborted: list[str] = []

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Park until released."""
        self.requests.append(request)
        gate = self.waiting[request.address] = asyncio.get_running_loop().create_future()
        try:
            await gate
        except asyncio.CancelledError:
            self.aborted.append(request.address)
            raise
        finally:
            self.waiting.pop(request.address, None)
        return self.answer(request)

    def release(self, *addresses: str) -> None:
        """Let the calls at *addresses* (all that wait, when none is given) have their answers."""
        for address in addresses or tuple(self.waiting):
            gate = self.waiting.get(address)
            if gate is not None:
                gate.get_loop().call_soon_threadsafe(_open, gate)


def _open(gate: asyncio.Future[None]) -> None:
    if not gate.done():
        gate.set_result(None)


class Seeded(Held):
    """Releases one call at a time, drawn by *seed*, whenever no program can go on.

    Two seeds are two schedules; by the language's promises they give the same values.
    """

    def __init__(
        self, seed: int, answer: Callable[[Request], Answer] | None = None, **profile: Any
    ) -> None:
        super().__init__(answer, **{"name": "seeded", **profile})
        self._random = random.Random(seed)

    def on_quiet(self, final: bool = True) -> bool:
        """Release one; false when none waits."""
        waiting = sorted(a for a, gate in self.waiting.items() if not gate.done())
        if not waiting:
            return False
        _open(self.waiting[self._random.choice(waiting)])
        return True


class Log:
    """An instrument that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        """Keep *event*."""
        self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one class, in the order in which they happened."""
        return [event for event in self.events if isinstance(event, kind)]


@contextmanager
def running(backend: Any, **options: Any) -> Generator[Any, None, None]:
    """A run on *backend*, which the block gets; *options* are those of ``Run``.

    ``sequential=True`` is the naive runtime, which really waits at every call.
    """
    with Run(backend, **options):
        yield backend
