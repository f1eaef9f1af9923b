"""Answers a run from its trace in another order, and fails where a plan says: for nothing.

Invariant: nothing is asked live and no tool runs; one seed is one run, whatever the machine does.

A recorded answer is given to the call of its address even when the call asks something else now:
that is what is looked for, and it is noted in ``changed``. What was never recorded, as in a branch
that only another order takes, gets the answer of a like call; where there is none, the run ends
with ``NoAnswer``.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from appl.backend import Emit, Profile, Request, Response
from appl.errors import (
    BackendBusy,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    MalformedResponse,
)
from appl.runtime.world import PERHAPS, Go, Moment, Tell, ToolRequest
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying import explain
from appl.tracing.replaying.explain import Site
from appl.tracing.replaying.replayer import profile_from
from appl.tracing.replaying.sequencer import Sequencer, where

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

FaultKind = Literal["busy", "timeout", "cut", "malformed", "garbled"]
FAULTS: dict[FaultKind, str] = {
    "busy": "a 429",
    "timeout": "a timeout",
    "cut": "a stream that breaks off",
    "malformed": "an answer that breaks the protocol",
    "garbled": "an answer that ends in the middle",
}
_OWN = frozenset(["done", "timeout", "deadline", "sleep", "cancelled"])
_HARMLESS = frozenset(["now", "random", "uuid", "env"])
_LAST = (1 << 62, 0)


class NoAnswer(BackendError):
    """Nothing that was recorded could answer this: how such a run goes on is not known."""


class FuzzClock(Protocol):
    """A clock that goes on when it is told to: see ``appl.testing.VirtualClock``."""

    def advance(self) -> bool:
        """Go to the next timer; false when there is none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A change to a run: another ``order``, or a ``fault`` at an address, with a seed.

    A ``lasting`` fault meets each attempt of the call, another one only the first.
    """

    seed: int
    fault: FaultKind | None = None
    address: str = ""
    lasting: bool = False

    @property
    def told(self) -> str:
        """The plan in words."""
        if self.fault is None:
            return "another order"
        often = "at each attempt" if self.lasting else "once"
        return f"{FAULTS[self.fault]} at {self.address}, {often}"


def plan(trace: Trace, seed: int) -> Plan:
    """The plan of *seed*: even ones are orders, odd ones faults."""
    dice = random.Random(f"fuzz {seed}")
    addresses = sorted(call.address for call in trace.calls if call.response is not None)
    if seed % 2 == 0 or not addresses:
        return Plan(seed)
    kinds = list(FAULTS)
    kind = kinds[seed // 2 % len(kinds)]
    return Plan(seed, kind, dice.choice(addresses), dice.random() < 0.5)


class Fuzzer(Sequencer):
    """The world of a run whose recorded answers come in another order, and its backend."""

    in_order = False

    def __init__(self, trace: Trace, plan: Plan, clock: FuzzClock) -> None:
        super().__init__(trace)
        self.plan, self._clock = plan, clock
        self._sites: dict[str, Site] = {}
        self._gates: Counter[str] = Counter()
        self._attempts: Counter[str] = Counter()
        self.changed: dict[str, str] = {}
        self.unknown: list[str] = []

    @property
    def backend(self) -> Fuzzer:
        """The backend for the run."""
        return self

    @property
    def profile(self) -> Profile:
        """The recorded backend's."""
        return profile_from(self.trace.header.get("profile"))

    async def aclose(self) -> None:
        """Nothing is held."""

    # -- answers

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """The recorded answer, or a fault, when it is drawn."""
        self._attempts[request.address] += 1
        call = self._call(request)
        fault = self._fault(request.address)
        chunks = list(call.chunks()) if emit is not None else []
        for chunk in chunks[: len(chunks) // 2] if fault == "cut" else chunks:
            await self._gate(request.address)
            assert emit is not None
            emit(chunk)
        await self._gate(request.address)
        self._compare(request)
        if fault is not None and fault != "garbled":
            raise _error(fault, request.address)
        if call.response is None:
            raise call.error or NoAnswer(f"{request.address} has no recorded answer")
        return _garbled(call.response) if fault == "garbled" else call.response

    def _fault(self, address: str) -> FaultKind | None:
        plan = self.plan
        due = plan.lasting or self._attempts[address] == 1
        return plan.fault if plan.address == address and due else None

    def _compare(self, request: Request) -> None:
        """Note when *request*, which is answered now, asks something else than was recorded.

        Whether one that is cancelled had got so far is a matter of time.
        """
        found = self.trace.by_address.get(request.address)
        if found is None or (found.started is not None and found.content != request.digest):
            site = self._sites.get(request.address, Site())
            text = explain.divergence(self.trace, request, site, ())
            self.changed.setdefault(request.address, text)

    def _call(self, request: Request) -> RecordedCall:
        """The record that answers *request*."""
        found = self.trace.by_address.get(request.address)
        if found is not None and (found.response is not None or found.outcome == "failed"):
            return found
        return self._like(request)

    def _like(self, request: Request) -> RecordedCall:
        """A recorded answer to the same question, or to one with the same options."""
        options = request.sampling.canonical()
        answered = [call for call in self.trace.calls if call.response is not None]
        same = [call for call in answered if call.content == request.digest]
        like = same or [c for c in answered if (c.sampling, c.n) == (options, request.n)]
        if not like:
            self.unknown.append(request.address)
            raise NoAnswer(f"nothing that was recorded could answer {request.address}")
        return like[self._dice(request.address).randrange(len(like))]

    # -- the order

    async def _gate(self, address: str) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._draw(Moment(address, "call", self._gates[address]), lambda: _open(future))
        self._gates[address] += 1
        await future

    def _draw(self, moment: Moment, go: Go) -> None:
        """Have *go* done in a turn that is drawn; where a fault is planned, as it was recorded.

        Each thing has its own lot: what else waits, and for how long, changes nobody's.
        """
        key = moment.address, moment.kind, moment.ordinal
        turn: tuple[float, int] = self._dice(*key).random(), 0
        if self.plan.fault is not None:
            seen = self._seen.get(moment)
            turn = (seen.position, 0) if seen else self._turns.get(moment.address, _LAST)
        self.park((turn, key), go)

    def idle(self, final: bool = True) -> bool:
        """Let something go on, or the clock."""
        return self.release() or self._clock.advance()

    def _dice(self, *about: object) -> random.Random:
        return random.Random(f"{self.plan.seed} {about}")

    # -- the world

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        """A timer rings when it is drawn, a tool's result comes then; calls come to the queue.

        A deadline that did not pass never does. Nor is a function ended from outside that nobody
        ended.
        """
        if isinstance(about, ToolRequest):
            self._tool(moment, about, tell)
        elif about is not None and moment.kind == "answer":
            self._sites[moment.address] = Site(where(about), about.edges())
            live()
        elif moment.kind in ("workers", "item"):
            super().expect(moment, tell, live)
        elif about is None and (moment.kind not in PERHAPS or moment in self._seen):
            self._draw(moment, lambda: tell(None))

    def stands(self, address: str) -> bool:
        """A call is cancelled when its program does so, whatever was recorded."""
        return False

    def see(self, moment: Moment, live: Callable[[], Any]) -> Any:
        """The recorded observation; for the order of events, the live one. Raises ``NoAnswer``."""
        if moment.kind in _OWN:
            return live()
        seen = self._seen.get(moment)
        if seen is not None:
            return seen.value
        if moment.kind in _HARMLESS:
            return self._drawn(moment, live)
        self.unknown.append(moment.address)
        raise NoAnswer(f"{moment.kind} at {moment.address} was not recorded")

    def _drawn(self, moment: Moment, live: Callable[[], Any]) -> Any:
        """An observation that was not recorded: the same for each run of the plan."""
        kind = moment.kind
        dice = self._dice(moment.address, moment.ordinal, kind)
        if kind == "random":
            return dice.random()
        if kind == "uuid":
            return str(uuid.UUID(int=dice.getrandbits(128), version=4))
        like = [seen.value for seen in self.trace.observations if seen.kind == kind]
        return like[0] if like else live()

    def _tool(self, moment: Moment, wanted: ToolRequest, tell: Tell) -> None:
        """Tell the recorded result, or that of a like call. Raises ``NoAnswer``."""
        used = self._used(moment.address, wanted.name, wanted.arguments)
        if wanted.at_once:
            tell(used.end())
        else:
            self._draw(moment, lambda: tell(used.end()))

    def _used(self, address: str, name: str, arguments: str) -> ToolUse:
        ended = [used for used in self.trace.tools.values() if used.message or used.error]
        here = self.trace.tools.get(address)
        if here in ended and here is not None and here.differs(name, arguments) is None:
            return here
        like = [used for used in ended if used.name == name]
        if not like:
            self.unknown.append(address)
            raise NoAnswer(f"the tool {name} at {address} was not recorded")
        return next((used for used in like if used.arguments == arguments), like[0])


def _open(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _error(fault: FaultKind, address: str) -> BackendError:
    text = f"{FAULTS[fault]}, as the plan says, at {address}"
    if fault == "busy":
        return BackendBusy(text, status=429, retry_after=1.0)
    if fault == "timeout":
        return BackendTimeout(text, deadline="first token")
    return BackendUnavailable(text) if fault == "cut" else MalformedResponse(text)


def _garbled(response: Response) -> Response:
    """*response* with its texts cut in the middle: bad JSON, half a sentence."""
    samples = tuple(
        replace(sample, text=sample.text[: len(sample.text) // 2], logprobs=None, tool_calls=())
        for sample in response.samples
    )
    return replace(response, samples=samples)
