"""The recorder of a run, which its first call opens.

Invariant: events before the first call are recorded in their order, or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from appl.runtime.event import Event
from appl.tracing.recording.recorder import Recorder


class Recording:
    """The recorder of a run, which does not exist before the first call.

    Earlier events are kept and handed over. ``gate`` opens the trace; if that fails, it refuses the
    first call and every later one.
    """

    def __init__(self, open_recorder: Callable[[], Recorder | None]) -> None:
        self._open = open_recorder
        self._early: list[Event] = []
        self._lock = threading.RLock()
        self._opened = False
        self._secrets: dict[str, str] = {}
        self.recorder: Recorder | None = None
        self.on_event: Callable[[Event], None] = self._keep

    def gate(self) -> None:
        """Let the next call start; the first one opens the trace."""
        if not self._opened:
            with self._lock:
                self._begin()
        if self.recorder is not None:
            self.recorder.gate()

    def barrier(self) -> None:
        """Return when everything so far is on disk. Raises ``TraceWriteError``."""
        self.gate()
        if self.recorder is not None:
            self.recorder.barrier()

    def _begin(self) -> None:
        if self._opened:
            return
        self.recorder = self._open()
        # Only after the recorder exists: gate() reads this flag without the lock. If opening
        # raises, the flag stays false, and the next call tries again.
        self._opened = True
        early, self._early = self._early, []
        if self.recorder is not None:
            self.recorder.conceal(self._secrets)
            for event in early:
                self.recorder.on_event(event)
        # The last step, still under the lock: events of other threads wait in _keep until the early
        # ones are written, so the order is kept.
        self.on_event = self.recorder.on_event if self.recorder is not None else _ignore

    def _keep(self, event: Event) -> None:
        with self._lock:
            if self._opened:
                self.on_event(event)
            else:
                self._early.append(event)

    def conceal(self, secrets: Mapping[str, str]) -> None:
        """Keep *secrets*, by name, out of the trace."""
        with self._lock:
            self._secrets.update(secrets)
            if self.recorder is not None:
                self.recorder.conceal(secrets)

    def close(self, reason: str | None = None) -> None:
        """Close the trace if there is one. Raises ``TraceWriteError``."""
        with self._lock:  # a call that was cancelled may be opening it
            if not self._opened:
                self._opened, self.on_event = True, _ignore
        if self.recorder is not None:
            self.recorder.close(reason)


def _ignore(event: Event) -> None:
    return None
