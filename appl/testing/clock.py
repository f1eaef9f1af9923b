"""Time that a test moves: delays, deadlines and waits between attempts without waiting for them.

Invariant: the time of a ``VirtualClock`` moves only when nothing else can happen, and then to the
next timer. A test's result does not depend on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from itertools import count
from typing import TypeVar

T = TypeVar("T")

__all__ = ["VirtualClock"]


class _Alarm:
    """A timer of a virtual clock."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Cancel the timer."""
        self.action = None


class VirtualClock:
    """A clock for ``Policy(clock=…)`` and for backends that answer late; it begins at 0 seconds.

    Where a fake backend is ``running`` with such a policy, it moves when no program can go on.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._numbers = count()

    def now(self) -> float:
        """The time in seconds."""
        return self._now

    def at(self, when: float, action: Callable[[], None]) -> _Alarm:
        """Call *action* at the time *when*."""
        alarm = _Alarm(action)
        heapq.heappush(self._alarms, (max(when, self._now), next(self._numbers), alarm))
        return alarm

    async def sleep(self, seconds: float) -> None:
        """Wait for *seconds* of this clock."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        alarm = self.at(self._now + seconds, lambda: over.set_result(None))
        try:
            await over
        finally:
            alarm.cancel()

    def advance(self) -> bool:
        """Move to the next timer and run its action; false if there is none."""
        while self._alarms:
            when, _, alarm = heapq.heappop(self._alarms)
            if alarm.action is not None:
                self._now = when
                alarm.action()
                return True
        return False

    def on_idle(self, final: bool = True) -> bool:
        """Move to the next timer, as all programs of a run wait; false if there is none."""
        return self.advance()

    def run(self, main: Coroutine[object, object, T]) -> T:
        """Run *main* in a loop of its own, moving the time whenever nothing can go on."""
        return asyncio.run(self._run(main))

    async def _run(self, main: Coroutine[object, object, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(main)
        ready: object = getattr(loop, "_ready")  # noqa: B009 - asyncio has no name for it
        while not task.done():
            await asyncio.sleep(0)
            if not ready and not task.done() and not self.advance():
                task.cancel()
                await asyncio.wait([task])
                raise RuntimeError("everything waits, and no timer is set")
        return task.result()
