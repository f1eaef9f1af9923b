"""The traffic to one server: slots, rate, the time it wants to be left alone, the circuit.

Invariant: used on the I/O loop only, by one run or by all runs of a process that ask one server;
attempts are let in, in the order of coming, whichever run they belong to.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

from appl.runtime.scheduling.circuit import OPEN, Breaker, Gate
from appl.runtime.scheduling.concurrency import Slots
from appl.runtime.scheduling.policy import Policy
from appl.runtime.scheduling.rate import Rate
from appl.runtime.scheduling.retry import RetryBudget
from appl.runtime.scheduling.timers import LoopClock


class User(Protocol):
    """The part of a run that sends calls to the server."""

    def has_room(self) -> None:
        """Note that more calls may be sent than before."""


class Traffic:
    """The traffic to the server *whose*, under *policy*, with at most so many calls at once."""

    def __init__(self, policy: Policy, whose: str, most: int | None) -> None:
        self.clock = policy.clock or LoopClock()
        self._users: WeakSet[User] = WeakSet()
        self.slots = Slots(
            most,
            policy.concurrency_start,
            self._has_room,
            slow=policy.slow_start,
            adaptive=policy.adaptive,
        )
        self.gate = Gate(self.clock)
        self.breaker = Breaker(policy.circuit, self.clock, whose)
        limits = policy.limits
        limited = limits.requests is not None or limits.tokens_per_minute is not None
        self.rate = Rate(limits, self.clock) if limited else None
        self.retries = RetryBudget(policy.retries)

    @property
    def by_tokens(self) -> bool:
        """True if the tokens of a minute are limited."""
        return self.rate is not None and self.rate.by_tokens

    def take_slot(self) -> int | None:
        """Take a slot if one is free and the server may be asked now; the epoch, or ``None``."""
        if self.breaker.probe_at is not None or (self.gate.until != OPEN and self.gate.closed):
            return None
        return self.slots.take_now()

    def join(self, user: User) -> None:
        """Tell *user* from now on when there is room, as long as it is there."""
        self._users.add(user)

    def _has_room(self) -> None:
        for user in tuple(self._users):  # a run may end meanwhile, which changes the set
            user.has_room()
