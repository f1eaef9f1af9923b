"""Answers a run from its trace in another order, and fails where a plan says: for nothing.

Invariant: nothing is asked live and no tool runs; one seed is one run, whatever the machine does.

A recorded answer is given to the call of its address even when the call asks something else now:
that is what is looked for, and it is noted in ``changed``. What was never recorded, as in a branch
that only another order takes, gets the answer of a like call; where there is none, the run ends
with ``NoAnswer``.
"""

from __future__ import annotations

import asyncio
import functools
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from appl import errors
from appl.backend import Emit, Request, Response
from appl.runtime.world import AMOUNTS, LOOP_LIMIT, LOOP_TIMER, PERHAPS, Go, Moment, ToolRequest
from appl.tracing.format.record import profile_from
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.replayer import answers
from appl.tracing.replaying.sequencer import (
    DELIVERED,
    Expectation,
    FromOutside,
    Kind,
    Now,
    Recorded,
    Sequencer,
    Turn,
    Verdict,
    charge,
)
from appl.tracing.replaying.tool_matching import likely_use

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
_OWN = frozenset(
    [
        *("done", "timeout", "deadline", "sleep", "cancelled", "asked", "due"),
        *(LOOP_LIMIT, LOOP_TIMER, *AMOUNTS),
    ]
)
_HARMLESS = frozenset(["now", "random", "uuid", "env"])


