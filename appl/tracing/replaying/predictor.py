"""Predicts the calls that a rerun of an edited program would make, without making any.

Invariant: no backend is asked and no tool runs. A question that was answered then, or failed, is
taken to end so again. A rehearsal is a prediction with answers that are made up, and come in an
order of its own: where all of them ask for the same calls, a new answer changes nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from appl.backend import Request
from appl.prompt import Message
from appl.runtime.event import CallEnded, Event
from appl.runtime.world import LOOP_LIMIT, LOOP_TIMER, Go, How, Moment, ToolRequest
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.made_up import answer_of, reworded, unshown
from appl.tracing.replaying.rerunner import LiveCall, Rerunner, was_refused
from appl.tracing.replaying.sequencer import Expectation, FromOutside, Recorded, Verdict, where
from appl.tracing.replaying.tool_matching import likely_use

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_OUTCOMES = ("answered", "failed")
_TIMES = ("deadline", "timeout", "sleep", LOOP_LIMIT)
_COMES = ("sleep", LOOP_TIMER)
"""Kinds of times that pass, as somebody waits for just that."""
_IN_TURN, _FIRST, _LAST, _SLOW, _LATE = REHEARSALS = range(1, 6)
MOST_RACING = 8
_NEVER = sys.maxsize  # the turn of live answers that come when nothing else can happen
_MOST_TIMES = 1_000
_MOST_ASKED, _MOST_REHEARSED, _MOST_S = 10_000, 1_000, 20.0


class BrokenOff(BaseException):
    """A prediction or rehearsal ends here, whatever its program catches."""


class Predictor(Rerunner):
    """A rerun in which nobody is asked: what would be live is answered as it was recorded.

    ``asked`` are the calls that would be, ``guessed`` those whose answers nobody knows, ``perhaps``
    those that were cancelled then and may be cancelled again before they are asked. ``certain``
    counts the calls that were asked before the first new result, which is that of the call or tool
    at ``decides``, "" if there is none.

    A *rehearsal* from number 1 on makes up texts, calls of tools and their results. What is live is
    answered in its turn, before all that is recorded, or after it in the opposite order; in the
    next two it outlasts time limits. One beyond :data:`REHEARSALS` favours the function of one live
    call, by its number, over all others. ``open`` says what no rehearsal shows, "" if nothing;
    ``raced`` is true if a live call was cancelled: which answer comes first may decide.
    """

    def __init__(self, *args: Any, rehearsal: int = 0, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rehearsal, self.open, self.raced = rehearsal, "", False
        self.perhaps: set[str] = set()
        self.guessed: list[str] = []
        self.assumed_good: list[str] = []  # their recorded answers were refused by their types
        self.decides, self.certain = "", 0
        self._favourite = "none"  # the function whose calls are answered before all others
        self._until = time.monotonic() + _MOST_S
        ended = (call for call in reversed(self.trace.calls) if _has_ended(call))
        self._same = {call.content: call for call in ended}  # the first that asked the same
        self._limits: dict[Moment, Expectation] = {}  # time limits that may strike
        self._unanswered: set[str] = set()  # live calls that have not ended
        self._made_up: set[str] = set()  # live calls whose typed answers are made up
        self._passed = 0  # times that were not recorded

    def for_inner(self, trace: Trace) -> Predictor:
        """The predictor of a run of its own inside of this one, which *trace* records."""
        return Predictor(trace, rehearsal=self.rehearsal, keep_failures=self._keep)

    # -- calls

    def ask(self, expected: Expectation, call: Call) -> None:
        """Answer *call* as it was recorded in its place; where nothing was, with a guess."""
        assert call.request is not None
        if (refused := self.programs.refusal(call)) is not None:
            expected.tell(refused)
            return
        if expected.why == "again" and (self.asked or self._limits or not expected.is_read):
            self.perhaps.add(call.address)
        self.asked[call.address] = LiveCall(call.address, where(call), call.request, expected.cause)
        self._unanswered.add(call.address)
        number = len(self.asked)
        most = 2 * len(self.trace.calls) + (_MOST_REHEARSED if self.rehearsal else _MOST_ASKED)
        if number > most or (self.rehearsal and time.monotonic() > self._until):
            expected.tell(BrokenOff("it asks more and more"))  # and may never end
            return
        self._note_open(call.address, unshown(call.request.sampling, call.schema))
        if call.address.rpartition("/")[0] in self._made_up:
            self._note_open(call.address, "a typed answer")  # its type refuses what is made up
        stand_in = self._stand_in(call, call.request)
        if number == self.rehearsal - _LATE:
            self._favourite = call.address.rpartition("/")[0]
        early = self.rehearsal == _FIRST or f"{call.address}/".startswith(f"{self._favourite}/")
        if not early and self.rehearsal <= _IN_TURN:
            turn = self.turn_or_last(call.address)
        elif early:
            turn = (0, number)
        else:
            turn = (_NEVER, -number if self.rehearsal == _LAST else number)
        self.answer_in(turn, expected, stand_in, "guessed")

    def _stand_in(self, call: Call, request: Request) -> RecordedCall:
        """The record that answers *call*, of no address: that of its place is for who asks it."""
        begun = call.emit.chunks if call.emit is not None else ()
        likely: RecordedCall | None = None
        if not begun:
            # The recorded call of the same question, here or elsewhere; else that of its place. A
            # failure to answer another question says nothing.
            here, content = self.trace.by_address.get(call.address), self.trace.content_of(request)
            if here is not None and here.content == content and _has_ended(here):
                likely = here
            else:
                other = here if here is not None and here.outcome == "answered" else None
                likely = self._same.get(content, other)
        if call.schema is not None and (self.rehearsal or self._was_refused(call.address)):
            self._made_up.add(call.address)
            if not self.rehearsal:
                self.assumed_good.append(call.address)
                answer = answer_of(0, None, request, begun, self.trace, call.schema)
                return RecordedCall("", response=answer)
        if likely is not None and likely.error is not None:
            return RecordedCall("", error=likely.error)
        if likely is None or likely.response is None:
            self.guessed.append(call.address)
        answer = answer_of(self.rehearsal, likely, request, begun, self.trace, call.schema)
        return RecordedCall("", response=answer)

    def _was_refused(self, address: str) -> bool:
        """True if the answer at *address* was refused by its type, and is asked anew for that."""
        return self._failed is not None and self._failed.was_refused(address)

    def _note_open(self, address: str, what: str) -> None:
        """*What* at *address* is shown by no rehearsal."""
        self.open = self.open or (what and f"{address}: {what}")

    def on_event(self, event: Event) -> None:
        """Take note of live calls that end."""
        super().on_event(event)
        if isinstance(event, CallEnded) and event.address in self._unanswered:
            self._unanswered.discard(event.address)
            self._may_turn(event.address)

    def _may_turn(self, address: str) -> None:
        """From here on the program may go another way, for what is at *address*."""
        if not self.decides:
            self.decides, self.certain = address, len(self.asked.keys() - self.perhaps)

    def idle(self, final: bool = True) -> bool:
        """As in a rerun; in two rehearsals live calls outlast the limits that are open now."""
        if self.rehearsal in (_SLOW, _LATE) and self._parked and self._parked[0][0][0] == _NEVER:
            if not (final or self.programs.idle_for(self.patience_s)):
                return False
            # A live call takes its time: limits strike, what is held begins; then it is answered.
            limits = [limit for limit in self._limits.values() if limit.moment.kind != "sleep"]
            first = min(limits, key=_seconds, default=None)
            short = first is not None and _seconds(first) < self.live_patience_s
            if not short and (self.used_up(final=True) or self.begin_all("again")):
                return True
            if first is None or not (short or self.rehearsal == _LATE):
                return self.release()
            self.leave(first.moment)
            first.tell(None)
            return True
        # Times that pass move programs without an end: what they wait for comes before.
        last = bool(self._passed and self._parked) and self._parked[0][0] >= self.turn_or_last()
        if last and self.used_up(final):
            return True
        return super().idle(final)

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        self.raced |= moment.address in self._unanswered and self.rehearsal not in (_SLOW, _LATE)
        super().ends(moment, how, end)

    # -- the world

    def verdict(self, expected: Expectation) -> Verdict:
        """Nothing is waited for, and no tool runs."""
        moment, tool = expected.moment, expected.tool
        if moment.kind == "answered" and moment not in self._observations:
            self._note_open(moment.address, "what a person answers")
            return FromOutside(BrokenOff(f"a person is asked at {moment.address}"))
        if moment.kind in (*_COMES, "deadline", LOOP_LIMIT) and moment not in self._observations:
            self._passed += moment.kind in _COMES
            # One that is set again and again would pass for ever.
            return (
                FromOutside(None) if moment.kind in _COMES and self._passed < _MOST_TIMES else None
            )
        verdict = super().verdict(expected)
        if tool is None or isinstance(verdict, Recorded) or not self.has_effect(moment.address):
            return verdict
        return FromOutside(self._likely_result(moment.address, tool))

    def _apply(self, verdict: Verdict, expected: Expectation) -> None:
        """Note what the verdict means for what is asked."""
        if expected.moment.kind in _TIMES:
            self._limits[expected.moment] = expected
        super()._apply(verdict, expected)

    def _likely_result(self, address: str, wanted: ToolRequest) -> Message:
        """The result of a tool that would run; it may lead the program elsewhere."""
        self._may_turn(address)
        self.ran.append(address)
        if self.effects.get(address) == "observed" or wanted.may_ask():
            self._note_open(address, f"what {wanted.name} does")
        used = likely_use(self.trace, address, wanted)
        likely = (used.message if used is not None else None) or Message("tool", "")
        if self.rehearsal <= _IN_TURN:
            return likely
        text, failed = reworded(self.rehearsal, likely.content), self.rehearsal == _FIRST
        return Message("tool", text, has_error=failed)

    def _arm(self) -> None:
        """Time does not count."""

    def leave(self, moment: Moment) -> None:
        self._limits.pop(moment, None)
        super().leave(moment)

    def stopped(self, error: BaseException) -> None:
        """An *error* has ended the program; a new result, which it was told, may have led to that.

        One that is a recorded failure is its end; else another result may have it go on.
        """
        if self.decides and not any(call.error is error for call in self.trace.calls):
            self._note_open("the program", f"{type(error).__name__}: {error}")

    def see(self, moment: Moment, live: Callable[[], object]) -> Any:
        if moment.kind == "input" and moment not in self._observations:
            return ""
        return super().see(moment, live)


def _has_ended(call: RecordedCall) -> bool:
    """True if whoever was asked has ended the call; a budget that refuses it may be raised."""
    return call.outcome in _OUTCOMES and not was_refused(call)


def _seconds(limit: Expectation) -> float:
    return limit.moment.limit_s or 0
