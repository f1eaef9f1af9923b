"""Hedging: a second attempt beside one that takes long; the first answer counts.

Invariant: a call has at most two attempts at once, and the second only if there is room for it now.
J. Dean and L. Barroso, "The tail at scale" (CACM, 2013).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Literal

from appl.backend import Response
from appl.runtime.scheduling.timers import Clock, sleep_until

_RECENT = 200
_ENOUGH = 20

Attempt = Callable[[], Coroutine[object, object, Response]]


class Hedge:
    """Decides when a call of one backend is asked a second time, by the durations of others."""

    def __init__(self, after: float | Literal["p95"], clock: Clock) -> None:
        self._after, self._clock = after, clock
        self._took: deque[float] = deque(maxlen=_RECENT)

    async def ask(self, first: Attempt, second: Callable[[], Attempt | None]) -> Response:
        """The answer of *first*, or of *second* if that is asked, and is earlier.

        *second* gives no attempt when there is no room for one. If both fail the error is that of
        the first.
        """
        begun, after = self._clock.now(), self._seconds()
        running = [asyncio.ensure_future(first())]
        try:
            if after is not None and not await self._done_within(running[0], after):
                other = second()
                if other is not None:
                    running.append(asyncio.ensure_future(other()))
            answer = await _first_answer(running)
        finally:
            # Waited for, even though the answer is there: until the other attempt has ended it
            # holds its slot and its reservation.
            await _break_off(running)
        self._took.append(self._clock.now() - begun)
        return answer

    def _seconds(self) -> float | None:
        if self._after != "p95":
            return self._after
        if len(self._took) < _ENOUGH:
            return None
        return sorted(self._took)[math.ceil(0.95 * len(self._took)) - 1]

    async def _done_within(self, task: asyncio.Task[Response], seconds: float) -> bool:
        late = asyncio.ensure_future(sleep_until(self._clock, self._clock.now() + seconds))
        try:
            await asyncio.wait([task, late], return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()
        return task.done()


async def _first_answer(running: list[asyncio.Task[Response]]) -> Response:
    left = set(running)
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        # In this order, not that of the set: if both are there the first one counts.
        for task in running:
            if task in done and not task.cancelled() and task.exception() is None:
                return task.result()
    return running[0].result()


async def _break_off(running: list[asyncio.Task[Response]]) -> None:
    """Cancel all and wait for their ends; their errors are dropped."""
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
