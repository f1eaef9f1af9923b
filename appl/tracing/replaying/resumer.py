"""Goes on with a run that was broken off: what is recorded comes back, then the rest is live.

Invariant: nothing is asked, and no tool runs, before the recorded answers are used up; so a program
that is not the recorded one is found before anything is paid, and the order of the recorded
deliveries is that of the first run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from appl.errors import ControlError, DivergenceError, InDoubtBatch, TraceError
from appl.prompt import Message
from appl.runtime.event import (
    BatchChanged,
    CallEnded,
    CallStarted,
    ChunksDelivered,
    Delivered,
    Event,
    Failed,
    Observed,
    RunEnded,
    ScopeEntered,
    ScopeLeft,
    ToolEnded,
    ToolStarted,
    Warned,
)
from appl.runtime.world import Go, Moment, ToolRequest
from appl.tracing.reading.trace import Observation, RecordedCall, Trace
from appl.tracing.replaying.recall import Recall
from appl.tracing.replaying.replayer import answers
from appl.tracing.replaying.sequencer import (
    AtEnd,
    Expectation,
    FromOutside,
    Now,
    Recorded,
    Verdict,
    requests_of,
)

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.event import AttemptFailed, CallDispatched, ChunkArrived

    OfRecorded = (
        CallDispatched
        | AttemptFailed
        | ChunkArrived
        | ChunksDelivered
        | CallEnded
        | Delivered
        | ToolEnded
    )
    """What happens to a call or a tool after its start."""


class Resumer(Recall):
    """Answers a resumed run as far as its trace goes.

    A call that ended well is never asked again; one that was in flight is. One that was cancelled
    stays open for the program to cancel it again, and is asked when nothing recorded is left. What
    failed stays failed, except where the failure ended the run. With *edited* a call that is not
    what was recorded in its place is asked instead of being a ``DivergenceError``. *rerun* are the
    addresses of tool calls that may run again though they have effects, *assume* results of such
    calls. ``on_live`` gets the start of what is live, once that is known.
    """

    def __init__(
        self,
        trace: Trace | str | os.PathLike[str],
        *,
        edited: bool = False,
        rerun: Iterable[str] = (),
        assume: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(trace)
        self.edited, self.rerun, self.assume = edited, frozenset(rerun), dict(assume or {})
        self.on_live: Callable[[CallStarted | ToolStarted], None] | None = None
        self._open = False
        doubtful = {call.address for call in self.trace.calls if type(call.error) is InDoubtBatch}
        self._settled = self._turns.keys() - doubtful
        if self.trace.reason in ("interrupted", "failed"):
            from appl.tracing.reading.unhandled import unhandled  # others ended otherwise

            self._settled -= unhandled(self.trace)
        self._starts: dict[str, CallStarted | ToolStarted] = {}  # of what may be live
        self._warned = set(self.trace.warnings)
        batches = self.trace.batches
        for address in (*self.rerun, *self.assume):
            if address not in self.trace.tools and address not in batches:
                from appl.tracing.replaying.tool_matching import in_doubt

                in_question = [it.address for it in self.trace.tools.values() if in_doubt(it)]
                in_question += [key for key, batch in batches.items() if batch.state == "sending"]
                raise TraceError(
                    f"{self.trace.path.name} records no tool call {address!r} (in doubt: "
                    f"{', '.join(in_question) or 'none'})"
                )

    # -- calls

    def diverged(self, call: Call) -> DivergenceError:
        error = super().diverged(call)
        partial = partly_delivered(self.trace)
        if not partial:
            return error
        names = ", ".join(call.address for call in partial[:3]) + (
            ", …" if len(partial) > 3 else ""
        )
        return DivergenceError(
            f"{error}\n  the program had read the beginning of answers that were still being "
            f"streamed when the run was broken off ({names}): they are not recorded, and come "
            "otherwise now; with --edited, what follows from them is asked again"
        )

    def of_call(self, call: Call) -> Verdict:
        """The recorded outcome; without one it is live. Raises ``DivergenceError``."""
        record = self.trace.by_address.get(call.address)
        assert call.request is not None
        if record is not None and not answers(self.trace, record, call.request):
            if not self.edited:
                raise self.diverged(call)
            return AtEnd()
        if record is not None and record.outcome == "cancelled":
            return AtEnd("again", record=self.partly(record))
        if record is None or record.started is None or call.address not in self._settled:
            return AtEnd()
        self.check_usable(record)
        return Recorded(record)

    def requests(self, record: RecordedCall) -> int:
        """The requests that its answer took: budgets cover the whole of a resumed run."""
        return requests_of(record)

    # -- for who looks on, and for who intervenes

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        """It is new, and so after all that is recorded. Raises ``ControlError`` for what is not."""
        address = moment.address
        if address in self._settled and self.stands(address):
            raise ControlError(
                f"{address} had ended before the run was broken off: its recorded end comes in its "
                "turn",
                "recorded",
            )
        if self._open:
            return super().arrived(moment, end)
        answer = self._waiting.get(Moment(address, "answer"))
        if answer is not None:
            answer.why = "ending"
        self._later(moment, end)
        return False

    def end_anew(self, address: str, end: Go) -> None:
        self._later(Moment(address, "end"), end)

    def _later(self, moment: Moment, go: Go) -> None:
        """Have *go* done when nothing recorded is left."""
        self.hold(Expectation(moment, lambda _: go(), go), AtEnd())

    # -- when all programs wait

    @property
    def in_order(self) -> bool:
        return not self._open and self.error is None

    def hold(self, expected: Expectation, verdict: AtEnd) -> None:
        if self._open and verdict.why == "held":
            self.begin(expected)
        else:
            super().hold(expected, verdict)

    def used_up(self, final: bool) -> bool:
        """Let happen what is live, unless somebody might still ask for what is recorded."""
        if not self._waiting:
            return False
        if self.error is None and self.unasked() and not self.still():
            return False
        self.programs.moved()
        self._open = self._open or self.error is None
        return self.begin_all()

    def reads_on(self, call: Call) -> DivergenceError:
        """The error about *call*, which was not cancelled as then, and of which a part was read.

        The trace that goes on says when that was, and can hold no other answer that begins so.
        """
        from appl.tracing.replaying import explain  # only what went wrong needs it

        return DivergenceError(
            f"{call.address} was cancelled when it was recorded, and its program had read the "
            "beginning of its answer; now that was read again, and the call goes on: the rest was "
            f"never recorded\n  {explain.CAUSES}\n  `appl trace rerun {self.trace.path.stem}` asks "
            "for it, in a run of its own"
        )

    # -- tools

    def of_tool(self, address: str, wanted: ToolRequest) -> Verdict:
        """The verdict on a tool. Raises ``InDoubtEffect``, ``DivergenceError``."""
        used = self.trace.tools.get(address)
        if used is None:
            return Now() if wanted.at_once else AtEnd()
        from appl.tracing.replaying import tool_matching  # many programs have no tools

        wrong = tool_matching.tool_difference(used, wanted)
        if wrong and not self.edited:
            raise self.other_tool(address, wrong)
        if wrong:
            return Now() if wanted.at_once else AtEnd()
        if not tool_matching.in_doubt(used, self.trace.reason):
            return Recorded(used)
        if address in self.assume:
            return FromOutside(Message("tool", self.assume[address]))
        # It runs again if it may; else it fails when all that is recorded was told.
        effect = self.effects.get(address, used.effect)
        error = tool_matching.doubtful_effect(self.trace, used, effect, address in self.rerun)
        if wanted.at_once and error is not None:
            raise error
        reruns = error is not None or used.outcome == "cancelled"
        return Now() if wanted.at_once else AtEnd("again" if reruns else "held", error=error)

    # -- what is new in a run that goes on

    def is_new(self, event: Event) -> bool:
        """True if *event* belongs in the trace and is not there yet."""
        if self.error is not None and not self._open:
            return False  # the run ends here, and nothing has happened
        if isinstance(event, CallStarted | ToolStarted):
            return self._begins(event)
        if isinstance(event, CallEnded | ToolEnded):
            self._starts.pop(event.address, None)
        if isinstance(event, Observed) and event.kind == "waiting":
            last = self._observations.get(Moment(event.address, event.kind, event.ordinal - 1))
            if last is not None and last.value == event.value and self.trace.reason == "waiting":
                return False  # it waits for what it waited for the last time
        if isinstance(event, Observed):
            return Moment(event.address, event.kind, event.ordinal) not in self._observations
        if isinstance(event, ScopeEntered):
            return event.address not in self.scopes
        if isinstance(event, ScopeLeft):
            return event.address not in self.trace.returns
        if isinstance(event, Warned):
            return (event.address, event.message) not in self._warned
        if isinstance(event, Delivered | ChunksDelivered) and self._is_untold(event):
            return True
        if isinstance(event, RunEnded | Failed | BatchChanged):
            return True
        of_recorded: OfRecorded = event  # a type checker finds a kind that nothing here knows
        address = of_recorded.address
        recorded = self.trace.by_address.get(address) or self.trace.tools.get(address)
        ended = recorded is not None and recorded.outcome is not None
        return not (address in self.refused or (ended and self.stands(address)))

    def asks_otherwise(self, moment: Moment, observation: Observation) -> None:
        if not self.edited:
            super().asks_otherwise(moment, observation)
        self.forget(moment)

    def _begins(self, event: CallStarted | ToolStarted) -> bool:
        """True if it is a tool of the program's own that has no end: such a one always runs.

        Of all others there is a verdict first.
        """
        if isinstance(event, ToolStarted) and event.effect == "program":
            used = self.trace.tools.get(event.address)
            return used is None or used.outcome is None
        self._starts[event.address] = event
        return False

    def departs(self, address: str) -> None:
        super().departs(address)
        start = self._starts.pop(address, None)
        if start is not None and self.on_live is not None:
            self.on_live(start)

    def _is_untold(self, event: Delivered | ChunksDelivered) -> bool:
        """True if the program never got the recorded outcome, or as many pieces."""
        address = event.address
        recorded = self.trace.by_address.get(address) or self.trace.tools.get(address)
        was_delivered = recorded is None or recorded.delivered is not None
        if was_delivered or address in self.refused:
            return False
        shown = recorded.shown if isinstance(recorded, RecordedCall) else []
        most = max((count for _, count in shown), default=0)
        return isinstance(event, Delivered) or event.count > most


def partly_delivered(trace: Trace) -> list[RecordedCall]:
    """The calls in flight when a process that wrote *trace* was broken off of which its program had
    seen a part; a later process may have asked them again."""
    return [call for call in trace.every_call() if call.outcome is None and call.shown]
