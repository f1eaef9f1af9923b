"""Predicts the calls that a rerun of an edited program would make, without making any.

Invariant: no backend is asked and no tool runs. A question that was answered then, or failed, is
taken to end so again. Where the program goes on with an answer that may change, or where a time
limit may strike, only what was asked before is certain. A rehearsal is a prediction with answers
that are made up, and come in an order of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from appl.backend import Request
from appl.prompt import Message
from appl.runtime.event import (
    CallEnded,
    CallStarted,
    ChunksDelivered,
    Delivered,
    Event,
    Observed,
    ScopeEntered,
    ToolStarted,
)
from appl.runtime.world import Go, How, Moment, ToolRequest
from appl.tracing.reading.spans import spans_of
from appl.tracing.reading.trace import RecordedCall
from appl.tracing.replaying.made_up import answer_of, fitting, guess, reworded, unshown
from appl.tracing.replaying.rerunner import CANCELLED, LiveCall, Rerunner
from appl.tracing.replaying.sequencer import AtEnd, Expectation, Given, Recorded, Verdict, where
from appl.tracing.replaying.tool_matching import tool_difference

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_INPUT = "input"
_OUTCOMES = ("answered", "failed")
_TIMES = ("deadline", "timeout", "sleep")
_TELLING = 4  # a shorter answer stands in many prompts by chance
_MOST_TEXTS = 2000
_IN_TURN, _FIRST, _LAST, _SLOW, _LATE = REHEARSALS = range(1, 6)
MOST_RACING = 8
_NEVER = sys.maxsize  # the turn of live answers that come when nothing else can happen
_MOST_ASKED, _MOST_REHEARSED, _MOST_S = 10_000, 1_000, 20.0


class BrokenOff(BaseException):
    """A prediction or rehearsal ends here, whatever its program catches."""


class Predictor(Rerunner):
    """A rerun in which nobody is asked: what would be live is answered as it was recorded.

    ``asked`` are the calls that would be, ``touched`` those whose prompts hold answers of such
    calls, ``guessed`` those whose answers nobody knows, ``perhaps`` those that were cancelled then
    and may be cancelled again before they are asked; ``left`` are those of them whose programs were
    left then. After ``certain`` calls the result, or the
    time, of what is at ``decides``, if it is not "", may lead the program elsewhere.

    A *rehearsal* from number 1 on makes up texts, calls of tools and their results. What is live is
    answered in its turn, before all that is recorded, or after it in the opposite order; in the
    next two it outlasts time limits. One beyond :data:`REHEARSALS` favours the function of one live
    call, by its number, over all others. ``open`` says what no rehearsal shows, "" if nothing;
    ``raced`` is true if a live call was cancelled: which answer comes first may decide, so that
    only those that began ``before`` a live call ended are asked for sure.
    """

    def __init__(self, *args: Any, rehearsal: int = 0, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rehearsal, self.open, self.raced = rehearsal, "", False
        self._favourite = "none"  # the function whose calls are answered before all others
        self._until = time.monotonic() + _MOST_S
        self.touched: dict[str, LiveCall] = {}
        self.perhaps: dict[str, LiveCall] = {}
        self.left: set[str] = set()
        self.guessed: list[str] = []
        self._texts: dict[str, str] = {}  # recorded answers that may change, and whose
        self._read = ""  # the first answer that may change and that the program was told
        self.decides, self.certain = "", 0
        ended = (call for call in reversed(self.trace.calls) if call.outcome in _OUTCOMES)
        self._same = {call.content: call for call in ended}  # the first that asked the same
        self._limits: dict[Moment, Expectation] = {}  # time limits that may strike
        self._unanswered: set[str] = set()  # live calls whose answers no program has yet
        self.before = 0  # live calls asked before one of them ended
        self._late = ""  # a call or function that may now miss a time limit, or keep it
        self._final = True

    # -- calls

    def ask(self, expected: Expectation, call: Call) -> None:
        """Answer *call* as it was recorded in its place; where nothing was, with a guess."""
        live = LiveCall(call.address, where(call), call.request, expected.cause)
        if expected.why == "stray":  # it was held until now, and a limit could strike
            self._may_turn(self._limit())
        elif expected.why == "again" and (self.asked or self._limit() or not expected.is_read):
            self.perhaps[call.address] = live
        self.asked[call.address] = live
        self._unanswered.add(call.address)
        self._note_text(call.address)
        assert call.request is not None
        if self._is_endless():
            self._may_turn(call.address)
            expected.tell(BrokenOff("it asks more and more"))
            return
        self._note_open(call.address, unshown(call.request.sampling))
        turn = self._turn_of(call.address)
        if call.home is None or call.request.sampling.tools:
            # whether it is asked again, or goes on, depends on what is answered
            self.park(turn, partial(self._may_turn, call.address))
        begun = call.emit.chunks if call.emit is not None else ()
        found = None if begun else self._likely(call.address, call.request)
        failure = found.error if found is not None else None
        answer = None if failure is not None else fitting(found, call.request)
        if answer is None and failure is None:
            self.guessed.append(call.address)
            answer = guess(call.request, begun)
        if answer is not None and not begun:
            answer = answer_of(self.rehearsal, answer, call.request, self.trace)
        # of no address: the record of this place is still there for whoever asks the same
        given = RecordedCall("", response=answer, error=failure)
        self.answer_in(turn, expected, given, "guessed")

    def _turn_of(self, address: str) -> tuple[int, int]:
        """When the live call at *address* is answered."""
        number = len(self.asked)
        if number == self.rehearsal - _LATE:
            self._favourite = address.rpartition("/")[0]
        early = self.rehearsal == _FIRST or f"{address}/".startswith(f"{self._favourite}/")
        own = self.turn_or_last(address) if self.rehearsal <= _IN_TURN else (_NEVER, number)
        return (0, number) if early else (_NEVER, -number) if self.rehearsal == _LAST else own

    def _is_endless(self) -> bool:
        """True if so much was asked that the program may never end."""
        most = 2 * len(self.trace.calls) + (_MOST_REHEARSED if self.rehearsal else _MOST_ASKED)
        late = self.rehearsal and time.monotonic() > self._until
        return late or len(self.asked) > most

    def _note_open(self, address: str, what: str) -> None:
        """*What* at *address* is shown by no rehearsal."""
        self.open = self.open or (what and f"{address}: {what}")

    def _likely(self, address: str, request: Request) -> RecordedCall | None:
        """The recorded call of the same question, here or elsewhere; else that of its place.

        A failure to answer another question says nothing.
        """
        here, content = self.trace.by_address.get(address), self.trace.content_of(request)
        if here is not None and here.content == content and here.outcome in _OUTCOMES:
            return here
        other = here if here is not None and here.outcome == "answered" else None
        return self._same.get(content, other)

    def on_event(self, event: Event) -> None:
        """See whose answers a prompt holds."""
        super().on_event(event)
        if isinstance(event, CallStarted):
            address = event.address
            told = next(filter(self._changes, _sources(event)), None)
            source = told or self._holds(event)
            if source is not None:
                cause = f"holds text from {source}"
                self.touched[address] = LiveCall(address, where(event), cause=cause)
                self._note_text(address)
            self._may_turn(self._late)
            if told is None:  # else it waited for that answer, whatever the program reads
                self._may_turn(self._read)
        elif isinstance(event, Delivered | ChunksDelivered):
            if not self._read and self._changes(event.address):
                self._read = event.address
        elif isinstance(event, ScopeEntered | ToolStarted | Observed):
            self._may_turn(self._read or self._late)
        elif isinstance(event, CallEnded):
            if event.address in self._unanswered and not self.before:
                self.before = len(self.asked.keys() - self.perhaps)
            self._unanswered.discard(event.address)

    def idle(self, final: bool = True) -> bool:
        """As in a rerun; a live call that is out now may outlast the limits that are open now."""
        self._final = final
        if self._unanswered:
            self._late = self._limit()
        if self.rehearsal in (_SLOW, _LATE) and self._parked and self._parked[0][0][0] == _NEVER:
            return (final or self.programs.idle_for(self.patience_s)) and self._outlasts()
        return super().idle(final)

    def _outlasts(self) -> bool:
        """A live call takes its time: limits strike, what is held begins; then it is answered."""
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

    def _limit(self) -> str:
        """The address that has a time limit now, or may have one: loop timers are unknown."""
        limited = self._late or next((moment.address for moment in self._limits), "")
        return limited if limited or self._final else next(iter(self.asked), "")

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        """The program would perhaps not end it, if it were told something else."""
        if how == "cancelled" and moment.address not in self.perhaps:
            self._may_turn(self._read or self._late)
        self.raced |= moment.address in self._unanswered and self.rehearsal not in (_SLOW, _LATE)
        super().ends(moment, how, end)

    def _may_turn(self, address: str) -> None:
        """From here on the program may go another way, for what the call at *address* answers."""
        if address and not self.decides:
            self.decides, self.certain = address, len(self.asked.keys() - self.perhaps)

    def _note_text(self, address: str) -> None:
        """The recorded answer of *address* may be another one."""
        found = self.trace.by_address.get(address)
        text = found.response.text if found is not None and found.response is not None else ""
        if len(text) >= _TELLING:
            self._texts.setdefault(text, address)

    def _holds(self, event: CallStarted) -> str | None:
        """The call whose answer stands in a prompt that does not record the origin of its text."""
        if not self._texts or len(self._texts) > _MOST_TEXTS:
            return None
        said = "\n".join(message.content for message in event.request.messages or ())
        return next((self._texts[text] for text in self._texts if text in said), None)

    def _changes(self, address: str) -> bool:
        """True if the text of *address*, a call or function, comes from a live call."""
        if address in self.asked or address in self.touched:
            return True
        below = f"{address}/"
        return any(at.startswith(below) for at in (*self.asked, *self.touched))

    # -- the world

    def verdict(self, expected: Expectation) -> Verdict:
        """Nothing is waited for, and no tool runs."""
        moment, tool = expected.moment, expected.tool
        if moment.kind in ("sleep", "deadline") and moment not in self._seen:
            return Given(None) if moment.kind == "sleep" else None
        verdict = super().verdict(expected)
        if tool is None or isinstance(verdict, Recorded) or not self.has_effect(moment.address):
            return verdict
        return Given(self._likely_result(moment.address, tool))

    def _apply(self, verdict: Verdict, expected: Expectation) -> None:
        """Note what the verdict means for what is asked."""
        if expected.moment.kind in _TIMES:
            self._limits[expected.moment] = expected
        elif isinstance(verdict, AtEnd) and verdict.why == "again" and expected.call is not None:
            self._note_left(expected.call)
        elif isinstance(verdict, Given) and expected.tool is not None:
            self._note_tool(expected.moment.address, expected.tool)
        super()._apply(verdict, expected)

    def _note_tool(self, address: str, tool: ToolRequest) -> None:
        """The tool would run, and its result may lead the program elsewhere."""
        self._may_turn(address)
        self.ran.append(address)
        if self.effects.get(address) == "observed" or tool.may_ask():
            self._note_open(address, f"what {tool.name} does")

    def _note_left(self, call: Call) -> None:
        """Note *call* if nobody was told of its end: its program was left, and may be again."""
        found = self.trace.by_address.get(call.address)
        if found is not None and found.delivered is None:
            self.perhaps[call.address] = LiveCall(call.address, where(call), cause=CANCELLED)
            self.left.add(call.address)

    def _likely_result(self, address: str, wanted: ToolRequest) -> Message:
        """The recorded result of the same call of a tool; else of another in the same place."""
        same = (
            used.message
            for used in self.trace.tools.values()
            if not (used.lost or tool_difference(used, wanted))
        )
        here = self.trace.tools.get(address)
        found = next(filter(None, same), here.message if here is not None else None)
        likely = found or Message("tool", "")
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
        """An *error* has ended the program; what it was told may have led to that.

        One that is a failure which it was told is its end; else another answer may have it go on.
        """
        self._may_turn(self._read or self._late)
        if not any(call.error is error for call in self.trace.calls):
            self._note_open("the program", f"{type(error).__name__}: {error}")

    def see(self, moment: Moment, live: Callable[[], object]) -> Any:
        if moment.kind == _INPUT and moment not in self._seen:
            return ""
        return super().see(moment, live)


def _seconds(limit: Expectation) -> float:
    return limit.moment.limit_s or 0


def _sources(event: CallStarted) -> dict[str, None]:
    """The addresses of the calls and functions whose text the prompt of a call holds."""
    found = dict.fromkeys(event.edges)
    for spans in spans_of(event.request.messages):
        found.update(dict.fromkeys(span.call for span in spans if span.call))
    return found
