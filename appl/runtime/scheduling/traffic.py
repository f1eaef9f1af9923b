"""The traffic to one server: slots, rate, and the models of it that refuse calls at present.

Invariant: used on the I/O loop only, by one run or by all runs of a process that ask one server;
attempts are let in, in the order of coming, whichever run they belong to. An attempt holds what it
has taken in one loan, which is given back once, however the attempt ends.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakSet

from appl.errors import BackendBusy, BackendError, BackendTimeout
from appl.runtime.scheduling.policy import Policy
from appl.runtime.scheduling.timers import Clock, LoopClock, wait_for, wake

if TYPE_CHECKING:
    from appl.runtime.scheduling.accounts import Amounts, Reservation
    from appl.runtime.scheduling.dispatcher import Dispatcher
    from appl.runtime.scheduling.patience import Outage
    from appl.runtime.scheduling.rate import Rate
    from appl.runtime.scheduling.retry import RetryBudget


class Slots:
    """Slots of one backend, as many as the adaptive ``limit``; it is ``None`` while all may come.

    Never more are let in than the limit of the moment, which never passes the one that was given;
    attempts are let in, in the order of asking. As TCP does (Jacobson, "Congestion avoidance and
    control", 1988): one more for each answer at first, later one more for each round trip, half
    when turned away, at most once for all that was sent before.

    ``size`` is the limit before it is rounded down, ``most`` the limit that was given, *start* the
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
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or LoopClock()
        self.most, self._adaptive, self._on_room = most, adaptive, on_room
        self._start = start if most is None else min(start, most)
        self.size: float | None = float(self._start) if slow else most
        self._doubling = True
        self._tried = slow
        self._refused: dict[asyncio.Future[int | None], float] = {}
        self._waiting: deque[asyncio.Future[int | None]] = deque()
        self.in_use = 0
        self.epoch = 0

    @property
    def limit(self) -> int | None:
        """The number of attempts that may be there now; ``None`` without limit."""
        return None if self.size is None else int(self.size)

    def resize(self, most: int) -> None:
        """Set the limit that was given to *most*, and try that one first."""
        self.most, self._start = most, min(self._start, most)
        self.size, self._doubling = float(most), True
        self._let_in()
        self._on_room()

    async def take(self, late: float | None = None) -> int | None:
        """Wait for a slot and take it; returns the epoch, for ``busy`` and ``answered``.

        A call that was refused gives *late*, the end of its patience: it goes before the others,
        and gets ``None`` when it is to wait no longer. That is then, if the server bears less than
        the limit that was given, and else at the next refusal.
        """
        epoch = self.take_now()
        if epoch is not None:
            return epoch
        turn: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        until = math.inf
        if late is None:
            self._waiting.append(turn)
        else:
            self._refused[turn] = late
            until = late if self.epoch and self.size != self.most else until
        try:
            await wait_for(self._clock, until, turn)
        except asyncio.CancelledError:
            # Cancelled after its turn had come: the slot was taken for it, and would be lost.
            if turn.done() and not turn.cancelled() and turn.result() is not None:
                self.in_use -= 1
                self._let_in()
            raise
        finally:
            self._refused.pop(turn, None)
        return None if turn.result() is None else self.epoch

    def refuse(self, now: float) -> None:
        """Let those wait no longer whose patience is over *now*."""
        for turn, late in self._refused.items():
            if late <= now:
                wake(turn)

    def take_now(self) -> int | None:
        """Take a slot if there is ``room``; returns the epoch, or ``None``."""
        if self._waiting or (self.size is not None and self.in_use >= int(self.size)):
            return None
        self.in_use += 1
        return self.epoch

    def answered(self, epoch: int) -> None:
        """Give back the slot of an attempt that began in *epoch* and was answered."""
        # It says something of the limit only if all slots were taken, under the present limit: so
        # many at once were borne, and the limit rises.
        size = self.size
        if size is not None and epoch == self.epoch and self.in_use >= int(size):
            raised = size + (1 if self._doubling else 1 / size)
            self.size = raised if self.most is None else min(raised, self.most)
            if int(self.size) > int(size):
                self._let_in()
                self._on_room()
        self.in_use -= 1
        if self._waiting or self._refused:
            self._let_in()

    def give(self) -> None:
        """Give a slot back."""
        self.in_use -= 1
        if self._waiting or self._refused:
            self._let_in()

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
        refused = iter([turn for turn in self._refused if not turn.done()])
        while self.size is None or self.in_use < int(self.size):
            turn = next(refused, None)
            if turn is None and not self._waiting:
                return
            turn = turn or self._waiting.popleft()
            if not turn.done():  # else the call is gone
                self.in_use += 1  # here, not when its task runs: until then others would come
                turn.set_result(self.epoch)


class Loan:
    """The things that one attempt holds: reservation, slot, place in the rate, perhaps the probe.

    It is for *model*; ``asked`` are the tokens that it took of those of a minute.
    """

    __slots__ = ("_traffic", "epoch", "model", "requested", "reserved")

    def __init__(self, traffic: Traffic, model: str, epoch: int | None = None) -> None:
        self._traffic, self.model, self.epoch = traffic, model, epoch
        self.reserved: Reservation | None = None
        self.requested = 0

    @property
    def worst(self) -> Amounts | None:
        """The amounts that are reserved; ``None`` when nothing is counted."""
        return None if self.reserved is None else self.reserved.worst

    def answered(self, used: Amounts | None = None, tokens: int | None = None) -> None:
        """The attempt was answered: *used* is spent, and so many *tokens* of a minute."""
        traffic = self._traffic
        # Before the slot goes back: the next attempt is let in by that, and finds the outage over
        # and the limit as this answer leaves it.
        if traffic.outages:
            traffic.answered(self.model)
        if self.requested:
            self._put_right(tokens)
        reserved, self.reserved = self.reserved, None
        if reserved is not None:
            reserved.settle(used)
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            traffic.slots.answered(epoch)

    def failed(self, error: BaseException, used: Amounts | None) -> None:
        """It failed with *error*, and *used* is spent."""
        if isinstance(error, BackendError):
            self.refused(error)
        if isinstance(error, BackendBusy) and self.epoch is not None:
            self._traffic.slots.busy(self.epoch)
        self.requested = 0
        self.back(used)

    def refused(self, error: BackendError) -> None:
        """Note for others that the server, or the connecting with it, has failed with *error*."""
        traffic = self._traffic
        if error.retriable:
            traffic.refused(self.model, error, self)
        elif not isinstance(error, BackendTimeout):  # whoever refuses a request is alive
            traffic.answered(self.model)

    def back(self, used: Amounts | None = None) -> None:
        """Give back what is held; *used* is spent. A second time nothing happens."""
        # Each is forgotten as it is given back, so that errors on the way can come here again.
        outage = self._traffic.outages.get(self.model)
        if outage is not None:
            outage.attempt_over(self)
        if self.requested:
            self._put_right(0)
        reserved, self.reserved = self.reserved, None
        if reserved is not None:
            reserved.settle(used)
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            self._traffic.slots.give()

    def _put_right(self, tokens: int | None) -> None:
        """Correct the rate: so many of the tokens asked for were used; ``None``: all of them."""
        reserved, self.requested = self.requested, 0
        if tokens is not None and self._traffic.rate is not None:
            self._traffic.rate.settle(reserved, tokens)


class Traffic:
    """The traffic to one server, under *policy*, with at most so many calls at once.

    ``outages`` are those of its models; usually there are none. So many ``calls`` have begun.
    """

    def __init__(self, policy: Policy, most: int | None) -> None:
        self.clock = policy.clock or LoopClock()
        self._users: WeakSet[Dispatcher] = WeakSet()
        self.slots = Slots(
            most,
            policy.concurrency_start,
            self._has_room,
            slow=policy.slow_start,
            adaptive=policy.adaptive,
            clock=self.clock,
        )
        self.outages: dict[str, Outage] = {}
        self._policy = policy
        limits = policy.limits
        limited = limits.requests is not None or limits.tokens_per_minute is not None
        self.rate: Rate | None = None
        if limited:
            from appl.runtime.scheduling.rate import Rate  # few backends have one

            self.rate = Rate(limits, self.clock)
        self.calls = 0

    @cached_property
    def retries(self) -> RetryBudget:
        """The retries that all calls have left."""
        from appl.runtime.scheduling.retry import RetryBudget  # most calls are answered

        return RetryBudget(self._policy.retries)

    @property
    def by_tokens(self) -> bool:
        """True if the tokens of a minute are limited."""
        return self.rate is not None and self.rate.by_tokens

    def outage(self, model: str) -> Outage:
        """The outage of *model*, which may have just begun."""
        outage = self.outages.get(model)
        if outage is None:
            from appl.runtime.scheduling.patience import Outage  # most servers refuse nobody

            policy = self._policy
            outage = self.outages[model] = Outage(self.clock, policy.retries, bool(policy.circuit))
        return outage

    def refused(self, model: str, error: BackendError, attempt: Loan | None = None) -> None:
        """Note that an *attempt* with *model* failed with *error*, which may pass."""
        self.outage(model).refused(error, attempt)
        self.slots.refuse(self.clock.now())
        if self.gives_up:
            self._has_room()  # for those in the queues, which end, too

    def answered(self, model: str) -> None:
        """Note that the server has answered a call for *model*."""
        outage = self.outages.get(model)
        if outage is not None:
            outage.answered()
            self.tidy(model)

    def tidy(self, model: str) -> None:
        """Forget the outage of *model* if it is over."""
        outage = self.outages.get(model)
        if outage is not None and outage.ended:
            del self.outages[model]

    @property
    def gives_up(self) -> bool:
        """True if calls wait no longer for a model that have waited since its outage began."""
        return any(outage.over(outage.full) for outage in self.outages.values())

    def join(self, user: Dispatcher) -> None:
        """Tell *user* from now on when there is room, as long as it is there."""
        self._users.add(user)

    def _has_room(self) -> None:
        """Have more calls come than before, if there are any."""
        for user in tuple(self._users):  # a run may end meanwhile, which changes the set
            user.on_room()
