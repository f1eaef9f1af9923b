"""Goes on with a run that was broken off: what is recorded comes back, then the rest is live.

Invariant: nothing is asked, and no tool runs, before the recorded answers are used up; so a program
that is not the recorded one is found before anything is paid, and the order of the recorded
deliveries is that of the first run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from appl.backend import Request
from appl.errors import ControlError, DivergenceError, InDoubtEffect, TraceError
from appl.prompt import Message
from appl.runtime.event import (
    CallStarted,
    ChunksDelivered,
    Delivered,
    Event,
    Observed,
    RunEnded,
    ScopeEntered,
    ToolStarted,
    Warned,
)
from appl.runtime.world import Go, How, Moment, ToolRequest
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.reading.unhandled import unhandled
from appl.tracing.replaying import explain
from appl.tracing.replaying.recall import Recall
from appl.tracing.replaying.replayer import answers
from appl.tracing.replaying.sequencer import (
    DELIVERED,
    AtEnd,
    Expectation,
    Given,
    Now,
    Recorded,
    Verdict,
)
from appl.tracing.replaying.tool_matching import tool_difference

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.call_status import Why

Fate = Literal["live", "recorded", "again", "given", "refused"]
"""What becomes of a call or a tool: it is asked, or runs; it ends as recorded; it is cancelled as
then, or begins again; the user has said how it ended; or it ends with an error."""

_LAST = (1 << 62, DELIVERED)


class Resumer(Recall):
    """Answers a resumed run as far as its trace goes.

    A call that ended well is never asked again; one that was in flight is. One that was cancelled
    stays open for the program to cancel it again, and is asked when nothing recorded is left. What
    failed stays failed, except where the failure ended the run. With *edited* a call that is not
    what was recorded in its place is asked instead of being a ``DivergenceError``. *rerun* are the
    addresses of tool calls that may run again though they have effects, *assume* results of such
    calls. ``on_again`` gets the start of what was recorded as cancelled and happens now.
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
        self.on_again: Callable[[CallStarted | ToolStarted], None] | None = None
        self._open = False
        self._unhandled = unhandled(self.trace)
        self._fates: dict[str, Fate] = {}
        self._starts: dict[str, CallStarted | ToolStarted] = {}  # of what may begin again
        self._warned = set(self.trace.warnings)
        self._check_choices()

    def _check_choices(self) -> None:
        for address in (*self.rerun, *self.assume):
            if address not in self.trace.tools:
                known = [each.address for each in self.trace.tools.values() if in_doubt(each)]
                raise TraceError(
                    f"{self.trace.path.name} records no tool call {address!r} (in doubt: "
                    f"{', '.join(known) or 'none'})"
                )

    @property
    def open(self) -> bool:
        """True if the record is used up, so that calls are live."""
        return self._open

    # -- calls

    def diverged(self, call: Call) -> DivergenceError:
        error = super().diverged(call)
        seen = seen_in_part(self.trace)
        if not seen:
            return error
        names = ", ".join(call.address for call in seen[:3]) + (", …" if len(seen) > 3 else "")
        return DivergenceError(
            f"{error}\n  the program had read the beginning of answers that were still being "
            f"streamed when the run was broken off ({names}): they are not recorded, and come "
            "otherwise now; with --edited, what follows from them is asked again"
        )

    def fate(self, request: Request) -> Fate:
        """The decision about a call, made once."""
        address = request.address
        if address not in self._fates:
            self._fates[address] = self._fate(self.trace.by_address.get(address), request)
        return self._fates[address]

    def _fate(self, found: RecordedCall | None, request: Request) -> Fate:
        if found is None:
            return "live"
        if found.started is None:  # it failed with a part of its prompt, or was cancelled before
            return "again" if found.outcome == "cancelled" else "live"
        if not answers(self.trace, found, request):
            return "live" if self.edited else "refused"
        if found.outcome is None or found.address in self._unhandled:
            return "live"
        if found.outcome == "cancelled":
            return "again"
        return "refused" if found.lost else "recorded"

    def of_new(self, moment: Moment) -> Verdict:
        return self._live()

    def of_call(self, call: Call) -> Verdict:
        """The recorded outcome; without one it is live, after all that is recorded."""
        assert call.request is not None
        fate, found = self.fate(call.request), self.trace.by_address.get(call.address)
        if found is not None and fate == "recorded":
            return Recorded(found)
        if found is not None and fate == "refused":
            unlike = not answers(self.trace, found, call.request)
            error = None if unlike else self.masked(found)
            raise self._refused(call.address, error or self.diverged(call))
        if self.error is not None:
            raise self._refused(call.address, self.error)
        self.claimed.add(call.address)
        if found is not None and fate == "again":
            return AtEnd("again", record=self.partly(found))
        return self._live()

    def _live(self) -> Verdict:
        return Now() if self._open else AtEnd()

    def _refused(self, address: str, error: TraceError) -> TraceError:
        self._fates[address] = "refused"  # which is no outcome of the call
        return self.refused(error)

    def requests(self, found: RecordedCall) -> int:
        """The requests that its answer took: budgets cover the whole of a resumed run."""
        assert found.response is not None
        given = found.response.reused >= max(found.n, 1)
        return 0 if given else max(len(found.attempts), 1)

    def stands(self, address: str) -> bool:
        return self._fates.get(address) != "live"

    # -- for who looks on, and for who intervenes

    def held(self) -> Iterator[tuple[Call, Why, int]]:
        for call, why, ahead in super().held():
            ending = Moment(call.address, "cancelled") in self._waiting
            yield call, "ending" if ending else why, ahead

    def to_come(self) -> int:
        return len(self._parked) + len(self.unasked())

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        """It is new, and so after all that is recorded. Raises ``ControlError`` for what is not."""
        address = moment.address
        found = self.trace.by_address.get(address)
        ended = found is not None and found.outcome in ("answered", "failed")
        if ended and address not in self._unhandled and self.stands(address):
            raise ControlError(
                f"{address} had ended before the run was broken off: its recorded end comes in its "
                "turn",
                "recorded",
            )
        if self._open:
            return super().arrived(moment, end)
        self._later(moment, end)
        return False

    def _later(self, moment: Moment, go: Callable[[], object]) -> None:
        """Have *go* done when nothing recorded is left."""
        self.hold(Expectation(moment, lambda _: go(), go), AtEnd())

    # -- when all programs wait

    @property
    def in_order(self) -> bool:
        return not self._open and self.error is None

    def used_up(self, final: bool) -> bool:
        """Let happen what is live, unless somebody might still ask for what is recorded."""
        if self._open and not self._waiting:
            return False
        if self.error is None and self.unasked() and not self.still(final):
            return False
        self.moves()
        self._open, waiting = True, self.take()
        for expected in waiting:
            self._go_on(expected)
        return bool(waiting)

    def _go_on(self, expected: Expectation) -> None:
        """Nothing recorded is left: what the program still waits for happens."""
        call, address = expected.call, expected.moment.address
        if expected.over:
            return
        if expected.why == "again":  # it was cancelled, and is not now
            if call is not None and call.emit is not None and call.emit.chunks:
                expected.tell(self._refused(address, self._unended(call)))
                return
            self._begins_again(address)
        if self.error is not None and expected.moment.kind in ("answer", "tool", "end"):
            expected.tell(self._refused(address, self.error))
        else:
            expected.live()

    def _unended(self, call: Call) -> DivergenceError:
        """The error about *call*, which was not cancelled as then, and of which a part was read.

        The trace that goes on says when that was, and can hold no other answer that begins so.
        """
        return DivergenceError(
            f"{call.address} was cancelled when it was recorded, and its program had read the "
            "beginning of its answer; now that was read again, and the call goes on: the rest was "
            f"never recorded\n  {explain.CAUSES}\n  `appl trace rerun {self.trace.path.stem}` asks "
            "for it, in a run of its own"
        )

    def _begins_again(self, address: str) -> None:
        """Report the start of a call once more that was recorded as cancelled."""
        self._fates[address] = "live"
        start = self._starts.pop(address, None)
        if start is not None and self.on_again is not None:
            self.on_again(start)

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        if self.stands(moment.address):
            self._starts.pop(moment.address, None)
        super().ends(moment, how, end)

    def end_anew(self, address: str, end: Go) -> None:
        if self._open:
            end()
        else:
            self._later(Moment(address, "end"), end)

    # -- tools

    def of_tool(self, expected: Expectation, wanted: ToolRequest) -> Verdict:
        """The verdict on a tool. Raises ``InDoubtEffect``, ``DivergenceError``."""
        address = expected.moment.address
        used = self.trace.tools.get(address)
        wrong = tool_difference(used, wanted.name, wanted.arguments) if used is not None else None
        if used is None or (wrong and self.edited):
            return Now() if wanted.at_once else self._live()
        if wrong:
            name = self.trace.path.name
            text = f"the tool at {address} was recorded otherwise in {name}: {wrong}"
            error = self._refused(address, DivergenceError(f"{text}\n  {explain.CAUSES}"))
            raise self.error or error
        fate = self._fates.setdefault(address, self._fate_of_tool(used, used.effect))
        self.claimed.add(address)
        if fate == "given":
            return Given(Message("tool", self.assume[address]))
        if fate == "recorded":
            return Recorded(used)
        if fate == "refused" and wanted.at_once:
            raise self._doubtful(used)
        if fate == "refused":  # when all that is recorded was told
            self.park(_LAST, lambda: expected.tell(self._doubtful(used)))
            return None
        again = fate == "again" and not wanted.at_once
        return AtEnd("again") if again else Now() if wanted.at_once else self._live()

    def _fate_of_tool(self, used: ToolUse, effect: str) -> Fate:
        if not in_doubt(used, self.trace.reason):
            return "recorded"
        if used.address in self.assume:
            return "given"
        if effect == "effect" and used.address not in self.rerun:
            return "refused"
        return "again" if used.outcome == "cancelled" else "live"

    def _doubtful(self, used: ToolUse) -> InDoubtEffect:
        error = InDoubtEffect(
            f"{used.name}({used.arguments:.300}) at {used.address} had begun when the run was "
            f"broken off, and nobody knows whether it has had its effect\n  either run it again: "
            f"appl trace resume {self.trace.path.stem} --rerun {used.address}\n  or say what it "
            f"gave: appl trace resume {self.trace.path.stem} --assume '{used.address}=RESULT'\n  "
            "(in a program: appl.session.resumed(path, rerun=[…]) or assume={…}); a tool that may "
            "run twice is declared with idempotent=True",
            tool=used.name,
            arguments=used.arguments,
            address=used.address,
        )
        self.refused(error)
        return error

    # -- what is new in a run that goes on

    def is_new(self, event: Event) -> bool:
        """True if *event* belongs in the trace and is not there yet."""
        if self.error is not None and not self._open:
            return False  # the run ends here, and nothing has happened
        if isinstance(event, CallStarted | ToolStarted):
            return self._begins(event)
        if isinstance(event, Observed):
            return Moment(event.address, event.kind, event.ordinal) not in self._seen
        if isinstance(event, ScopeEntered):
            return event.address not in self.scopes
        if isinstance(event, Warned):
            return (event.address, event.message) not in self._warned
        if isinstance(event, Delivered | ChunksDelivered) and self._is_untold(event):
            return True
        return isinstance(event, RunEnded) or not self._is_old(event.address)

    def _begins(self, event: CallStarted | ToolStarted) -> bool:
        if isinstance(event, ToolStarted):
            address, fate = event.address, self._fate_of_start(event)
        else:
            address, fate = event.request.address, self.fate(event.request)
        if fate == "again":
            self._starts[address] = event
        return fate in ("live", "given")

    def _fate_of_start(self, event: ToolStarted) -> Fate:
        used, address = self.trace.tools.get(event.address), event.address
        if used is None:
            return "live"
        if event.effect == "program":  # it runs again, and its calls are claimed one by one
            self.claimed.add(address)
            fate: Fate = "live" if used.outcome is None else "recorded"
        elif tool_difference(used, event.name, event.arguments):
            fate = "live" if self.edited else "refused"
        else:
            fate = self._fate_of_tool(used, event.effect)
        self._fates[address] = fate
        return fate

    def _is_old(self, address: str) -> bool:
        """True if the record of *address* stays as it is."""
        if address in self._fates:
            return self._fates[address] not in ("live", "given")
        found = self.trace.by_address.get(address)
        return found is not None and found.outcome is not None

    def _is_untold(self, event: Delivered | ChunksDelivered) -> bool:
        """True if the program never got the recorded outcome, or as many pieces."""
        address = event.address
        found = self.trace.by_address.get(address) or self.trace.tools.get(address)
        told = found is None or found.delivered is not None
        if told or self._fates.get(address) == "refused":
            return False
        shown = found.shown if isinstance(found, RecordedCall) else []
        most = max((count for _, count in shown), default=0)
        return isinstance(event, Delivered) or event.count > most


def in_doubt(used: ToolUse, reason: str = "") -> bool:
    """True if the end of the tool call is not known; *reason* is that of the run's end."""
    if used.outcome == "failed":  # by what broke the run off, not by the tool itself
        return reason not in ("", "finished")
    return used.outcome != "answered"


def seen_in_part(trace: Trace) -> list[RecordedCall]:
    """The calls in flight when a process that wrote *trace* was broken off of which its program had
    seen a part; a later process may have asked them again."""
    every = (*trace.earlier, *trace.calls)
    return [call for call in every if call.outcome is None and call.shown]
