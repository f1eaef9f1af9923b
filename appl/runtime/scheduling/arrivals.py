"""Arrivals: calls that come together are looked at together, before any of them is sent.

Invariant: everything here runs on the I/O loop; each call that was added is looked at once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.scheduling.order import program_of
from appl.runtime.scheduling.policy import Policy
from appl.runtime.scheduling.timers import LoopClock, Timer

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

LARGE = 256
"""The cold tokens from which on the beginning of a prompt is worth a wait for others that share it.
"""
_LOOKS = 20
_SLICE_S = 0.005
_BETWEEN_S = 0.002


class Arrivals:
    """The calls that have arrived and were not looked at yet.

    They are looked at at once, or if prompts begin with many cold tokens, when no more have come
    for ``gather_s`` seconds of the *policy*. Of very many calls those of some programs are looked
    at and go, then the next ones.

    *see* looks at a call, and returns the number of cold tokens that its prompt begins with; *go*
    is called when some that were looked at may be sent. *probe* is awaited once, before the first
    look. ``looking`` is true while some calls were not looked at yet, ``gathering`` while none is
    to be sent because of that, ``probing`` while the server is being asked about itself, and
    ``resting`` while all were looked at, and the server was asked.
    """

    def __init__(
        self,
        policy: Policy,
        probe: Callable[[], Coroutine[object, object, None]],
        see: Callable[[Call], int],
        go: Callable[[], object],
    ) -> None:
        self._policy, self._clock = policy, policy.clock or LoopClock()
        self._probe: Callable[[], Coroutine[object, object, None]] | None = probe
        self._see, self._go = see, go
        self._arrived: deque[Call] = deque()
        self._unseen: dict[Call, str] = {}  # with the conversation of each
        self._conversations = Counter[str]()
        self._timer: Timer | None = None
        self._learning: asyncio.Task[None] | None = None
        self.looking = self.gathering = self.probing = self.resting = False

    def __contains__(self, call: Call) -> bool:
        return call in self._unseen

    def __len__(self) -> int:
        return len(self._unseen)

    def holds(self, conversation: str) -> bool:
        """True if a call of the activation at this address was not looked at yet."""
        return conversation in self._conversations

    def _count_seen(self, conversation: str) -> None:
        self._conversations[conversation] -= 1
        if not self._conversations[conversation]:
            del self._conversations[conversation]

    @property
    def busy(self) -> bool:
        """True if calls are looked at, or will be without a test moving its clock."""
        return self.looking and (self._timer is None or self._policy.clock is None)

    def add(self, call: Call) -> None:
        """Look soon at *call*, which has been added to the ready queue."""
        self._arrived.append(call)
        address = self._unseen[call] = conversation_of(call)
        self._conversations[address] += 1
        if self.looking:
            return
        self.looking, self.gathering, self.resting = True, True, False
        io = io_thread()
        io.workers += 1  # a look is to come, which ``_look`` counts back when it is the last one
        if self._probe is not None:
            probe, self._probe = self._probe, None
            work, context = self._learn(probe()), contextvars.Context()
            self._learning = io.loop.create_task(work, context=context)
        else:
            # Not at once: the calls that the program has sent in one go are all there by then.
            io.loop.call_soon(self._look)

    def hasten(self) -> None:
        """Look soon, as the run is over: nobody need move the clock of a test any more."""
        if self._timer is not None and self._policy.clock is not None:
            self._timer.cancel()
            io_thread().loop.call_soon(self._look, _LOOKS)

    async def _learn(self, probing: Coroutine[object, object, None]) -> None:
        """Ask the server about itself, before the first look."""
        self.probing = True
        try:
            await probing
        finally:
            self.probing, self._learning = False, None
            self._look()

    def _look(self, looks: int = 0) -> None:
        """Look at what has arrived; while prompts are long and more come, wait for more."""
        self._timer = None
        clock, arrived = self._clock, self._arrived
        # Encoding long prompts takes time, and the loop has other work. So this works for a slice
        # of time, but not across a program's calls, which are to be compared with each other.
        cold, until, call = 0, clock.now() + _SLICE_S, None
        while arrived and (call is None or clock.now() < until or _one_program(call, arrived[0])):
            call = arrived.popleft()
            self._count_seen(self._unseen.pop(call))
            cold = max(cold, self._see(call))
        gather_s = self._policy.gather_s
        # Others with the same long beginning may be on their way from the program. To wait for a
        # millisecond costs less than to compute the beginning twice.
        if not arrived and cold >= LARGE and looks < _LOOKS and gather_s:
            self.gathering = True
            self._look_later(gather_s, looks + 1)
            return
        self.gathering = False
        if arrived:
            self._look_later(_BETWEEN_S, looks)  # in between, those that were looked at are sent
        else:
            self.looking, self.resting = False, True
            io_thread().workers -= 1
        self._go()

    def _look_later(self, seconds: float, looks: int) -> None:
        when = self._clock.now() + seconds
        self._timer = self._clock.at(when, partial(self._look, looks))


def _one_program(one: Call, other: Call) -> bool:
    return program_of(one) == program_of(other)


def conversation_of(call: Call) -> str:
    """The address of the activation whose prompt *call* goes on with."""
    frame = call.frame()
    if frame is None:
        return call.address.rpartition("/")[0]
    return frame.root_of_prompt().address
