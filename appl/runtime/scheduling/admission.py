"""Admission of attempts: each takes its share of the budget, a slot, and a place in the rate.

Invariant: all that has been taken is given back when the next step fails, is cancelled, or finds
the run paused; an attempt that is let in holds all of it in one loan, which is given back once,
however the attempt ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from appl.errors import BackendBusy, BackendError
from appl.runtime.scheduling.accounts import Account, Amounts, BudgetLedger, Reservation
from appl.runtime.scheduling.timers import ring, sleep_until

if TYPE_CHECKING:
    from appl.runtime.scheduling.call_status import Waiting, Why
    from appl.runtime.scheduling.policy import Retries
    from appl.runtime.scheduling.traffic import Traffic


class Loan:
    """The things that one attempt holds: reservation, slot, place in the rate, perhaps the probe.

    ``asked`` are the tokens that it took of those of a minute; *retries* limit the time for which
    a server may want to be left alone.
    """

    __slots__ = ("_retries", "_traffic", "asked", "epoch", "probe", "reserved")

    def __init__(self, traffic: Traffic, retries: Retries) -> None:
        self._traffic, self._retries = traffic, retries
        self.reserved: Reservation | None = None
        self.epoch: int | None = None
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
        if self.epoch is not None:
            traffic.slots.answered(self.epoch)
        if self.asked:
            self._put_right(tokens)
        self.back(used)

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

    def lost(self) -> None:
        """Give back, and charge the worst case: the process that made the attempt is gone."""
        # The tokens of the minute stay taken, as the server may have worked for it.
        self.asked = 0
        worst = self.worst or Amounts()
        self.back(worst._replace(cost=worst.cost or None))

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


class Wanted(NamedTuple):
    """The needs of an attempt: *worst* of the *account*, and so many *tokens* of a minute.

    It waits for *patience_s* seconds for a backend that is taken for dead.
    """

    account: Account | None
    worst: Callable[[Account], Amounts]
    tokens: int
    patience_s: float


def unseen(why: Why) -> AbstractContextManager[None]:
    """A context for attempts whose waiting nobody looks at."""
    return nullcontext()


class Admission:
    """Lets the attempts of one run in to one server; while ``paused`` none."""

    def __init__(self, traffic: Traffic, retries: Retries, ledger: BudgetLedger) -> None:
        self._traffic, self._retries, self._ledger = traffic, retries, ledger
        self.paused = False
        self._unpaused: list[asyncio.Future[None]] = []

    async def wait(self, wanted: Wanted, waiting: Waiting) -> Loan:
        """Wait for all that is *wanted*. Raises ``BudgetExceeded`` and ``CircuitOpen``."""
        while True:
            if self.paused:
                with waiting("paused"):
                    await self._resumed()
            loan = Loan(self._traffic, self._retries)
            try:
                await self._take(loan, wanted, waiting)
                # The run may have been paused during these waits. Then all goes back, so that a
                # paused run holds no slots that other runs of the server could use.
                if not self.paused:
                    return loan
            except BaseException:  # a cancellation, too
                loan.back()
                raise
            loan.back()

    def uncounted(self, account: Account | None) -> Loan | None:
        """The loan of an attempt that neither budgets nor rates count, if there is room now.

        Most attempts are of this kind; this is the fastest way.
        """
        traffic, counted = self._traffic, account is not None or self._ledger.late is not None
        if counted or traffic.rate is not None:
            return None
        return self._slot()

    def now(self, wanted: Wanted) -> Loan | None:
        """A loan of all that is *wanted*; ``None`` if anything has to be waited for."""
        # No ``await`` in here: nothing can change on the loop between these lines.
        loan = self._slot()
        if loan is None:
            return None
        account = self._ledger.charged(wanted.account)
        if account is not None:
            loan.reserved = self._ledger.try_reserve(account, wanted.worst(account))
            if loan.reserved is None:
                loan.back()
                return None
        rate = self._traffic.rate
        if rate is not None:
            if not rate.take_now(wanted.tokens):
                loan.back()
                return None
            loan.asked = wanted.tokens
        return loan

    def _slot(self) -> Loan | None:
        """A loan of nothing but a slot; ``None`` if no attempt may begin now."""
        epoch = None if self.paused else self._traffic.take_slot()
        if epoch is None:
            return None
        loan = Loan(self._traffic, self._retries)
        loan.epoch = epoch
        return loan

    def pause(self) -> None:
        """Let nobody in from now on."""
        self.paused = True

    def resume(self) -> None:
        """Let attempts in again."""
        # First the flag: a paused attempt that runs again looks at it.
        self.paused, unpaused, self._unpaused = False, self._unpaused, []
        for bell in unpaused:
            ring(bell)

    async def _take(self, loan: Loan, wanted: Wanted, waiting: Waiting) -> None:
        traffic = self._traffic
        # The order: first what may take long and holds nobody up (a budget), last what is lost
        # while one waits for something else (a place in the rate). Each is noted in the loan as
        # soon as it is taken, so that a failure of the next step gives it back.
        account = self._ledger.charged(wanted.account)
        if account is not None:
            loan.reserved = await self._reserved(account, wanted.worst(account), waiting)
        loan.epoch = await traffic.slots.take()
        if traffic.breaker.open or traffic.gate.closed:
            with waiting("circuit"):
                loan.probe = await self._leave_to_ask(wanted.patience_s)
        if traffic.rate is not None:
            with waiting("rate"):
                await traffic.rate.take(wanted.tokens)
            loan.asked = wanted.tokens

    async def _reserved(self, account: Account, worst: Amounts, waiting: Waiting) -> Reservation:
        reserved = self._ledger.try_reserve(account, worst)
        if reserved is None:
            with waiting("budget"):
                reserved = await self._ledger.reserve(account, worst)
        return reserved

    async def _leave_to_ask(self, patience_s: float) -> bool:
        """Wait until the backend may be asked; true if the attempt is the probe of a dead one."""
        traffic = self._traffic
        # Both are looked at again after each wait: a gate may close while one waits for the
        # breaker, and then a probe is given back, or no other attempt could ever be one.
        while True:
            while traffic.gate.closed:
                await sleep_until(traffic.clock, traffic.gate.until)
            probe = traffic.breaker.open and await traffic.breaker.enter(patience_s)
            if not traffic.gate.closed:
                return probe
            traffic.breaker.left(probe)

    async def _resumed(self) -> None:
        while self.paused:  # it may be paused again before this task runs
            bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unpaused.append(bell)
            await bell
