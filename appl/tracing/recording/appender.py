"""Writes what is new in a resumed run to the end of its trace.

Invariant: nothing is written before something new happens; what the trace holds already is not
written again, and its last record holds the sums over all processes that wrote to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from appl.errors import TraceLocked
from appl.runtime.event import (
    CallStarted,
    ChunksDelivered,
    Delivered,
    Event,
    Failed,
    RunEnded,
    ScopeEntered,
    ScopeLeft,
    ToolStarted,
    Warned,
)
from appl.tracing.format.totals import RunningTotals
from appl.tracing.recording.encoder import Begun
from appl.tracing.recording.recorder import Recorder

if TYPE_CHECKING:
    from appl.tracing.reading.trace import Trace

_QUIET = (ScopeEntered, ScopeLeft, CallStarted, Delivered, ChunksDelivered, Failed, Warned)
"""Events that are written only with those after them, or with the end of the run."""


class ResumedRun(Protocol):
    """The run that goes on, as far as an appender knows it.

    ``on_live`` gets the start of what is live, once that is known.
    """

    trace: Trace
    on_live: Callable[[CallStarted | ToolStarted], None] | None

    @property
    def error(self) -> BaseException | None:
        """The divergence of the run from its trace."""

    def is_new(self, event: Event) -> bool:
        """True if the trace does not hold *event* yet."""


class Appender(Recorder):
    """A recorder that goes on with the trace of *resumer*, under the lock of that file.

    *options* are those of ``Recorder``. Raises ``TraceLocked`` when another process writes it.
    """

    def __init__(self, resumer: ResumedRun, **options: Any) -> None:
        self._resumer = resumer
        self._begun = False
        self._starting = threading.RLock()
        self._pending: list[Event] = []
        super().__init__(resumer.trace.path, append=True, reason="resume", **options)
        resumer.on_live = self._record
        trace = resumer.trace
        require_unchanged(self, trace)
        go_on_with(self, trace)
        self._failures = dict(trace.failures)

    @property
    def begun(self) -> bool:
        """True if anything was written."""
        return self._begun

    def _open(self, header: Mapping[str, object], append: bool, reason: str) -> None:
        self._reason = reason

    def on_event(self, event: Event) -> None:
        if self._closed:
            return
        if isinstance(event, RunEnded):  # that alone is nothing new
            super().on_event(event)
        elif self._resumer.is_new(event):
            self._record(event)

    def _record(self, event: Event) -> None:
        """Write *event*, unless it is nothing by itself: that is kept until something happens."""
        # Events come from the program's threads and from the I/O thread. Under the lock they keep
        # their order while the first new one has the kept ones written. It is reentrant, since to
        # write may report a warning.
        with self._starting:
            self._pending.append(event)
            if not self._begun and isinstance(event, _QUIET):
                return
            pending, self._pending = self._pending, []
            self._write(pending)

    def _write(self, events: list[Event]) -> None:
        for event in events:
            self._begin()
            if isinstance(event, CallStarted):
                before = self._resumer.trace.by_address.get(event.address)
                if before is not None:  # it is begun again, and not counted as it ended then
                    if self._failures:
                        from appl.tracing.format.failures import forget_retried

                        forget_retried(self._failures, event.address)
                    self.writer.append(Begun(before), 0)
            if not isinstance(event, Failed) or event.address not in self._failures:
                super().on_event(event)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            super()._open({}, True, self._reason)

    def barrier(self, timeout: float | None = None) -> None:
        """Return when all that happened so far is written. Raises ``TraceWriteError``."""
        self._flush()
        super().barrier(timeout)

    def _flush(self) -> None:
        with self._starting:
            pending, self._pending = self._pending, []
            self._write(pending)

    def close(self, reason: str | None = None) -> None:
        """Write what is left, and how the run ended if that is new. Raises ``TraceWriteError``."""
        before = self._resumer.trace
        ended = self._ended.reason if self._ended is not None else reason or "finished"
        same = before.state == "finished" and before.reason == ended
        if not self._begun and (same or self._resumer.error is not None):
            self.leave()
            return
        self._flush()
        self._begin()
        super().close(reason)


def go_on_with(recorder: Recorder, trace: Trace) -> None:
    """Have the sums that *recorder* ends with include those of *trace*, to which it adds."""
    took = round(trace.seconds() * 1e6)
    recorder.encoder.totals = RunningTotals(trace.totals_by_model(), took)
    if trace.failures or trace.tools:
        from appl.tracing.format.failures import RunningFailures  # of few runs

        failed = (used.address for used in trace.tools.values() if used.has_failed)
        recorder.encoder.failures = RunningFailures.of(trace.failures.values(), failed)


def require_unchanged(recorder: Recorder, trace: Trace) -> None:
    """Refuse to add to *trace* if another process has, between the reading and the lock.

    What that process was told, or has paid for, is not in *trace*. Raises ``TraceLocked``.
    """
    file = recorder.writer.file
    if trace.read_to is not None and trace.read_to != (file.good, file.last.checksum):
        recorder.leave()
        raise TraceLocked(
            f"another process has gone on with {trace.path.name} just now; run the command again"
        )


class Addition(Recorder):
    """Adds observations to the end of a *trace* while no program runs, under its lock.

    *options* are those of ``Recorder``. Raises ``TraceLocked`` when another process writes it.
    """

    def __init__(self, trace: Trace, reason: str, **options: Any) -> None:
        super().__init__(trace.path, append=True, reason=reason, **options)
        require_unchanged(self, trace)
        go_on_with(self, trace)
        super()._open({}, True, reason)

    def _open(self, header: Mapping[str, object], append: bool, reason: str) -> None:
        """Write nothing yet: another process may have added to it meanwhile."""