class NoAnswer(errors.BackendError):
    """Nothing that was recorded could answer this: how such a run goes on is not known."""


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
    """The world of a run whose recorded answers come in another order, and its backend.

    The backend is asked for the call that a fault is planned for, and for no other. *advance* has a
    clock go to the next timer, and is false when there is none: see ``appl.testing.VirtualClock``.
    """

    in_order = False

    def __init__(self, trace: Trace, plan: Plan, advance: Callable[[], bool]) -> None:
        super().__init__(trace)
        self.plan, self._advance, self.backend = plan, advance, self
        self.profile = profile_from(self.trace.header.get("profile"))
        self._attempts = 0
        self.changed: dict[str, str] = {}
        self.unknown: list[str] = []
        self._where = ""

    def for_inner(self, trace: Trace, address: str) -> Fuzzer:
        """The world of a run of its own that begins at *address*, which *trace* records.

        What is found there is noted here.
        """
        inner = Fuzzer(trace, Plan(self.plan.seed), self._advance)
        inner.changed, inner.unknown = self.changed, self.unknown
        inner._where = f"{self._where} in the run of its own at {address or '/'}"
        return inner

    def never_recorded(self, address: str) -> NoAnswer:
        """The error about a run of its own at *address* that is only there in this order."""
        self.unknown.append(address)
        return NoAnswer(f"{address}: a run of its own was not recorded")

    async def aclose(self) -> None:
        """Nothing is held."""

    # -- verdicts

    def of_call(self, call: Call) -> Verdict:
        """The recorded outcome, or a like one; a call with a fault is asked."""
        assert call.request is not None
        faulty = call.address == self.plan.address
        return Now() if faulty else Recorded(self._record_for(call.request))

    def of_tool(self, address: str, wanted: ToolRequest) -> Verdict:
        """The recorded use of a tool, or one of the same tool."""
        used = likely_use(self.trace, address, wanted)
        if used is None or used.name != wanted.name:
            raise NoAnswer(f"{address}: the tool {wanted.name} was not recorded")
        return Recorded(used)

    def of_new(self, moment: Moment) -> Verdict:
        """It comes; but a deadline that did not pass never does."""
        perhaps = moment.kind in PERHAPS and moment.kind != LOOP_TIMER
        return None if perhaps else FromOutside(None)

    def _record_for(self, request: Request) -> RecordedCall:
        """The record of *request*, or one of the same question, or one with the same options."""
        recorded = self.trace.by_address.get(request.address)
        if recorded is not None and (recorded.response is not None or recorded.outcome == "failed"):
            return recorded
        options = request.sampling.canonical()
        answered = [call for call in self.trace.calls if call.response is not None]
        same = [call for call in answered if call.content == self.trace.content_of(request)]
        like = same or [c for c in answered if (c.sampling, c.n) == (options, request.n)]
        if not like:
            raise NoAnswer(f"{request.address}: nothing that was recorded could answer it")
        return like[self._dice(request.address).randrange(len(like))]

    def refuse(self, expected: Expectation, error: errors.ApplError) -> None:
        """Note what the record does not answer."""
        if isinstance(error, NoAnswer):
            self.unknown.append(expected.moment.address)
        super().refuse(expected, error)

    def reuses(self, call: Call, recorded: RecordedCall, kind: Kind) -> None:
        """Note when *call*, which is answered now, asks something else than was recorded.

        Whether one that is cancelled had got so far is a matter of time.
        """
        assert call.request is not None
        charge(self.programs, call, recorded)
        here = self.trace.by_address.get(call.address)
        if here is None or not answers(self.trace, here, call.request):
            self.changed.setdefault(call.address + self._where, str(self.diverged(call)))

    def stands(self, address: str) -> bool:
        """A call is cancelled when its program does so, whatever was recorded."""
        return False

    # -- the fault

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """The recorded answer of the call with the fault, in its turn, and as the plan says."""
        self._attempts += 1
        fault = self.plan.fault if self.plan.lasting or self._attempts == 1 else None
        recorded = self._record_for(request)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.park(self.turn_or_last(request.address), functools.partial(_open, turn))
        await turn
        chunks = list(recorded.chunks())
        for chunk in chunks[: len(chunks) // 2] if fault == "cut" else chunks:
            if emit is not None:
                emit(chunk)
        if fault is not None and fault != "garbled":
            raise _error(fault, request.address)
        if recorded.response is None:
            raise recorded.error or NoAnswer(f"{request.address} has no recorded answer")
        if fault != "garbled":
            return recorded.response
        samples = tuple(  # cut in the middle: bad JSON, half a sentence
            replace(sample, text=sample.text[: len(sample.text) // 2], logprobs=None, tool_calls=())
            for sample in recorded.response.samples
        )
        return replace(recorded.response, samples=samples)

    # -- the order

    def park(self, turn: tuple[object, ...], go: Go) -> None:
        """Have *go* done in a turn that is drawn; where a fault is planned, as it was recorded.

        Each thing has its own lot: what else waits, and for how long, changes nobody's.
        """
        super().park(turn if self.plan.fault else (self._dice(turn).random(), *turn), go)

    def answer_in(
        self, turn: Turn, expected: Expectation, recorded: RecordedCall, kind: Kind
    ) -> None:
        """Answer a call in its *turn*, or for another order in one of its own."""
        drawn = self._dice(expected.moment.address).getrandbits(60), DELIVERED
        super().answer_in(turn if self.plan.fault else drawn, expected, recorded, kind)

    def idle(self, final: bool = True) -> bool:
        """Let something go on, or the clock."""
        return self.release() or self._advance()

    def _dice(self, *about: object) -> random.Random:
        return random.Random(f"{self.plan.seed} {about}")

    # -- what is seen

    def see(self, moment: Moment, live: Callable[[], object]) -> object:
        """The recorded observation; for the order of events, the live one. Raises ``NoAnswer``."""
        if moment.kind in _OWN:
            return live()
        return super().see(moment, lambda: self._drawn(moment, live))

    def _drawn(self, moment: Moment, live: Callable[[], object]) -> object:
        """An observation that was not recorded: the same for each run of the plan."""
        kind, dice = moment.kind, self._dice(moment)
        if kind not in _HARMLESS:
            self.unknown.append(moment.address)
            raise NoAnswer(f"{moment.address}: {kind} was not recorded")
        if kind == "random":
            return dice.random()
        if kind == "uuid":
            return str(uuid.UUID(int=dice.getrandbits(128), version=4))
        like = [
            observation.value for observation in self.trace.observations if observation.kind == kind
        ]
        return like[0] if like else live()


def _open(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _error(fault: FaultKind, address: str) -> errors.BackendError:
    text = f"{FAULTS[fault]}, as the plan says, at {address}"
    if fault == "busy":
        return errors.BackendBusy(text, status=429, retry_after=1.0)
    if fault == "timeout":
        return errors.BackendTimeout(text, deadline="first token")
    return errors.BackendUnavailable(text) if fault == "cut" else errors.MalformedResponse(text)
