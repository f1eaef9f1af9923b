"""Clocks for limits: the I/O loop's own time, or one that a test moves.

Invariant: everything here is used on the I/O loop only.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None:
        """Have it not happen."""


class Clock(Protocol):
    """A clock, in seconds from any moment, with timers."""

    def now(self) -> float:
        """The time."""

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """Have *action* called when it is *when*."""


class LoopClock:
    """The time of the I/O loop, which is the monotonic clock of the machine."""

    now = staticmethod(time.monotonic)

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """A timer of the loop."""
        return asyncio.get_running_loop().call_at(when, action)


Waiter = asyncio.Future[None] | asyncio.Future[int | None]
"""A future that ends a wait; it has no value when the time does."""


def wake(waiter: Waiter) -> None:
    """End the wait for *waiter*, if there is one still."""
    if not waiter.done():  # it is done if the waiting task was cancelled, or woken by another
        waiter.set_result(None)


async def wait_for(clock: Clock, when: float, waiter: Waiter) -> None:
    """Wait until it is *when*, which may be never, or *waiter* is woken."""
    if when == math.inf:
        await waiter
        return
    timer = clock.at(when, partial(wake, waiter))
    try:
        await waiter
    finally:
        timer.cancel()
