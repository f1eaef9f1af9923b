"""The recorder of a run, which its first call opens.

Invariant: events before the first call are recorded in their order, or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from appl.base import threads
from appl.base.shield import shielded
from appl.runtime.concurrency.fiber import is_in_loop
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.event import Event
from appl.runtime.run_services import Entered
from appl.tracing.recording.recorder import Recorder


class Recording:
    """The recorder of a run, which does not exist before the first call.

    Earlier events are kept and handed over. ``gate`` and ``enter`` open the trace; if that fails,
    they refuse the first call and every later one. Without *records* no trace is opened.
    *wants_arguments* has arguments and results of functions recorded, too.
    """

    never_raises: ClassVar[bool] = True

    def __init__(
        self,
        open_recorder: Callable[[], Recorder | None],
        *,
        records: bool = True,
        wants_arguments: bool = False,
    ) -> None:
        self._open: Callable[[], Recorder | None] | None = open_recorder
        self._records, self.wants_arguments = records, wants_arguments
        self._early: list[Event] = []
        self._waiting: list[Entered] = []
        self._opening = threading.RLock()  # held while the trace is opened, which may take long
        self._lock = threading.RLock()  # held for a moment
        self._opened = False
        self._refusal: Exception | None = None  # of the first call, if the trace cannot be opened
        self._secrets: dict[str, str] = {}
        self.recorder: Recorder | None = None
        self.on_event: Callable[[Event], None] = self._keep

    def gate(self) -> None:
        """Let the next call start; the first one opens the trace."""
        if not self._opened:
            with self._opening:
                refusal, self._refusal = self._refusal, None
                if refusal is not None:
                    raise refusal
                self._begin()
        if self.recorder is not None:
            self.recorder.gate()

    def prepare(self) -> None:
        """Open the trace, if the program's thread may wait: nobody has to be woken for it then.

        What keeps it from being opened refuses the first call, when that starts.
        """
        if is_in_loop():
            return
        with self._opening, shielded():
            try:
                self._begin()
            except Exception as refusal:
                self._refusal = refusal

    # -- on the I/O loop, which other runs use, too

    def enter(self, go: Entered) -> bool:
        """True if the next call may start now; otherwise *go* is called when it may.

        Another thread opens the trace or waits for room in it. Calls start in order.
        """
        if not self._waiting and self._opened and (self.recorder is None or self.recorder.is_free):
            return True
        if not self._records:
            self.gate()
            return True
        self._waiting.append(go)
        if len(self._waiting) == 1:
            self._let_in()
        return False

    def _let_in(self) -> None:
        io = io_thread()

        def let_in() -> None:
            error: Exception | None = None
            try:
                self.gate()
            except Exception as refusal:
                error = refusal
            io.send(lambda: self._entered(error))

        threads.work(let_in)

    def _entered(self, error: Exception | None) -> None:
        if error is None:
            waiting, self._waiting = self._waiting, []
            for go in waiting:
                go(None)
            return
        self._waiting.pop(0)(error)
        if self._waiting:  # the next one tries again
            self._let_in()

    # -- from any thread

    def barrier(self) -> None:
        """Return when everything so far is on disk. Raises ``TraceWriteError``."""
        self.gate()
        if self.recorder is not None:
            self.recorder.barrier()

    def _begin(self) -> None:
        if self._open is None:
            return
        # Events are kept meanwhile. If it raises, the next call tries again.
        recorder = self._open()
        with self._lock:
            self.recorder = recorder
            early, self._early = self._early, []
            if recorder is not None:
                recorder.conceal(self._secrets)
                for event in early:
                    recorder.on_event(event)
            # Both last: gate() reads the flag without the lock, and events of other threads wait
            # in _keep until the early ones are written, so the order is kept.
            self.on_event = recorder.on_event if recorder is not None else _ignore
            self._opened, self._open = True, None

    def _keep(self, event: Event) -> None:
        with self._lock:
            if self._opened:
                self.on_event(event)
            else:
                self._early.append(event)

    def path(self) -> Path | None:
        """The path of the trace; ``None`` before it is opened, and if there is none."""
        return self.recorder.path if self.recorder is not None else None

    def conceal(self, secrets: Mapping[str, str]) -> None:
        """Keep *secrets*, by name, out of the trace."""
        with self._lock:
            self._secrets.update(secrets)
            if self.recorder is not None:
                self.recorder.conceal(secrets)

    def close(self, reason: str | None = None) -> None:
        """Close the trace if there is one. Raises ``TraceWriteError``."""
        with self._opening, self._lock:  # for a call that was cancelled it may be opened just now
            if not self._opened:
                self._opened, self._open, self.on_event = True, None, _ignore
        if self.recorder is not None:
            self.recorder.close(reason)


def _ignore(event: Event) -> None:
    return None
