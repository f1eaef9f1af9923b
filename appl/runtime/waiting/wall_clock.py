"""The time of day by which programs wait for days, and timers at it.

Invariant: it is the time of the system, unless a test has put another one in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from appl.runtime.concurrency.loop_thread import io_thread


class Clock(Protocol):
    """A clock with timers."""

    def now(self) -> float:
        """Seconds since 1970."""

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Call *act* at the time *when*, on the I/O loop; at once if it is past."""

    def skip_to(self, when: float) -> bool:
        """Let time pass until *when*, as nothing else can happen; false if it passes by itself."""


class SystemClock:
    """The clock of the system."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Call *act* at the time *when*, on the I/O loop; at once if it is past."""
        io = io_thread()

        def look() -> None:
            # In steps: a machine that sleeps has its timers late, and the time of day may be set.
            remaining_s = when - self.now()
            if remaining_s <= 0:
                act()
            else:
                io.loop.call_later(min(remaining_s, _STEP_S), look)

        io.send(look)

    def skip_to(self, when: float) -> bool:
        """Let time pass until *when*: it does so by itself."""
        return False


_STEP_S = 30.0
clock: Clock = SystemClock()
"""The clock in use; ``appl.testing.WallClock`` puts another one here for a block."""


def now() -> float:
    """Seconds since 1970."""
    return clock.now()
