"""Runs a program again after an edit, and asks only what the earlier run does not answer.

Invariant: an answer is given only to a call of its content, and once. Who owns a record by his
place comes before who asks the same elsewhere: that is looked for only when nothing else can move.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from appl.backend import Request, Response, Sample, Usage
from appl.errors import BudgetExceeded, DivergenceError
from appl.runtime.event import (
    CallDispatched,
    CallEnded,
    CallStarted,
    Event,
    Observed,
    Source,
    ToolEnded,
)
from appl.runtime.world import AMOUNTS, LOOP_LIMIT, Go, How, Live, Moment, ToolRequest
from appl.tracing.reading.trace import Observation, RecordedCall, Trace
from appl.tracing.replaying.amending import Amendments, matches
from appl.tracing.replaying.failed_parts import FAILED, FailedParts
from appl.tracing.replaying.recall import Recall, strays_first
from appl.tracing.replaying.replayer import answers
from appl.tracing.replaying.sequencer import (
    DELIVERED,
    AtEnd,
    Expectation,
    Kind,
    Now,
    Record,
    Recorded,
    Turn,
    Verdict,
    charge,
    where,
)
from appl.tracing.replaying.tool_matching import tool_difference

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

ANEW, CANCELLED = "asked anew", "was cancelled when recorded"
_STRIKES = ("deadline", "timeout", LOOP_LIMIT)


@dataclass(slots=True)
class LiveCall:
    """A call that was asked, or would be: where the program issues it, and what it asks.

    ``cause`` is why it is asked; "" where only a look at the record can tell.
    """

    address: str
    where: str = ""
    request: Request | None = None
    cause: str = ""

    def as_data(self) -> dict[str, str]:
        """The call as JSON-ready data."""
        return {"address": self.address, "cause": self.cause, "where": self.where}


def was_refused(call: RecordedCall) -> bool:
    """True if a budget kept the call from being sent."""
    return call.outcome == "failed" and isinstance(call.error, BudgetExceeded)


class Rerunner(Recall):
    """Answers a run from the trace of an earlier one, where it asks the same.

    *pins* are answers by address, or pattern of addresses; *sets* options by ``CALL.option``, where
    CALL is an address or a pattern and ``model`` an option too; what *anew* names is asked whatever
    was recorded; the word ``failed`` there names what failed (see ``FailedParts``). A failure is
    asked again, unless *keep_failures*. ``begun`` are the calls of this run, ``asked`` those that
    went live, ``ran`` the tools that did. ``live_patience_s`` is how many seconds live calls are
    waited for, while nothing else happens, before calls whose place in the record is not certain
    are answered or asked.
    """

    patience_s = 0.25
    live_patience_s = 10.0

    def __init__(
        self,
        trace: Trace | str | os.PathLike[str],
        *,
        pins: Mapping[str, str] | None = None,
        sets: Mapping[str, Any] | None = None,
        anew: Iterable[str] = (),
        keep_failures: bool = False,
    ) -> None:
        super().__init__(trace)
        self._pins, self._anew = dict(pins or {}), tuple(anew)
        self._failed = FailedParts(self.trace) if FAILED in self._anew else None
        self.amendments = amendments = Amendments.of(self.trace, sets)
        self.sets, self.amended = amendments.sets, amendments.options_by_call
        self._sets = dict(sets or {})
        self._keep = keep_failures
        self.asked: dict[str, LiveCall] = {}
        self.ran: list[str] = []
        self._timed_live: set[Moment] = set()  # times that were up then, and pass now
        self.begun: set[str] = set()  # calls of this run
        self.inner: list[Rerunner] = []  # those of runs of their own inside of this one
        self._running: set[str] = set()  # live calls and tools
        self._sent: set[str] = set()  # live calls that somebody was asked
        self._slow: set[str] = set()  # of these, those that are not waited for any more
        self._by_content: dict[bytes, list[RecordedCall]] = defaultdict(list)
        for call in filter(self._is_worth, [*self.trace.calls, *self.trace.others]):
            self._by_content[call.content].append(call)

    def _is_worth(self, call: RecordedCall) -> bool:
        """True if the record of *call* holds an answer that can be given again."""
        is_kept = call.outcome == "answered" or (self._keep and call.outcome == "failed")
        stays = self._failed is None or not self._failed.has(call.address)
        return is_kept and stays and call.started is not None and not call.lost

    # -- verdicts

    def of_observation(self, moment: Moment, observation: Observation) -> Verdict:
        # An edit that adds a limit gives the later ones of its function other numbers. Traces of
        # earlier versions do not say how long a limit was.
        if type(observation.value) is float and moment.limit_s not in (None, observation.value):
            return AtEnd()
        strikes = observation.kind in _STRIKES and not self._was_in_time(observation)
        return AtEnd("recorded") if strikes else Recorded(observation)

    def of_call(self, call: Call) -> Verdict:
        """The recorded outcome at its place; a stray, or a live one, if there is none."""
        request, recorded = call.request, self.trace.by_address.get(call.address)
        assert request is not None
        pinned = next((self._pins[key] for key in self._pins if matches(key, call.address)), None)
        if pinned is not None:
            samples = (Sample(pinned, "stop"),) * max(call.n, 1)
            answer = Response(samples, Usage(0, 0, 0), cost=0)
            return Recorded(RecordedCall(call.address, response=answer), "pinned")
        if self._is_anew(call.address):
            return Now(ANEW)
        if recorded is not None and answers(self.trace, recorded, request):
            if self._is_worth(recorded) and recorded.address not in self.claimed:
                return Recorded(recorded)
            if was_refused(recorded) and recorded.address not in self.claimed:
                return Recorded(recorded)
            if recorded.outcome == "cancelled":
                return AtEnd("again", CANCELLED, self.partly(recorded))
        astray = call.address not in self._too_late and self._twins(request)
        return AtEnd("stray") if astray else Now()

    def of_tool(self, address: str, wanted: ToolRequest) -> Verdict:
        """The recorded result answers the same call at the same place; else the tool runs."""
        used = self.trace.tools.get(address)
        if used is None or used.outcome is None:
            return Now()
        if self._failed is not None and used.has_failed and self._failed.in_item(address):
            return Now()
        if used.outcome == "answered" and not tool_difference(used, wanted):
            return Recorded(used)
        return AtEnd("again") if used.outcome == "cancelled" and not wanted.at_once else Now()

    def go_live(self, expected: Expectation) -> None:
        if expected.call is not None:
            self.ask(expected, expected.call)
            return
        if expected.tool is not None and self.has_effect(expected.moment.address):
            self._running.add(expected.moment.address)
            self.ran.append(expected.moment.address)
        expected.live()

    def has_effect(self, address: str) -> bool:
        """True if the tool at *address* does something besides what its program does."""
        return self.effects.get(address, "refused") not in ("program", "refused")

    def _twins(self, request: Request) -> list[RecordedCall]:
        """Records of the same content that nobody has claimed."""
        same = self._by_content.get(self.trace.content_of(request), ())
        free = (call for call in same if call.address not in self.claimed)
        return [call for call in free if (call.n, call.sample) == (request.n, request.sample)]

    def ask(self, expected: Expectation, call: Call) -> None:
        """Let *call* go live; what is recorded of its samples is kept."""
        live = LiveCall(call.address, where(call), call.request, expected.cause)
        self.asked[call.address] = live
        self._running.add(call.address)
        request, recorded = call.request, self.trace.by_address.get(call.address)
        if not self._is_anew(call.address):
            # Of a call that wants more samples than were recorded, the missing ones are asked.
            if (
                request is not None
                and recorded is not None
                and call.emit is None
                and (recorded.content, recorded.sample)
                == (self.trace.content_of(request), request.sample)
                and recorded.response is not None
                and recorded.n < request.n
                and self._is_worth(recorded)
            ):
                self.claimed.add(recorded.address)
                call.earlier_answer = recorded.response
                call.request = dataclasses.replace(
                    request, n=request.n - recorded.n, sample=request.sample + recorded.n
                )
            self.offer_vectors(call)
        expected.live()

    def _is_anew(self, address: str) -> bool:
        if self._failed is not None and self._failed.has(address):
            return True
        return any(matches(pattern, address) for pattern in self._anew if pattern != FAILED)

    # -- when all programs wait

    def idle(self, final: bool = True) -> bool:
        """Let go what is recorded, and times that are up; then what is live."""
        self._arm()
        return self._strike() or super().idle(final)

    def is_early(self, turn: Turn | None) -> bool:
        """As long as nobody has departed from the record, its order is waited for."""
        return not self.departed and super().is_early(turn)

    def used_up(self, final: bool) -> bool:
        """Look for strays elsewhere; then ask what is left."""
        if not (self.departed or self.still()):
            return False
        if self.begin_all("held"):
            return True
        if all(one.why == "recorded" for one in self.waiting()):
            return False
        if not (final or self.still()):
            return False
        if self._reuse(self.departed):
            return True
        if self._running - self._slow:
            # Live calls may still end soon: what they answer may decide who owns a record.
            if not self.programs.idle_for(self.live_patience_s):
                return False
            self._slow |= self._running
        if not (self._strays() or self.programs.nobody_can_proceed(self._lasted_s())):
            return False
        self.programs.moved()
        return self._reuse() or self.begin_all("stray") or self.begin_all("again")

    def _lasted_s(self) -> float:
        """The longest time after which the program cancelled what is held to be cancelled again."""
        if self.trace.reason not in ("", "finished"):
            return 0.0  # the end of the run cancelled it
        held = [expected.moment.address for expected in self.waiting("again")]
        every = (self.trace.by_address.get(at) or self.trace.tools[at] for at in held)
        spans = ((record.ended or 0) - (record.started or record.ended or 0) for record in every)
        return max(spans, default=0) / 1e6 + self.patience_s

    def _strays(self) -> list[Expectation]:
        strays = [stray for stray in self.waiting("stray") if not stray.over]
        return sorted(strays, key=strays_first)

    def _reuse(self, free: Set[str] | None = None) -> bool:
        """Answer strays with unclaimed records of their content, at *free* places or anywhere.

        All that are *shifted* get the first of their own frame; else one that is *moved* gets the
        one that began first.
        """
        strays = self._strays()
        shifted = [one for one in strays if self._takes(one, "shifted", free)]
        return bool(shifted) or any(self._takes(one, "moved", free) for one in strays)

    def _takes(self, stray: Expectation, kind: Kind, free: Set[str] | None) -> bool:
        assert stray.call is not None and stray.call.request is not None
        twins = self._twins(stray.call.request)
        if kind == "moved":
            first = min(twins, key=lambda call: call.position, default=None)
        else:
            frame = stray.moment.address.rpartition("/")[0]
            mine = [call for call in twins if call.address.rpartition("/")[0] == frame]
            first = min(mine, key=lambda call: call.ordinal, default=None)
        if first is None or (free is not None and first.address not in free):
            return False
        self.leave(stray.moment)
        self.repeat(stray, first, kind)
        return True

    def reads_on(self, call: Call) -> None:
        """*call* is not cancelled as it was then: what its program has read by now stands.

        It was of the recorded answer, and the program may have acted on it. So the answer that it
        is asked for now has to begin with that text, of which it is told the rest; else the
        program would hold parts of two answers, and the call fails.
        """
        assert call.emit is not None
        call.emit.anew(lambda how: self._begins_otherwise(call, how))

    def _begins_otherwise(self, call: Call, how: str) -> None:
        command = f"appl trace rerun {self.trace.path.stem} --anew {call.address}"
        text = (
            f"{call.address} was cancelled when it was recorded, after its program had read the "
            "beginning of its answer; now that was read again, the call goes on, and its new "
            f"answer is another: {how}\n  have it asked from the start, so that nothing is read of "
            f"the record: {command}\n  or give its answer: --pin '{call.address}=TEXT'"
        )
        call.parted(self.noted(DivergenceError(text)))

    def stands(self, address: str) -> bool:
        return address not in self._running and super().stands(address)

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        """As then; but a failure counts only where failures are kept."""
        if how == "failed" and not self._keep:
            end()
        else:
            super().ends(moment, how, end)

    # -- what is not a call

    def repeat(self, expected: Expectation, record: Record, kind: Kind = "reused") -> None:
        """As recorded; if what was in time then is in time now depends on what is asked now."""
        if isinstance(record, Observation) and self._was_in_time(record):
            at, tell, live = expected.moment.address, expected.tell, expected.live
            ring: Go = lambda: tell(None) if at in self.claimed else live()  # noqa: E731
            self.park((record.position, DELIVERED), ring)
        elif isinstance(record, RecordedCall) and kind == "reused" and was_refused(record):
            self.claimed.add(record.address)
            turn = self.turn_or_last(record.address)
            self.park(turn, lambda: self._refuse_or_ask(expected, record))
        else:
            super().repeat(expected, record, kind)

    def answer_in(
        self, turn: Turn, expected: Expectation, recorded: RecordedCall, kind: Kind
    ) -> None:
        """As recorded; it draws on the budgets of blocks at once, before anything is asked."""
        if expected.call is not None and kind != "pinned":
            charge(self.programs, expected.call, recorded)
        super().answer_in(turn, expected, recorded, kind)

    def _refuse_or_ask(self, expected: Expectation, recorded: RecordedCall) -> None:
        """A budget refused the call then: so it does now, unless it was raised meanwhile."""
        call = expected.call
        if call is None or expected.over:
            return
        if self._keep or self.programs.refusal(call) is not None:
            self.answered[call.address] = "reused"
            call.source = Source("reused", recorded.address)
            expected.tell(recorded.error)
        else:
            self.begin(expected)

    def _was_in_time(self, observation: Observation) -> bool:
        """True if the awaited value came in time."""
        return observation.kind == "timeout" and observation.value is False

    def _arm(self) -> None:
        """Begin the times that may be up otherwise than then: something live is waited for."""
        for timer in self.waiting("recorded"):
            live = self._running or self._is_new(timer.moment.address)
            if live and timer.moment not in self._timed_live:
                self._timed_live.add(timer.moment)
                timer.live()

    def _is_new(self, address: str) -> bool:
        """True if what is waited for at *address* asks something else than it did then."""
        changed = (at for at in self.departed if at in self.begun)
        return any(f"{at}/".startswith(f"{address}/") for at in changed)

    def _strike(self) -> bool:
        """Tell that a time is up, as it was then, unless something is still on its way."""
        timers = {self._observations[one.moment].position: one for one in self.waiting("recorded")}
        first = min(timers, default=0)
        parked = self._parked[0][0][0] if self._parked else first
        if not timers or parked < first or self._running or self._strays():
            return False
        if self.is_early(turn := (first, DELIVERED)):
            return False
        self._due.add(turn)
        self.leave(timers[first].moment)
        timers[first].tell(None)
        return True

    def see(self, moment: Moment, live: Callable[[], object]) -> Any:
        observation = self._observations.get(moment)
        if observation is not None and self._is_open(moment, observation):
            return Live.see(self, moment, live)
        value = super().see(moment, live)
        if observation is not None and moment in self._observations:  # the new trace says it too
            at = time.monotonic_ns()
            self.programs.emit(Observed(moment.address, moment.ordinal, moment.kind, value, at))
        return value

    def asks_otherwise(self, moment: Moment, observation: Observation) -> None:
        """It is asked, or waited for, anew."""
        self.forget(moment)

    def _is_open(self, moment: Moment, observation: Observation) -> bool:
        """True if *observation* does not hold: it is as it is now, if a time is up."""
        if moment in self._timed_live:
            return True
        if moment.kind in AMOUNTS:  # of a program that asks something else they are others
            return bool(self.departed)
        return self._was_in_time(observation) and moment.address not in self.claimed

    def on_event(self, event: Event) -> None:
        """Take note of what is on its way."""
        super().on_event(event)
        if isinstance(event, CallStarted):
            self.begun.add(event.address)
        elif isinstance(event, CallDispatched):
            self._sent.add(event.address)
        elif isinstance(event, CallEnded | ToolEnded) and event.address in self._running:
            self._running.discard(event.address)
            if isinstance(event.error, BudgetExceeded) and event.address not in self._sent:
                self.asked.pop(event.address, None)
            self.programs.look_soon()

    # -- the end

    def removed(self) -> list[str]:
        """The calls whose recorded answers the program got, and for which it did not ask now."""
        calls = (one for one in self.unasked() if isinstance(one, RecordedCall))
        delivered = (one for one in calls if one.delivered is not None and self._is_worth(one))
        return [one.address for one in delivered if one.address not in self.begun]

    def unused(self) -> list[str]:
        """Pins and settings that no call matched."""
        named = (key for key in self._anew if key != FAILED)
        every = [(key, key) for key in (*self._pins, *named)]
        every += [(key, key.rpartition(".")[0]) for key in self._sets]
        return [key for key, calls in every if not any(matches(calls, at) for at in self.begun)]

    def nothing_failed(self) -> bool:
        """True if what failed was to be asked anew, and nothing had."""
        return self._failed is not None and not self._failed
