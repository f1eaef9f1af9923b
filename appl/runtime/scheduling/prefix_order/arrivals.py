"""Arrivals: calls that come together are looked at together, before any of them is sent.

Invariant: everything here runs on the I/O loop; each call that was added is looked at once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.scheduling.order import CallQueue, program_of
from appl.runtime.scheduling.timers import LoopClock, Timer

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

LARGE = 256
"""The cold tokens from which on a prompt is worth a wait for others that begin like it."""
_LOOKS = 20
"""The most looks at calls that come one after the other, with ``gather_s`` between them."""
_SLICE_S = 0.005
"""The seconds for which prompts are encoded before other work of the loop has its turn."""


class Arrivals:
    """The calls that have arrived at *queue* and were not looked at yet.

    They are looked at at once, or if prompts begin with many cold tokens, when no more have come
    for ``gather_s`` seconds of the policy. Of very many calls those of some programs are looked at
    and go, then the next ones.

    *see* looks at a call, and returns the number of cold tokens that its prompt begins with; *go*
    is called when some that were looked at may be sent. Before the first look the backend is
    connected with. ``is_gathering`` is true while no call is to be sent because more are coming,
    ``is_connecting`` while the backend is being connected with, and ``is_at_rest`` while all calls
    were looked at, and the backend was connected with.
    """

    def __init__(
        self, queue: CallQueue, see: Callable[[Call], int], go: Callable[[], object]
    ) -> None:
        self._queue, self._see, self._go = queue, see, go
        self._clock = queue.policy.clock or LoopClock()
        self._calls: deque[Call] = deque()
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_new = True
        self.is_looking = self.is_gathering = self.is_connecting = self.is_at_rest = False

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)

    @property
    def is_busy(self) -> bool:
        """True if calls are looked at, or will be without a test moving its clock."""
        return self.is_looking and (self._timer is None or self._queue.policy.clock is None)

    def add(self, call: Call) -> None:
        """Look soon at *call*."""
        self._calls.append(call)
        if self.is_looking:
            return
        self.is_looking, self.is_gathering, self.is_at_rest = True, True, False
        io = io_thread()
        if self._is_new:
            self._is_new, self.is_connecting = False, True
            self._task = io.loop.create_task(self._connect(), context=contextvars.Context())
        else:
            # Not at once: the calls that the program has sent in one go are all there by then.
            io.loop.call_soon(self._look)

    async def _connect(self) -> None:
        try:
            await self._queue.connected()
        finally:
            self.is_connecting, self._task = False, None
            self._look()

    def close(self) -> None:
        """Look soon, as the run is over: nobody need move the clock of a test any more."""
        if self._timer is not None and self._queue.policy.clock is not None:
            self._timer.cancel()
            io_thread().loop.call_soon(self._look, _LOOKS)

    def _look(self, looks: int = 0) -> None:
        """Look at what has arrived; while prompts are long and more come, wait for more."""
        self._timer = None
        clock, calls, gather_s = self._clock, self._calls, self._queue.policy.gather_s
        # Encoding long prompts takes time, and the loop has other work. So this works for a slice
        # of time, but not across a program's calls, which are to be compared with each other.
        cold, until, program = 0, clock.now() + _SLICE_S, ""
        while calls and (not program or clock.now() < until or program_of(calls[0]) == program):
            call = calls.popleft()
            program = program_of(call)
            cold = max(cold, self._see(call))
        # Others with the same long beginning may be on their way from the program. To wait for a
        # millisecond costs less than to compute the beginning twice.
        if not calls and cold >= LARGE and looks < _LOOKS and gather_s:
            self.is_gathering = True
            when = clock.now() + gather_s
            self._timer = clock.at(when, partial(self._look, looks + 1))
            return
        self.is_gathering = False
        if calls:  # in between, those that were looked at are sent
            io_thread().loop.call_soon(self._look, looks)
        else:
            self.is_looking, self.is_at_rest = False, True
        self._go()
