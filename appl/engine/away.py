"""A call that a worker has, as the driver sees it.

Invariant: it is made of what the worker has told; what becomes of the call is decided there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from appl.runtime.event import AttemptFailed, CallDispatched, CallStarted
from appl.runtime.scheduling.holding import Holding

if TYPE_CHECKING:
    from appl.runtime.answers.stream import Feed
    from appl.runtime.concurrency.pending import Outcome


class Away:
    """The call that *event* tells of; *end* has the worker end it.

    ``latest`` is what was heard last of its attempts.
    """

    outcome: Outcome | None = None
    emit: Feed | None = None

    def __init__(self, event: CallStarted, end: Callable[[Away], None]) -> None:
        request, self._end = event.request, end
        self.address, self.model, self.priority = request.address, request.model, request.priority
        self.messages, self.file, self.line = request.messages, event.file, event.line
        self.latest: CallDispatched | AttemptFailed | None = None

    def blockers(self) -> tuple[()]:
        """Nothing: its prompt is complete."""
        return ()

    def end_from_outside(self) -> bool:
        """Have the worker end it."""
        self._end(self)
        return True

    def holding(self, worker: int, backend: str, paused: bool) -> Holding:
        """Where it is, in a run of which all attempts may be *paused*."""
        latest, now = self.latest, time.monotonic_ns()
        if latest is None:
            return Holding(self, "queue", "paused" if paused else "leave", backend, away=worker)
        since_s = max(now - latest.at, 0) / 1e9
        if isinstance(latest, CallDispatched):
            return Holding(
                self, "worker", "asked", backend, 0, latest.attempt, since_s, away=worker
            )
        return Holding(
            self, "worker", "retry", backend, 0, latest.attempt, since_s,
            max(latest.wait_s - since_s, 0.0), latest.error, away=worker,
        )  # fmt: skip
