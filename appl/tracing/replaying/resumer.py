"""Goes on with a run that was broken off: what is recorded comes back, then the rest is live.

Invariant: nothing is asked, and no tool runs, before the recorded answers are used up; so a program
that is not the recorded one is found before anything is paid, and the order of the recorded
deliveries is that of the first run.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from appl.backend import Request
from appl.errors import ControlError, DivergenceError, InDoubtEffect, TraceError
from appl.prompt import Message
from appl.runtime.event import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    ChunkArrived,
    ChunksDelivered,
    Delivered,
    Event,
    Observed,
    ScopeEntered,
    ToolEnded,
    ToolStarted,
    Warned,
)
from appl.runtime.world import Go, Moment
from appl.tracing.reading.tooluse import End, ToolUse, within
from appl.tracing.reading.trace import Call, Trace
from appl.tracing.reading.unhandled import unhandled
from appl.tracing.replaying import explain
from appl.tracing.replaying.recall import Recall
from appl.tracing.replaying.replayer import answers

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call as Asked
    from appl.runtime.scheduling.call_status import Why

_ABOUT_ONE = (CallDispatched, AttemptFailed, ChunkArrived, CallEnded, ToolEnded)
Verdict = Literal["live", "answer", "wait", "refuse"]
ToolVerdict = Literal["run", "answer", "assume", "doubt", "wait"]


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
        self._again = unhandled(self.trace)
        self._verdicts: dict[str, Verdict] = {}
        self._errors: dict[str, TraceError] = {}
        self._tools: dict[str, ToolVerdict] = {}
        self._effects: dict[str, str] = {}
        self._starts: dict[str, CallStarted | ToolStarted] = {}
        self._doubts: dict[str, End] = {}
        self._ends: dict[str, Callable[[], object]] = {}  # which somebody outside asked for
        self._scopes = {scope.address for scope in self.trace.scopes}
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
        """Whether the record is used up, so that things happen live."""
        return self._open

    # -- calls

    def diverged(self, request: Request) -> DivergenceError:
        error = super().diverged(request)
        seen = seen_in_part(self.trace)
        if not seen:
            return error
        names = ", ".join(call.address for call in seen[:3]) + (", …" if len(seen) > 3 else "")
        return DivergenceError(
            f"{error}\n  the program had read the beginning of answers that were still being "
            f"streamed when the run was broken off ({names}): they are not recorded, and come "
            "otherwise now; with --edited, what follows from them is asked again"
        )

    def verdict(self, request: Request) -> Verdict:
        """What becomes of a call: decided once."""
        known = self._verdicts.get(request.address)
        if known is None:
            try:
                known = self._decide(request)
            except TraceError as error:
                known, self._errors[request.address] = "refuse", error
            self._verdicts[request.address] = known
        return known

    def _decide(self, request: Request) -> Verdict:
        found = self.trace.by_address.get(request.address)
        if found is None:
            return "live"
        if found.started is None:  # it failed with a part of its prompt, or was cancelled before
            return "wait" if found.outcome == "cancelled" else "live"
        if not answers(self.trace, found, request):
            if self.edited:
                return "live"
            raise self.diverged(request)
        if found.outcome is None or found.address in self._again:
            return "live"
        if found.outcome == "cancelled":
            return "wait"
        self.check_usable(found)
        return "answer"

    def claim(self, call: Asked, go: Go) -> bool:
        """Answer *call* in its turn, or have it asked when the record is used up."""
        assert call.request is not None
        verdict = self.verdict(call.request)
        self.moves()
        if verdict == "refuse":
            return self.refuse(call, self._errors[call.address])
        if verdict == "answer":
            self.give(call, self.trace.by_address[call.address])
            return True
        if self.error is not None:
            return self.refuse(call, self.error)
        self.claimed.add(call.address)
        if verdict == "wait":
            self.wait(call, go, self.trace.by_address[call.address])
            return True
        if not self.later(lambda: self._ask(call, go)):
            return False
        self._held[call] = "held"
        return True

    def _ask(self, call: Asked, go: Go) -> None:
        self._held.pop(call, None)
        if self.error is not None and call.outcome is None:
            self.refuse(call, self.error)
        elif call.outcome is None:
            go()

    def refuse(self, call: Asked, error: TraceError) -> bool:
        self._verdicts[call.address] = "refuse"  # which is no outcome of the call
        return super().refuse(call, error)

    def recalled(self, call: Asked, found: Call) -> None:
        """What the answer took counts for the budgets of the run, which are for all of it."""
        response = found.response
        assert response is not None
        requests = 0 if response.reused >= max(found.n, 1) else max(len(found.attempts), 1)
        self.programs.recalled(call, response, requests)

    def stands(self, address: str) -> bool:
        return self._verdicts.get(address) != "live"

    # -- for who looks on, and for who intervenes

    def held(self) -> Iterator[tuple[Asked, Why, int]]:
        for call, why, ahead in super().held():
            yield call, "ending" if call.address in self._ends else why, ahead

    def to_come(self) -> int:
        return len(self._parked) + len(self.unasked())

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        """It is new, and so after all that is recorded. Raises ``ControlError`` for what is not."""
        address = moment.address
        found = self.trace.by_address.get(address)
        ended = found is not None and found.outcome in ("answered", "failed")
        if ended and address not in self._again and self.stands(address):
            raise ControlError(
                f"{address} had ended before the run was broken off: its recorded end comes in its "
                "turn",
                "recorded",
            )
        if self._open:
            return super().arrived(moment, end)
        self._ends[address] = end
        self.look_soon()
        return False

    # -- when all programs wait

    @property
    def in_order(self) -> bool:
        return not self._open and self.error is None

    def excused(self, address: str) -> bool:
        return self._tools.get(address) == "answer" or self._is_answered(address)

    def idle(self, final: bool = True) -> bool:
        """Let go the next recorded outcome, or when there is none left, what is live."""
        if self.is_early(final):
            return False
        if self.release():
            return True
        if self._open and not (self._waiting or self._doubts):
            return False
        if self.error is None and self.unasked() and not self.still(final):
            return False
        self.moves()
        return self._go_live()

    def _is_answered(self, address: str) -> bool:
        """Whether it is a part of a tool call that does not run again."""
        while address:
            address = address.rpartition("/")[0]
            if self._tools.get(address) == "answer" and self._effects.get(address) != "program":
                return True
        return False

    def _go_live(self) -> bool:
        with self._lock:
            self._open = True
            actions, self._postponed = self._postponed, []
        waiting, self._waiting = self._waiting, {}
        for call, go in waiting.values():
            actions.append(lambda call=call, go=go: self._ask_again(call, go))  # type: ignore[misc]
        doubts, self._doubts = self._doubts, {}
        for address, end in doubts.items():
            end(self._doubtful(self.trace.tools[address]))
        ends, self._ends = self._ends, {}
        for act in (*actions, *ends.values()):
            act()
        return bool(actions or doubts or ends)

    def _ask_again(self, call: Asked, go: Go) -> None:
        """The program has not cancelled *call* as it did then: it is asked."""
        if call.outcome is not None:
            self._held.pop(call, None)
            return
        if call.emit is not None and call.emit.chunks:
            self._held.pop(call, None)
            self.refuse(call, self._unended(call))
            return
        self._verdicts[call.address] = "live"
        self._tell_again(call.address)
        self._ask(call, go)

    def _unended(self, call: Asked) -> DivergenceError:
        """The error about *call*, which was not cancelled as then, and of which a part was read.

        The trace that goes on says when that was, and can hold no other answer that begins so.
        """
        return DivergenceError(
            f"{call.address} was cancelled when it was recorded, and its program had read the "
            "beginning of its answer; now that was read again, and the call goes on: the rest was "
            f"never recorded\n  {explain.CAUSES}\n  `appl trace rerun {self.trace.path.stem}` asks "
            "for it, in a run of its own"
        )

    def _tell_again(self, address: str) -> None:
        """What was recorded as cancelled is begun once more."""
        start = self._starts.pop(address, None)
        if start is not None and self.on_again is not None:
            self.on_again(start)

    def later(self, action: Go, address: str = "") -> bool:
        """Have *action* done when the record is used up; false when it is."""
        if self._tools.get(address) == "wait":
            action = functools.partial(self._run_again, address, action)
        with self._lock:
            if self._open:
                return False
            self._postponed.append(action)
        self.look_soon()
        return True

    def _run_again(self, address: str, action: Go) -> None:
        if address in self._starts:  # not cancelled again
            self._tools[address] = "run"
            self._tell_again(address)
        action()

    def on_cancel(self, address: str, go: Go) -> bool:
        if self._verdicts.get(address) != "live" and self._tools.get(address) != "run":
            self._starts.pop(address, None)
        return super().on_cancel(address, go) or self.later(go)

    def on_failed(self, address: str, go: Go) -> bool:
        return super().on_failed(address, go) or self.later(go)

    # -- tools

    def tool(self, address: str, name: str, arguments: str, at_once: bool, end: End) -> bool:
        """Give *end* the recorded result of a tool call; false when the tool is to run.

        Raises ``InDoubtEffect``, ``DivergenceError``, ``SecretInRecord``.
        """
        used = self.trace.tools.get(address)
        if used is None:
            return False
        wrong = used.differs(name, arguments)
        if wrong:
            if self.edited:
                return False
            self._tools[address] = "doubt"
            text = (
                f"the tool at {address} was recorded otherwise in {self.trace.path.name}: {wrong}"
            )
            self.error = self.error or DivergenceError(f"{text}\n  {explain.CAUSES}")
            raise self.error
        verdict = self._tools.setdefault(address, self._tool_verdict(used))
        self.claimed.add(address)
        if verdict == "assume":
            end(Message("tool", self.assume[address]))
        elif verdict == "doubt" and at_once:
            raise self._doubtful(used)
        elif verdict == "doubt":
            self._doubts[address] = end
            self.look_soon()
        elif verdict == "answer":
            self.check_usable(used)
            self.end_tool(used, at_once, end)
        return verdict not in ("run", "wait")

    def _tool_verdict(self, used: ToolUse) -> ToolVerdict:
        if not in_doubt(used, self.trace.reason):
            return "answer"
        if used.address in self.assume:
            return "assume"
        effect = self._effects.get(used.address, used.effect)
        if effect == "effect" and used.address not in self.rerun:
            return "doubt"
        return "wait" if used.outcome == "cancelled" else "run"

    def _doubtful(self, used: ToolUse) -> InDoubtEffect:
        error = InDoubtEffect(
            f"{used.name}({used.arguments:.300}) at {used.address} had begun when the run was "
            f"broken off, and nobody knows whether it has had its effect\n  either run it again: "
            f"appl trace resume {self.trace.path.stem} --rerun {used.address}\n  or say what it "
            f"gave: appl trace resume {self.trace.path.stem} --assume '{used.address}=RESULT'\n  "
            "(in a program: appl.session.resumed(path, rerun=[…]) or assume={…}); a tool that may "
            "run twice is declared with idempotent=True",
            tool=used.name, arguments=used.arguments, address=used.address,
        )  # fmt: skip
        if self.error is None:
            self.error = error
        return error

    # -- what is new in a run that goes on

    def is_new(self, event: Event) -> bool:
        """Whether *event* is not in the trace already, and belongs there."""
        if self.error is not None and not self._open:
            return False  # the run ends here, and nothing has happened
        if isinstance(event, CallStarted):
            return self._begins(event, self.verdict(event.request) == "live")
        if isinstance(event, ToolStarted):
            return self._begins_tool(event)
        if isinstance(event, _ABOUT_ONE):
            return not self._is_old(event.address)
        if isinstance(event, Delivered):
            return not self._is_old(event.address) or self._is_untold(event.address)
        if isinstance(event, ChunksDelivered):
            return not self._is_old(event.address) or self._shows_more(event)
        if isinstance(event, Observed):
            return (event.address, event.ordinal, event.kind) not in self._seen
        if isinstance(event, ScopeEntered):
            return event.address not in self._scopes
        return not isinstance(event, Warned) or (event.address, event.message) not in self._warned

    def _begins(self, event: CallStarted, live: bool) -> bool:
        if self._verdicts[event.request.address] == "wait":
            self._starts[event.request.address] = event
        return live

    def _begins_tool(self, event: ToolStarted) -> bool:
        used, address = self.trace.tools.get(event.address), event.address
        if used is None:
            return True
        self._effects[address] = event.effect
        if event.effect == "program":  # it runs again, and its calls are claimed one by one
            self.claimed.add(address)
            verdict: ToolVerdict = "run" if used.outcome is None else "answer"
        elif used.differs(event.name, event.arguments):
            verdict = "run" if self.edited else "doubt"
        else:
            verdict = self._tool_verdict(used)
        self._tools[address] = verdict
        if verdict == "wait":
            self._starts[address] = event
        return verdict in ("run", "assume")

    def _is_old(self, address: str) -> bool:
        """Whether the record of *address* stands as it is."""
        verdict = self._verdicts.get(address) or self._tools.get(address)
        if verdict is not None:
            return verdict not in ("live", "run", "assume")
        found = self.trace.by_address.get(address)
        return found is not None and found.outcome is not None

    def _is_untold(self, address: str) -> bool:
        """Whether the program was not told then what is recorded of *address*."""
        verdict = self._verdicts.get(address) or self._tools.get(address)
        found = self.trace.by_address.get(address) or self.trace.tools.get(address)
        told = found is None or found.delivered is not None
        return not told and verdict not in ("refuse", "doubt")

    def _shows_more(self, event: ChunksDelivered) -> bool:
        found = self.trace.by_address.get(event.address)
        shown = max((count for _, count in found.shown), default=0) if found else 0
        return self._is_untold(event.address) and event.count > shown

    # -- the end

    def unasked(self) -> list[Call | ToolUse]:
        """Recorded calls that ended, and that this run has not asked for."""
        answered = {
            at
            for at, verdict in self._tools.items()
            if verdict == "answer" and self._effects.get(at) != "program"
        }
        every: list[Call | ToolUse] = [
            call
            for call in self.trace.calls
            if call.outcome in ("answered", "failed") and call.started is not None
        ]
        every += [used for used in self.trace.tools.values() if used.message is not None]
        return [
            each
            for each in every
            if each.address not in self.claimed and not within(each.address, answered)
        ]


def in_doubt(used: ToolUse, reason: str = "") -> bool:
    """Whether it is not known how the tool call ended; *reason* is that of the run's end."""
    if used.outcome == "failed":  # by what broke the run off, not by the tool itself
        return reason not in ("", "finished")
    return used.outcome != "answered"


def seen_in_part(trace: Trace) -> list[Call]:
    """The calls in flight when a process that wrote *trace* was broken off of which its program had
    seen a part; a later process may have asked them again."""
    every = (*trace.earlier, *trace.calls)
    return [call for call in every if call.outcome is None and call.shown]
