"""The connecting with a backend: once for all calls of a run, before the first of them.

Invariant: a failure counts once for the circuit, however many calls waited for it; no request was
sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
import opcode
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from appl.backend import Backend, Connects, offers
from appl.errors import BackendError
from appl.runtime.scheduling.call_status import Waiting
from appl.runtime.scheduling.circuit import Breaker
from appl.runtime.scheduling.deadlines import Deadline
from appl.runtime.scheduling.policy import ATTEMPT_S, Deadlines
from appl.runtime.scheduling.timers import Clock, LoopClock, wait_for, wake


class Connecting:
    """The connecting with *backend*, whose circuit is *breaker*; ``needed`` until it succeeded."""

    def __init__(
        self, backend: Backend, breaker: Breaker, clock: Clock, deadlines: Deadlines
    ) -> None:
        self._connect = backend.connect if offers(backend, Connects) else None
        self._breaker, self._clock = breaker, clock
        self._seconds = deadlines.total_s
        self._task: asyncio.Task[None] | None = None
        self._present = 0
        self.needed = self._connect is not None

    async def done(self, patience_s: float, waiting: Waiting) -> None:
        """Wait until it is connected with. Raises the error of the connecting.

        While the circuit is open, one call at a time tries whether the failure has passed.
        """
        probe = False
        if self._breaker.open:
            with waiting("circuit"):
                probe = await self._breaker.enter(patience_s)
        try:
            with waiting("connect"):
                await self._connected(probe)
        finally:
            self._breaker.left(probe)

    async def settled(self, until: float) -> None:
        """Wait until it was tried, at most *until* then; a failure is left to the calls."""
        if not self.needed:
            return
        waiter = asyncio.get_running_loop().create_future()
        with self._there():
            self._trying().add_done_callback(lambda _: wake(waiter))
            await (waiter if until == math.inf else wait_for(self._clock, until, waiter))

    async def _connected(self, probe: bool) -> None:
        task = self._trying()
        try:
            with self._there():
                await asyncio.shield(task)  # a call that is cancelled leaves it to the others
        except BackendError as error:
            # Each call that waited comes here. The first one has the failure count, and has the
            # next call try again.
            if self._task is task:
                self._task = None
                self._breaker.failed(error, probe)
            own = copy.copy(error)  # each call adds its own note
            own.worked = False
            raise own from None
        if self.needed or probe:
            self.needed = False
            self._breaker.answered()

    @contextmanager
    def _there(self) -> Iterator[None]:
        self._present += 1
        try:
            yield
        finally:
            self._present -= 1

    def _trying(self) -> asyncio.Task[None]:
        if self._task is None or self._task.cancelled():
            self._task = asyncio.ensure_future(self._connect_in_time())
            self._task.add_done_callback(self._tried)
        return self._task

    async def _connect_in_time(self) -> None:
        assert self._connect is not None
        by_default = self._seconds is None
        with Deadline(LoopClock() if by_default else self._clock) as late:
            if self._seconds != math.inf:
                late.set("connect", ATTEMPT_S if by_default else self._seconds)
            try:
                await self._connect()
            except BackendError as error:
                let_go(error)
                raise

    def _tried(self, task: asyncio.Task[None]) -> None:
        """Forget a failure that no call has waited for: later calls try again."""
        failed = not task.cancelled() and task.exception() is not None
        if failed and not self._present and self._task is task:
            self._task = None


def let_go(error: BackendError) -> None:
    """Clear the frames of *error*, so that it keeps none of the backend's local variables.

    A wrong answer may be large, and frames that refer to their own error live until Python looks
    for cycles, which it does less often the more objects there are.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:  # an error may lead to itself
        seen.add(id(each))
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if not _may_wait(frame):
                with contextlib.suppress(RuntimeError):  # it is running
                    frame.clear()
        each = each.__cause__ or each.__context__


def _may_wait(frame: FrameType) -> bool:
    """True if *frame* may be that of a coroutine that goes on later, which clearing would end.

    An error that a backend raises to several calls leads through those that ask again, too.
    """
    at = frame.f_lasti
    return at >= 0 and frame.f_code.co_code[at] == opcode.opmap["YIELD_VALUE"]
