"""Answers a run from its trace: the same program gets the same values, and no backend is asked.

Invariant: a recorded answer is given only to the call of the same address, ordinal and content; the
answers are let go in the order in which they were delivered, one each time all programs wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from appl.backend import Request
from appl.errors import DivergenceError, ReplayStuck, RunWaiting, UnusedRecords, WorkerLost
from appl.runtime.event import CallDispatched
from appl.runtime.world import (
    AMOUNTS,
    LOOP_LIMIT,
    LOOP_TIMER,
    PERHAPS,
    Moment,
    Nobody,
    ToolRequest,
)
from appl.tracing.format.record import profile_from
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.sequencer import (
    AtEnd,
    Expectation,
    Kind,
    Recorded,
    Sequencer,
    Verdict,
    charge,
)

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.tracing.reading.tooluse import ToolUse


class Replayer(Sequencer):
    """The world of a run that is replayed: all that its programs are told comes from a trace.

    It answers before queue, limits and backend, so that a call reaches none of them.
    """

    caches = False

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        super().__init__(trace)
        self._stuck: ReplayStuck | RunWaiting | None = None
        self._never: dict[Moment, Expectation] = {}  # timers of loops that did not strike then

    # -- the world

    @property
    def backend(self) -> Nobody:
        """The backend for the run, with the profile of the recorded one."""
        return Nobody(profile_from(self.trace.header.get("profile")))

    def see(self, moment: Moment, live: Callable[[], object]) -> Any:
        """The recorded observation; *live* is not called. Raises ``DivergenceError``."""
        unseen = live if moment.kind in AMOUNTS else lambda: self._unrecorded(moment)
        return super().see(moment, unseen)

    def reuses(self, call: Call, record: RecordedCall, kind: Kind) -> None:
        """Charge it: traces of earlier versions do not say what was seen of budgets."""
        charge(self.programs, call, record)

    def _unrecorded(self, moment: Moment) -> object:
        if self._stuck is not None:
            raise self._stuck
        here = [o.kind for o in self.trace.observations if o.address == moment.address]
        advice = f"recorded there: {', '.join(here)}" if here else "nothing was recorded there"
        what = f"{moment.kind} number {moment.ordinal} at {moment.address}"
        text = f"{what} was never recorded in {self.trace.path.name}; {advice}"
        raise self.noted(DivergenceError(text))

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        self.leave(Moment(moment.address, "answer"))
        return super().arrived(moment, end)

    def used_up(self, final: bool) -> bool:
        """Those who wait get ``ReplayStuck``, if nothing but this could move a program."""
        if not (final and self._waiting and self.still()):
            return False
        waiting = self.take()
        if self.trace.reason == "waiting":  # as far as it went then
            from appl.tracing.reading.waits import waits_in  # few runs end so

            self._stuck = ended = RunWaiting(waits_in(self.trace))
            self.programs.end_as_waiting(ended.waits)
            for one in waiting:
                one.tell(ended)
            return True
        moments = [one.moment for one in waiting]
        from appl.tracing.replaying import explain  # only what went wrong needs it

        self._stuck = ReplayStuck(explain.stuck(self.trace, moments, self._missing()))
        for one in waiting:
            self.refuse(one, self._stuck)
        for moment in tuple(self._never):
            self._times(moment)
        return True

    def _times(self, moment: Moment) -> None:
        """Have a timer that did not strike then run, after the record has ended.

        A program that has lost its answers may wait for nothing else, and would not end.
        """
        timer = self._never.pop(moment, None)  # by whoever comes first, of two threads
        if timer is not None:
            self.begin(timer)

    def leave(self, moment: Moment) -> None:
        """Nobody waits for *moment* any more."""
        self._never.pop(moment, None)
        super().leave(moment)

    # -- what is recorded of a moment

    def item(self, expected: Expectation) -> None:
        """Begin an item of a map that was begun then, or tell why no worker ended it."""
        address = expected.moment.address
        loss = self._observations.get(Moment(address, "lost"))
        if loss is not None:
            expected.tell(WorkerLost(str(loss.value)))
        elif address in self.scopes:
            expected.live()

    def of_new(self, moment: Moment) -> Verdict:
        """It waits until nothing recorded is left, unless it need not come."""
        return None if moment.kind in PERHAPS else AtEnd()

    def of_call(self, call: Call) -> Verdict:
        """The recorded outcome. Raises ``DivergenceError``."""
        request = call.request
        assert request is not None
        record = self.trace.by_address.get(request.address)
        if record is None or not answers(self.trace, record, request):
            raise self.diverged(call)
        self.check_usable(record)
        ended = record.address in self._turns
        return Recorded(record) if ended else AtEnd("recorded", record=record)

    def of_tool(self, address: str, wanted: ToolRequest) -> Verdict:
        """The recorded end. Raises ``DivergenceError``."""
        from appl.tracing.replaying.tool_matching import tool_difference  # only tools need it

        used = self.trace.tools.get(address)
        if used is None:
            raise self.other_tool(address, "it was never called there")
        if unlike := tool_difference(used, wanted):
            raise self.other_tool(address, unlike)
        was_delivered = used.delivered is not None or wanted.at_once
        open_ = used.outcome is None or (used.outcome == "cancelled" and not was_delivered)
        return AtEnd() if open_ else Recorded(used)

    def _apply(self, verdict: Verdict, expected: Expectation) -> None:
        """Neither does a tool run, nor are the calls made that it made then."""
        address = expected.moment.address
        if expected.call is not None:
            self.programs.emit(CallDispatched(address, 1, time.monotonic_ns()))
        elif expected.tool is not None:
            self.skip(address)
        if verdict is None and expected.moment.kind in (LOOP_LIMIT, LOOP_TIMER):
            self._never[expected.moment] = expected
            if self._stuck is not None:
                self._times(expected.moment)
        super()._apply(verdict, expected)

    # -- the end

    def finish(self) -> None:
        """Check that all was asked for. Raises the first divergence, also one that the program
        caught, or ``UnusedRecords``."""
        if self.error is not None:
            raise self.error
        missing = self._missing()
        if missing:
            from appl.tracing.replaying import explain

            raise UnusedRecords(explain.unused(self.trace, missing))

    def _missing(self) -> list[RecordedCall | ToolUse]:
        """Recorded calls that a faithful program must have asked for by its end.

        In a run that failed, others may have been started without having mattered.
        """
        failed = self.trace.reason not in ("", "finished")
        return [record for record in self.unasked() if record.delivered is not None or not failed]


def answers(trace: Trace, call: RecordedCall, request: Request) -> bool:
    """True if *call* is the record of *request*; one that never started is known by place only."""
    if call.started is None:
        return True
    same = call.content == trace.content_of(request) and call.ordinal == request.ordinal
    return same and call.n == request.n and call.sample == request.sample
