"""A process's share of a server's cache, where other processes ask the server as well.

Each tells the others what it wants: what its conversations are expected to take, or all of the
cache while some of them wait for room. Nobody gets more than he wants while another gets less: one
that wants little leaves the rest to the others.

Until it is known who else is there, one more that wants all is reckoned with, so nobody waits for a
look at the others.

Invariant: everything here runs on the I/O loop.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Protocol

from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.scheduling.timers import Clock, Timer

LOOK_S = 0.2
"""The least seconds between two looks at the other processes."""


class CacheLease(Protocol):
    """The part of one process in a server's cache, as the others see it while it is held."""

    async def exchange(self, wanted: float) -> Sequence[float]:
        """Tell the others that this process wants *wanted* tokens; returns what each wants.

        If they cannot be seen the user is told once, and there are none.
        """

    def give_back(self) -> None:
        """Want nothing any more, which the others soon see; it returns at once."""


class CacheLeases(Protocol):
    """A place where the processes of one user see each other."""

    def lease(self, address: str) -> CacheLease:
        """A lease of a part of the cache at *address*; it is held from its first exchange on."""


def share_of(tokens: float, others: Iterable[float]) -> float:
    """The part of *tokens* for one that wants all, beside *others* that want so much each."""
    wanted = sorted(others)
    for left, most in zip(range(len(wanted) + 1, 1, -1), wanted, strict=True):
        if most * left >= tokens:
            return tokens / left
        tokens -= most
    return tokens


class CacheShare:
    """The share of this process under *lease*, looked at by *clock* as long as much happens.

    *wanted* says what this process wants; *changed* is called after a look.
    """

    def __init__(
        self,
        lease: CacheLease,
        clock: Clock,
        wanted: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._lease: CacheLease | None = lease
        self._clock, self._wanted, self._changed = clock, wanted, changed
        self._others: Sequence[float] = ()
        self._looked = -inf
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None

    def of(self, tokens: float) -> float:
        """The share of a cache of so many *tokens*."""
        return share_of(tokens, self._others)

    def touch(self) -> None:
        """Look at the others, or soon if that was done lately and there are any."""
        if self._lease is None or self._task is not None:
            return
        now, first = self._clock.now(), self._looked == -inf
        if first or now >= self._looked + LOOK_S:
            self._look(self._lease, first)
        elif self._others and self._timer is None:
            self._timer = self._clock.at(self._looked + LOOK_S, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.touch()

    def _look(self, lease: CacheLease, first: bool) -> None:
        self._end_timer()
        self._looked = self._clock.now()
        if first:
            self._others = [inf]
        io = io_thread()
        io.workers += 1  # which ``_exchange`` counts back
        exchange = self._exchange(lease, first)
        self._task = io.loop.create_task(exchange, context=contextvars.Context())

    async def _exchange(self, lease: CacheLease, first: bool) -> None:
        try:
            found = list(await lease.exchange(inf if first else self._wanted()))
            # Another one that begins at the same time may not have been there yet. Until the next
            # look it is reckoned with: what was let in too much could not be taken back.
            self._others = [*found, inf] if first else found
        finally:
            io_thread().workers -= 1
            self._task = None
            self._changed()

    def give_back(self) -> None:
        """Give the share back; nothing is looked at any more."""
        lease, self._lease = self._lease, None
        self._end_timer()
        if lease is not None:
            lease.give_back()

    def _end_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
