"""An earlier run that answers a part of a new one: what resumed and edited runs have in common.

Invariant: a record is given to one call at most; what is given is let go in the order in which it
was delivered then, one outcome each time all programs wait. A run that has diverged asks nobody.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from appl.backend import Request
from appl.errors import CallCancelled, DivergenceError, SecretInRecord, TraceError
from appl.runtime.event import CallDispatched, CallEnded, CallStarted, Event, Source
from appl.runtime.world import Go, How, Live, Moment, Programs, Tell
from appl.runtime.world import ToolUse as Wanted
from appl.tracing.reading.tooluse import End, ToolUse
from appl.tracing.reading.trace import Call, Trace
from appl.tracing.recording.recorder import home
from appl.tracing.replaying import explain
from appl.tracing.replaying.amending import Amendments
from appl.tracing.replaying.explain import Site
from appl.tracing.replaying.replayer import DELIVERED, Turn, by_key, key_of, showing, turns_of
from appl.tracing.replaying.tally import Tally

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call as Asked
    from appl.runtime.scheduling.holding import Why


class Recall(Live):
    """The world of a run that an earlier one answers in part; subclasses decide what is live.

    Give it to a run as its world and as an instrument. ``tally`` counts what was asked and what
    was there; ``error`` is the first divergence, also one that the program caught. ``patience_s``
    is how many seconds somebody who sleeps is waited for, who might still move by himself.
    """

    holds = answers = True
    patience_s = 2.0

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        self.trace = trace if isinstance(trace, Trace) else Trace.open(trace, home=home())
        if not self.trace.opened:
            raise SecretInRecord(explain.locked(self.trace))
        self.error: TraceError | None = None
        self.claimed: set[str] = set()
        self._turns = turns_of(self.trace)
        self._seen = by_key(self.trace.observations)
        self.tally = Tally()
        self.amendments = Amendments.of(self.trace)
        self._sites: dict[str, Site] = {}
        self._dispatched: set[str] = set()
        self._parked: list[tuple[Turn, int, Go]] = []
        self._postponed: list[Go] = []
        self._waiting: dict[str, tuple[Asked, Go]] = {}  # cancelled then, and not yet now
        self._held: dict[Asked, Why] = {}  # claimed, and neither answered nor let go
        self._arrivals = itertools.count()
        self._lock = threading.Lock()

    # -- the world

    def opens(self, programs: Programs) -> None:
        """Have calls get the options that were set for them."""
        super().opens(programs)
        programs.amend = self.amendments.apply

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Asked | Wanted | None = None
    ) -> None:
        """Have *moment* come from the record, or *live* when that may be."""
        if moment.kind == "item":
            live()
        elif isinstance(about, Wanted):
            self._tool(moment, tell, live, about)
        elif about is None:
            self._timed(moment, tell, live)
        elif moment.kind == "cancelled":
            self.on_admit(moment.address, lambda: tell(None))
        elif not self.claim(about, live):
            live()

    def _tool(self, moment: Moment, tell: Tell, live: Go, wanted: Wanted) -> None:
        name, arguments, at_once = wanted.name, wanted.arguments, wanted.at_once
        if self.tool(moment.address, name, arguments, at_once, tell):
            return
        if at_once or not self.later(live, moment.address):
            live()

    def _timed(self, moment: Moment, tell: Tell, live: Go) -> None:
        """A timer rings as it did then; one that did not is live, and nobody ends a function."""
        recorded = self.turn(moment, lambda: tell(None))
        if recorded or moment.kind == "cancelled":
            return
        if not self.later(live, moment.address):
            live()

    def see(self, moment: Moment, live: Callable[[], Any]) -> Any:
        """What was observed then, or what is to be seen now. Raises ``SecretInRecord``."""
        seen = self._seen.get(key_of(moment))
        if seen is None:
            return super().see(moment, live)
        if seen.masked:
            names = ", ".join(sorted(set(seen.masked)))
            raise SecretInRecord(
                f"{seen.kind} at {seen.address} cannot be used again: its record held {names}, "
                "which was masked"
            )
        return seen.value

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        """The program ends a call or a tool, perhaps as then: at once, in its turn, or too late."""
        late = self.on_cancel if how == "cancelled" else self.on_failed
        if not late(moment.address, end):
            end()

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        """Somebody outside ends a call or a function: that is new, and happens at once."""
        end()
        return True

    def claim(self, call: Asked, go: Go) -> bool:
        """Answer *call* from the record, in its turn, or let it go live with *go*."""
        raise NotImplementedError

    def on_event(self, event: Event) -> None:
        """Remember where calls are issued from, and count what they take."""
        if isinstance(event, CallStarted):
            where = f"{event.file}:{event.line}" if event.file else ""
            self._sites[event.request.address] = Site(where, event.edges)
        elif isinstance(event, CallDispatched):
            self._dispatched.add(event.address)
        elif isinstance(event, CallEnded) and event.address in self._sites:
            asked = event.address in self._dispatched
            self._dispatched.discard(event.address)
            if event.source is not None:
                self.tally.reused.add(event.response)
            elif asked or not isinstance(event.error, CallCancelled | TraceError):
                self.tally.live.add(event.response)

    # -- answers

    def give(self, call: Asked, found: Call, kind: Any = "reused") -> None:
        """Answer *call* as *found* was, when its turn comes."""
        self.claimed.add(found.address)
        self._held[call] = "recorded"
        self.moves()
        show = None
        if call.emit is not None and found.cuts:
            show = showing(found, call.emit, self.park)
        turn = self._turns[found.address]
        self.park(
            turn, functools.partial(self._answer, call, found, Source(kind, found.address), show)
        )

    def _answer(
        self, call: Asked, found: Call, source: Source, show: Callable[[int | None], None] | None
    ) -> None:
        self._held.pop(call, None)
        if call.outcome is not None:
            return
        call.source = source
        if show is not None:
            show(None)
        if found.error is not None:
            call.failed(found.error)
            return
        assert found.response is not None
        self.recalled(call, found)
        call.answered(found.response)

    def wait(self, call: Asked, go: Go, found: Call) -> None:
        """*call* was cancelled then: it waits for that, and shows what its program saw by then."""
        self._waiting[call.address] = (call, go)
        self._held[call] = "again"
        self.look_soon()
        if call.emit is not None and found.cuts and self._by_program(found):
            showing(found, call.emit, self.park)

    def _by_program(self, found: Call) -> bool:
        """Whether the program cancelled *found*, and not what ended the run."""
        if self.trace.reason in ("", "finished"):
            return True
        return found.delivered is not None and found.delivered < self._last

    @functools.cached_property
    def _last(self) -> int:
        """When the program was told something for the last time, cancelled calls aside."""
        told = [seen.position for seen in self.trace.observations]
        told += [
            call.delivered
            for call in self.trace.calls
            if call.delivered is not None and call.outcome != "cancelled"
        ]
        return max(told, default=0)

    def recalled(self, call: Asked, found: Call) -> None:
        """*call* is about to get the answer of *found*: caches and budgets may want to know."""
        assert found.response is not None
        self.programs.recalled(call, found.response, 0)

    def park(self, turn: Turn, go: Go) -> None:
        """Have *go* done in its *turn*."""
        with self._lock:
            heapq.heappush(self._parked, (turn, next(self._arrivals), go))
        self.look_soon()

    def look_soon(self) -> None:
        """Have the run look whether all its programs wait: one may have waited before this hold.

        A thread of the program's own that only waits for a call never says again that it rests.
        """
        self.programs.look_soon()

    def next_turn(self) -> Turn | None:
        """Of all that is parked, the turn of what was delivered first."""
        with self._lock:
            return self._parked[0][0] if self._parked else None

    def release(self) -> bool:
        """Let go what was delivered first of all that is parked; false when nothing is."""
        with self._lock:
            go = heapq.heappop(self._parked)[2] if self._parked else None
        if go is None:
            return False
        self.moves()
        go()
        return True

    def moves(self) -> None:
        """Something has happened: those who might still move are given their time again."""
        self.programs.moved()

    def still(self, final: bool) -> bool:
        """Whether nobody will move by himself, as far as can be known."""
        return self.programs.in_vain(final, self.patience_s)

    def refuse(self, call: Asked, error: TraceError) -> bool:
        """End *call* with *error*, and every later one that would be live."""
        if self.error is None:
            self.error = error
        call.failed(error)
        return True

    def check_masked(self, found: Call | ToolUse) -> None:
        """Raise ``SecretInRecord`` when what was recorded of *found* is not what was said."""
        if found.masked:
            raise SecretInRecord(
                f"{found.address} {found.where} cannot be used again: its record held "
                f"{', '.join(sorted(set(found.masked)))}, which was masked; keep secrets out of "
                "prompts and answers, and record again"
            )

    def diverged(self, request: Request) -> DivergenceError:
        """The error about *request*, which is not what was recorded in its place."""
        site = self._sites.get(request.address, Site())
        return DivergenceError(explain.divergence(self.trace, request, site, self.claimed))

    # -- for who looks on

    def held(self) -> Iterator[tuple[Asked, Why, int]]:
        """The calls that wait for what is recorded, and why."""
        ahead = self.to_come() if self._held else 0
        for call, why in tuple(self._held.items()):
            if call.outcome is None:
                yield call, why, ahead

    def to_come(self) -> int:
        """How many recorded ends are still to come."""
        return len(self._parked)

    # -- cancelling

    def on_cancel(self, address: str, go: Go) -> bool:
        """The program cancels a call or a tool, perhaps as then: *go* ends it in its turn."""
        if address in self._waiting:
            self._held.pop(self._waiting.pop(address)[0], None)
        found = self.trace.by_address.get(address) or self.trace.tools.get(address)
        if found is None or found.outcome is None or not self.stands(address):
            return False
        if found.outcome == "cancelled":
            if found.delivered is None:
                return False
            self.park((found.delivered, DELIVERED), go)
        return True

    def on_admit(self, address: str, go: Go) -> None:
        """A call waits for a part of its prompt: *go* ends it if it was ended from outside then."""
        found = self.trace.by_address.get(address)
        if found is None or found.started is not None or found.outcome != "failed":
            return
        if isinstance(found.error, CallCancelled):  # which is no failure when the program did it
            self.park(self._turns[address], go)

    def on_failed(self, address: str, go: Go) -> bool:
        """A call fails with a part of its prompt: *go* ends it when the program was told then."""
        found = self.trace.by_address.get(address)
        if found is None or found.outcome != "failed" or found.delivered is None:
            return False
        self.park((found.delivered, DELIVERED), go)
        return True

    def stands(self, address: str) -> bool:
        """Whether the record of *address* is what happens in this run too."""
        return True

    def dropped(self, address: str) -> bool:
        """Whether a call at *address* or below was cancelled then, and not by the run's end."""
        if self.trace.reason not in ("", "finished"):
            return False
        return any(
            call.outcome == "cancelled"
            for call in self.trace.calls
            if call.address == address or call.address.startswith(f"{address}/")
        )

    # -- timers and tools

    def tool(self, address: str, name: str, arguments: str, at_once: bool, end: End) -> bool:
        """Give *end* the recorded result of a tool call; false when the tool is to run."""
        raise NotImplementedError

    def later(self, action: Go, address: str = "") -> bool:
        """Have *action* done when live things may happen; false when they may now."""
        with self._lock:
            self._postponed.append(action)
        self.look_soon()
        return True

    def turn(self, moment: Moment, go: Go) -> bool:
        """Call *go* when the program was told so then; a moment that was not recorded is live."""
        seen = self._seen.get(key_of(moment))
        if seen is None:
            return False
        self.park((seen.position, DELIVERED), go)
        return True

    def end_tool(self, used: ToolUse, at_once: bool, end: End) -> None:
        """Give *end* the recorded result of *used*: at once, or when its turn comes."""
        self.claimed.add(used.address)
        if at_once:
            end(used.end())
            return
        behind = self.trace.moments + used.end_position
        turn = behind if used.delivered is None else used.delivered
        self.park((turn, DELIVERED), lambda: end(used.end()))
