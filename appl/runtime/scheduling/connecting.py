"""The connecting with a backend: once for all calls of a run, before the first of them.

Invariant: a failure is noted once, however many calls waited for it; no request was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import opcode
import traceback
from collections.abc import Callable

from appl.backend import Connects
from appl.errors import BackendError
from appl.runtime.scheduling.deadlines import Deadline
from appl.runtime.scheduling.patience import plain
from appl.runtime.scheduling.policy import ATTEMPT_S, Deadlines
from appl.runtime.scheduling.timers import Clock, LoopClock, wait_for, wake


class Connecting:
    """The connecting with *backend*; ``needed`` until it has succeeded."""

    def __init__(self, backend: Connects, clock: Clock, deadlines: Deadlines) -> None:
        self._connect = backend.connect
        self._clock = clock
        self._seconds = deadlines.total_s
        self._task: asyncio.Task[None] | None = None
        self._noted: asyncio.Task[None] | None = None
        self.needed = True

    async def done(self, failed: Callable[[BackendError], None]) -> None:
        """Wait until it is connected with. Raises the error of the connecting.

        Of those that wait for the same failure one has it noted by *failed*.
        """
        task = self._trying()
        try:
            await asyncio.shield(task)  # a call that is cancelled leaves it to the others
        except BackendError as error:
            if self._noted is not task:
                self._noted = task
                failed(error)
            own = plain(error)  # each call adds its own note
            own.worked = False
            raise own from None
        self.needed = False

    async def settled(self, until: float) -> None:
        """Wait until it was tried, at most *until* then; a failure is left to the calls."""
        if self.needed:
            waiter = asyncio.get_running_loop().create_future()
            self._trying().add_done_callback(lambda _: wake(waiter))
            await wait_for(self._clock, until, waiter)

    def _trying(self) -> asyncio.Task[None]:
        if self._task is None:
            self._task = asyncio.ensure_future(self._connect_in_time())
            self._task.add_done_callback(self._tried)
        return self._task

    def _tried(self, task: asyncio.Task[None]) -> None:
        """Have later calls try again after a failure."""
        if task.cancelled() or task.exception() is not None:
            self._task = None

    async def _connect_in_time(self) -> None:
        by_default = self._seconds is None
        with Deadline(LoopClock() if by_default else self._clock) as late:
            if self._seconds != math.inf:
                late.set("connect", ATTEMPT_S if by_default else self._seconds)
            try:
                await self._connect()
            except BackendError as error:
                let_go(error)
                raise


def let_go(error: BackendError) -> None:
    """Clear the frames of *error*, so that it keeps none of the backend's local variables.

    A wrong answer may be large, and frames that refer to their own error live until Python looks
    for cycles, which it does less often the more objects there are.
    """
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:  # an error may lead to itself
        visited.add(id(current))
        for frame, _ in traceback.walk_tb(current.__traceback__):
            # A coroutine that goes on later would be ended by clearing its frame. An error that a
            # backend raises to several calls leads through those that ask again, too.
            at = frame.f_lasti
            if at < 0 or frame.f_code.co_code[at] != opcode.opmap["YIELD_VALUE"]:
                with contextlib.suppress(RuntimeError):  # it is running
                    frame.clear()
        current = current.__cause__ or current.__context__
