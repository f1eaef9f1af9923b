"""``timeout``: a block that must end in time.

Invariant: the end by a timeout is recorded, so that a replay ends the block at the same wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType

from appl.errors import RunError
from appl.runtime.concurrency import clock
from appl.runtime.concurrency.fiber import (
    Hub,
    hub_here,
    in_coroutine,
    loop_here,
    run_on,
    strand_here,
)
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.region import Limit
from appl.runtime.event import Observed
from appl.runtime.frame import here
from appl.runtime.world import Moment


class TimeIsUp(BaseException):
    """Thrown into a program whose time is up; becomes ``TimeoutError`` at the block's end."""


class timeout:
    """``with timeout(seconds):`` raises ``TimeoutError`` in a wait that lasts too long.

    Calls that were started inside and that nobody else holds are cancelled then, and not waited
    for. In a coroutine write ``async with``. Code that waits for nothing is not interrupted.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = clock.seconds("timeout(seconds)", seconds)
        self._over = self._struck = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> timeout:
        if in_coroutine():
            raise RunError("in a coroutine write `async with timeout(seconds):`")
        strand, late = strand_here(), TimeIsUp()
        self._begin(strand.hub, lambda: strand.throw(late))
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._end()
        self._limit.leave(error)
        if isinstance(error, TimeIsUp):
            raise self._late() from None

    async def __aenter__(self) -> timeout:
        loop = loop_here()
        self._block = asyncio.timeout(None)
        await self._block.__aenter__()
        self._begin(hub_here(), lambda: loop.call_soon(self._expire, loop.time()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()
        self._limit.leave(error)
        try:
            await self._block.__aexit__(kind, error, traceback)
        except TimeoutError as late:
            raise self._late() from late.__cause__

    def _expire(self, when: float) -> None:
        """On the loop: cancel the block's task, which its end takes back."""
        # The block may have ended between the call_soon and now. A cancellation would hit
        # whatever the task does after the block.
        if not self._over:
            self._block.reschedule(when)

    def _late(self) -> TimeoutError:
        return TimeoutError(f"not done within {self._seconds} s")

    def _begin(self, hub: Hub, strike: Callable[[], object]) -> None:
        """Have *strike* called on the thread of *hub* when the time is up."""
        self._frame = here(lambda: "timeout", call=False)
        self._limit = Limit(self._frame)
        self._limit.enter()
        self._ordinal = self._frame.run.outside.next_observation(self._frame)

        # The timer expires on the I/O loop. The strike goes through the hub's inbox, among the
        # answers: at that place it is recorded, and comes again in a replay.
        def expire() -> None:
            run_on(hub, lambda: self._time_is_up(strike))

        self._frame.run.outside.expect(
            self._moment(), lambda _: expire(), lambda: io_thread().send(lambda: self._arm(expire))
        )

    def _arm(self, expire: Callable[[], None]) -> None:
        """On the I/O loop: the time begins."""
        if not self._over:
            self._timer = io_thread().loop.call_later(self._seconds, expire)

    def _time_is_up(self, strike: Callable[[], object]) -> None:
        """On the program's own thread: its time is up, which a replay must know."""
        # Left in time while the strike was on its way: then it has not happened, and the record
        # has nothing of it. A rerun may have two strikes on their way, a recorded one and a live.
        if not (self._over or self._struck):
            self._struck = True
            run, at, limit = self._frame.run, time.monotonic_ns(), self._seconds
            run.reporter.emit(Observed(self._frame.address, self._ordinal, "deadline", limit, at))
            strike()

    def _end(self) -> None:
        self._over = True  # at once: the timer is cancelled later, on the loop where it belongs
        self._frame.run.outside.leave(self._moment())
        io_thread().send(lambda: self._timer.cancel() if self._timer is not None else None)

    def _moment(self) -> Moment:
        """The moment at which the time is up."""
        return Moment(self._frame.address, "deadline", self._ordinal, self._seconds)
