"""The traffic to one server: slots, rate, the time it wants to be left alone, the circuit.

Invariant: used on the I/O loop only, by one run or by all runs of a process that ask one server;
attempts are let in, in the order of coming, whichever run they belong to. An attempt holds what it
has taken in one loan, which is given back once, however the attempt ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

from appl.errors import BackendBusy, BackendError
from appl.runtime.scheduling.accounts import Amounts, Reservation
from appl.runtime.scheduling.circuit import OPEN, Breaker, Gate
from appl.runtime.scheduling.policy import Policy, Retries
from appl.runtime.scheduling.rate import Rate
from appl.runtime.scheduling.retry import RetryBudget
from appl.runtime.scheduling.timers import LoopClock


class Slots:
    """Slots of one backend, as many as the adaptive ``limit``; it is ``None`` while all may come.

    Never more are let in than the limit of the moment, which never passes the one that was given;
    attempts are let in, in the order of asking. As TCP does (Jacobson, "Congestion avoidance and
    control", 1988): one more for each answer at first, later one more for each round trip, half
    when turned away, at most once for all that was sent before.

    ``size`` is the limit before it is rounded down. *most* is the limit that was given, *start* the
    first one that is tried. *on_room* is called when there is room for more than before.
    """

    def __init__(
        self,
        most: int | None,
        start: int,
        on_room: Callable[[], None],
        *,
        slow: bool = False,
        adaptive: bool = True,
    ) -> None:
        self._most, self._adaptive, self._on_room = most, adaptive, on_room
        self._start = start if most is None else min(start, most)
        self.size: float | None = float(self._start) if slow else most
        self._doubling = True
        self._tried = slow
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.taken = 0
        self.epoch = 0

    @property
    def limit(self) -> int | None:
        """The number of attempts that may be there now; ``None`` without limit."""
        return None if self.size is None else int(self.size)

    @property
    def most(self) -> int | None:
        """The limit that was given."""
        return self._most

    def resize(self, most: int) -> None:
        """Set the limit that was given to *most*, and try that one first."""
        self._most, self._start = most, min(self._start, most)
        self.size, self._doubling = float(most), True
        self._let_in()
        self._on_room()

    async def take(self) -> int:
        """Wait for a slot and take it; returns the epoch, for ``busy`` and ``answered``."""
        epoch = self.take_now()
        if epoch is not None:
            return epoch
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # Cancelled after its turn had come: the slot was taken for it, and would be lost.
            if turn.done() and not turn.cancelled():
                self.taken -= 1
                self._let_in()
            raise
        return self.epoch

    def take_now(self) -> int | None:
        """Take a slot if there is ``room``; returns the epoch, or ``None``."""
        if self._waiting or (self.size is not None and self.taken >= int(self.size)):
            return None
        self.taken += 1
        return self.epoch

    def answered(self, epoch: int) -> None:
        """Give back the slot of an attempt that began in *epoch* and was answered."""
        # It says something of the limit only if all slots were taken, under the present limit.
        if self.size is not None and epoch == self.epoch and self.taken >= int(self.size):
            self._grow(self.size)
        self.taken -= 1
        if self._waiting:
            self._let_in()

    def give(self) -> None:
        """Give a slot back."""
        self.taken -= 1
        if self._waiting:
            self._let_in()

    def _grow(self, size: float) -> None:
        """Raise the limit, which was *size*: so many at once were borne."""
        self.size = size + (1 if self._doubling else 1 / size)
        if self._most is not None:
            self.size = min(self.size, self._most)
        if int(self.size) > int(size):
            self._let_in()
            self._on_room()

    def busy(self, epoch: int) -> None:
        """Note that an attempt that began in *epoch* was turned away."""
        # Of all that were sent under one limit the first counts. The others were on their way
        # already, and say nothing of the new limit.
        if not self._adaptive or epoch != self.epoch:
            return
        self.epoch += 1
        if self.size is None or not self._tried:
            self.size, self._tried = float(self._start), True  # what it bears is not known at all
        else:
            self.size, self._doubling = max(1.0, self.size / 2), False

    def _let_in(self) -> None:
        while self._waiting and (self.size is None or self.taken < int(self.size)):
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled
                self.taken += 1  # here, not when its task runs: until then others would come
                turn.set_result(None)


class Loan:
    """The things that one attempt holds: reservation, slot, place in the rate, perhaps the probe.

    ``asked`` are the tokens that it took of those of a minute; *retries* limit the time for which
    a server may want to be left alone.
    """

    __slots__ = ("_retries", "_traffic", "asked", "epoch", "probe", "reserved")

    def __init__(self, traffic: Traffic, retries: Retries, epoch: int | None = None) -> None:
        self._traffic, self._retries, self.epoch = traffic, retries, epoch
        self.reserved: Reservation | None = None
        self.probe = False
        self.asked = 0

    @property
    def worst(self) -> Amounts | None:
        """The amounts that are reserved; ``None`` when nothing is counted."""
        return None if self.reserved is None else self.reserved.worst

    def answered(self, used: Amounts = Amounts(), tokens: int | None = None) -> None:  # noqa: B008
        """The attempt was answered: *used* is spent, and so many *tokens* of a minute."""
        traffic = self._traffic
        # Before the slot goes back: the next attempt is let in by that, and finds the circuit
        # closed and the limit as this answer leaves it.
        self.probe = False
        if traffic.breaker.failures:
            traffic.breaker.answered()
        if self.asked:
            self._put_right(tokens)
        reserved, self.reserved = self.reserved, None
        if reserved is not None:
            reserved.settle(used)
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            traffic.slots.answered(epoch)

    def failed(self, error: BaseException, used: Amounts) -> None:
        """It failed with *error*, and *used* is spent."""
        traffic = self._traffic
        probe, self.probe = self.probe, False
        traffic.breaker.failed(error, probe)
        if isinstance(error, BackendBusy) and self.epoch is not None:
            traffic.slots.busy(self.epoch)
        if isinstance(error, BackendError) and error.retriable:
            self._leave_alone(error.retry_after)
        self.asked = 0
        self.back(used)

    def back(self, used: Amounts = Amounts()) -> None:  # noqa: B008 - a value
        """Give back what is held; *used* is spent. A second time nothing happens."""
        # Each is forgotten as it is given back, so that errors on the way can come here again.
        if self.probe:
            self.probe = False
            self._traffic.breaker.left(True)
        if self.asked:
            self._put_right(0)
        reserved, self.reserved = self.reserved, None
        if reserved is not None:
            reserved.settle(used)
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            self._traffic.slots.give()

    def _put_right(self, tokens: int | None) -> None:
        """Correct the rate: so many of the tokens asked for were used; ``None``: all of them."""
        asked, self.asked = self.asked, 0
        if tokens is not None and self._traffic.rate is not None:
            self._traffic.rate.settle(asked, tokens)

    def _leave_alone(self, seconds: float | None) -> None:
        if seconds and self._retries.attempts > 1:
            self._traffic.gate.close(min(seconds, self._retries.patience_s))


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

    def lend_slot(self, retries: Retries) -> Loan | None:
        """A loan of nothing but a slot; ``None`` if none is free or the server may not be asked."""
        if self.breaker.probe_at is not None or (self.gate.until != OPEN and self.gate.closed):
            return None
        epoch = self.slots.take_now()
        return None if epoch is None else Loan(self, retries, epoch)

    def join(self, user: User) -> None:
        """Tell *user* from now on when there is room, as long as it is there."""
        self._users.add(user)

    def _has_room(self) -> None:
        for user in tuple(self._users):  # a run may end meanwhile, which changes the set
            user.has_room()
