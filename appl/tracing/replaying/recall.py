"""An earlier run that answers a part of a new one: what resumed and edited runs have in common.

Invariant: a record is given to one call at most; what is given is let go in the order in which it
was delivered then, one outcome each time all programs wait. A run that has diverged asks nobody.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from appl.errors import TraceError
from appl.runtime.event import Source
from appl.tracing.reading.trace import RecordedCall
from appl.tracing.replaying.sequencer import Kind, Sequencer

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call


class Recall(Sequencer):
    """The world of a run that an earlier one answers in part; subclasses decide what is live."""

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
