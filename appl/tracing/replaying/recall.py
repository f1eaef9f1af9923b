"""An earlier run that answers a part of a new one: what resumed and edited runs have in common.

Invariant: a record is given to one call at most; what is given is let go in the order in which it
was delivered then, one outcome each time all programs wait. A run that has diverged asks nobody.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from appl.errors import CallCancelled, TraceError
from appl.runtime.event import CallDispatched, CallEnded, CallStarted, Event, Source
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.sequencer import Kind, Sequencer
from appl.tracing.replaying.tally import Tally

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call


class Recall(Sequencer):
    """The world of a run that an earlier one answers in part; subclasses decide what is live.

    ``tally`` counts what was asked and what was there.
    """

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        super().__init__(trace)
        self.tally = Tally()
        self._begun: set[str] = set()  # calls of this run
        self._dispatched: set[str] = set()

    def on_event(self, event: Event) -> None:
        """Count what calls take."""
        if isinstance(event, CallStarted):
            self._begun.add(event.request.address)
        elif isinstance(event, CallDispatched):
            self._dispatched.add(event.address)
        elif isinstance(event, CallEnded) and event.address in self._begun:
            asked = event.address in self._dispatched
            self._dispatched.discard(event.address)
            if event.source is not None:
                self.tally.reused.add(event.response)
            elif asked or not isinstance(event.error, CallCancelled | TraceError):
                self.tally.live.add(event.response)

    def reuses(self, call: Call, found: RecordedCall, kind: Kind) -> None:
        call.source = Source(kind, found.address) if kind != "guessed" else None
        if found.response is not None and kind not in ("pinned", "guessed"):
            self.programs.recalled(call, found.response, self.requests(found))

    def requests(self, found: RecordedCall) -> int:
        """The requests that the answer of *found* counts for, if those of a run are limited."""
        return 0

    def refused(self, error: TraceError) -> TraceError:
        """*error*, with which a call is refused, and every later one that would be live."""
        self.error = self.error or error
        return error

    def partly(self, found: RecordedCall) -> RecordedCall | None:
        """*found*, if its program cancelled it, and not what ended the run: a part was told."""
        if self.trace.reason in ("", "finished"):
            return found
        return found if found.delivered is not None and found.delivered < self._last else None

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

    def dropped(self, address: str) -> bool:
        """True if a call at *address* or below was cancelled, and not by the run's end."""
        return self.trace.reason in ("", "finished") and super().dropped(address)
