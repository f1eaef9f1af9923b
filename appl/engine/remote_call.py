"""A call that runs on a worker, as the driver sees it.

Invariant: the driver knows only what the worker has reported; the worker decides how the call ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from appl.runtime.event import AttemptFailed, CallDispatched, CallStarted
from appl.runtime.scheduling.call_status import CallStatus

if TYPE_CHECKING:
    from appl.runtime.answers.feed import Feed
    from appl.runtime.concurrency.promise import Outcome


class RemoteCall:
    """A call that a worker has started, as *event* reports; *end* asks the worker to end it.

    ``latest`` is the last event about the call's attempts.
    """

    outcome: Outcome | None = None
    emit: Feed | None = None

    def __init__(self, event: CallStarted, end: Callable[[RemoteCall], None]) -> None:
        request, self._end = event.request, end
        self.address, self.model, self.priority = request.address, request.model, request.priority
        self.messages, self.file, self.line = request.messages, event.file, event.line
        self.latest: CallDispatched | AttemptFailed | None = None

    def blockers(self) -> tuple[()]:
        """Nothing: the prompt of a call that has started is complete."""
        return ()

    def end_from_outside(self) -> bool:
        """Ask the worker to end the call."""
        self._end(self)
        return True

    def holding(self, worker: int, backend: str, paused: bool) -> CallStatus:
        """The call's current state. *paused* says that the whole run holds its attempts back."""
        latest, now = self.latest, time.monotonic_ns()
        if latest is None:
            return CallStatus(self, "queue", "paused" if paused else "leave", backend, away=worker)
        since_s = max(now - latest.at, 0) / 1e9
        if isinstance(latest, CallDispatched):
            return CallStatus(
                self, "worker", "asked", backend, 0, latest.attempt, since_s, away=worker
            )
        return CallStatus(
            self,
            "worker",
            "retry",
            backend,
            0,
            latest.attempt,
            since_s,
            max(latest.wait_s - since_s, 0.0),
            latest.error,
            away=worker,
        )
