"""An earlier run that answers a part of a new one: what resumed and edited runs have in common.

Invariant: a record is given to one call at most; what is given is let go in the order in which it
was delivered then, one outcome each time all programs wait. A run that has diverged asks nobody.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from appl.backend import Chunk, Response
from appl.errors import CallCancelled, TraceError
from appl.runtime.event import CallDispatched, CallEnded, Event, Source
from appl.runtime.world import Go, Tell
from appl.tracing.reading.trace import Call, Trace
from appl.tracing.replaying.sequencer import Sequencer
from appl.tracing.replaying.tally import Tally

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call as Asked


class Recall(Sequencer):
    """The world of a run that an earlier one answers in part; subclasses decide what is live.

    ``tally`` counts what was asked and what was there; ``error`` is the first divergence, also one
    that the program caught.
    """

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        super().__init__(trace)
        self.error: TraceError | None = None
        self.tally = Tally()
        self._dispatched: set[str] = set()
        self._postponed: list[Go] = []
        self._waiting: dict[str, tuple[Asked, Go]] = {}  # cancelled then, and not yet now

    def answer(self, call: Asked, tell: Tell, live: Go) -> None:
        if not self.claim(call, live):
            live()

    def claim(self, call: Asked, go: Go) -> bool:
        """Answer *call* from the record, in its turn, or let it go live with *go*."""
        raise NotImplementedError

    def on_event(self, event: Event) -> None:
        """Remember where calls are issued from, and count what they take."""
        super().on_event(event)
        if isinstance(event, CallDispatched):
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
        source = Source(kind, found.address)
        go = self.prepared(call, found, functools.partial(self._take, call, found, source))
        self.park(self._turns[found.address], go)

    def _take(self, call: Asked, found: Call, source: Source, told: Any) -> None:
        if not isinstance(told, Chunk):
            call.source = source
        if isinstance(told, Response):
            self.recalled(call, found)
        call.told(told)

    def wait(self, call: Asked, go: Go, found: Call) -> None:
        """*call* was cancelled then: it waits for that, and shows what its program saw by then."""
        self._waiting[call.address] = (call, go)
        self._held[call] = "again"
        self.look_soon()
        if call.emit is not None and found.cuts and self._by_program(found):
            self.shows(found, call.emit)

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

    def refuse(self, call: Asked, error: TraceError) -> bool:
        """End *call* with *error*, and every later one that would be live."""
        if self.error is None:
            self.error = error
        call.failed(error)
        return True

    # -- cancelling

    def on_cancel(self, address: str, go: Go) -> bool:
        if address in self._waiting:
            self._held.pop(self._waiting.pop(address)[0], None)
        return super().on_cancel(address, go)

    def dropped(self, address: str) -> bool:
        """Whether a call at *address* or below was cancelled then, and not by the run's end."""
        return self.trace.reason in ("", "finished") and super().dropped(address)

    def later(self, action: Go, address: str = "") -> bool:
        """Have *action* done when live things may happen; false when they may now."""
        with self._lock:
            self._postponed.append(action)
        self.look_soon()
        return True
