"""The time of day in tests: days pass when the test says so.

Invariant: it moves when the test says so, and where a process would sit through a short wait.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from types import TracebackType

from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.waiting import wall_clock

__all__ = ["WallClock"]


class WallClock:
    """The time by which programs wait for people and days, for a block of a test.

    It begins at *at*, in seconds since 1970. ``advance`` lets time pass; waits that a process sits
    through (the setting ``longest_wait``) pass at once, when nothing else can happen::

        with WallClock() as clock:
            ...
            clock.advance(days=3)
    """

    def __init__(self, at: float = 1_767_225_600.0) -> None:
        self._now = at
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._before: wall_clock.Clock | None = None

    def __enter__(self) -> WallClock:
        self._before, wall_clock.clock = wall_clock.clock, self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._before is not None
        wall_clock.clock = self._before

    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Call *act* on the I/O loop once it is *when*."""
        with self._lock:
            heapq.heappush(self._timers, (when, next(self._numbers), act))
        self._ring()

    def advance(self, seconds: float = 0, *, hours: float = 0, days: float = 0) -> None:
        """Let so much time pass; what waits for it goes on."""
        self._now += seconds + hours * 3600 + days * 86400
        self._ring()

    def skip_to(self, when: float) -> bool:
        """Let time pass until *when*, as nothing else can happen."""
        self._now = max(self._now, when)
        self._ring()
        return True

    def _ring(self) -> None:
        with self._lock:
            due = []
            while self._timers and self._timers[0][0] <= self._now:
                due.append(heapq.heappop(self._timers)[2])
        for act in due:
            io_thread().send(act)
