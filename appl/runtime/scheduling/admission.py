"""Admission of attempts: each takes its share of the budget, a slot, and a place in the rate.

Invariant: all that has been taken is given back when the next step fails, is cancelled, or finds
the run paused; an attempt that is let in holds all of it in one loan, which is given back once,
however the attempt ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from appl.runtime.scheduling.accounts import Account, Amounts, BudgetLedger, Reservation
from appl.runtime.scheduling.timers import sleep_until, wake
from appl.runtime.scheduling.traffic import Loan, Traffic

if TYPE_CHECKING:
    from appl.runtime.scheduling.call_status import Waiting
    from appl.runtime.scheduling.policy import Retries


class Wanted(NamedTuple):
    """The needs of an attempt: *worst* of the *account*, and so many *tokens* of a minute.

    It waits for *patience_s* seconds for a backend that is taken for dead.
    """

    account: Account | None
    worst: Callable[[Account], Amounts]
    tokens: int
    patience_s: float


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

    def now(self, wanted: Wanted) -> Loan | None:
        """A loan of all that is *wanted*; ``None`` if anything has to be waited for."""
        # No ``await`` in here: nothing can change on the loop between these lines.
        loan = None if self.paused else self._traffic.lend_slot(self._retries)
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

    def pause(self) -> None:
        """Let nobody in from now on."""
        self.paused = True

    def resume(self) -> None:
        """Let attempts in again."""
        # First the flag: a paused attempt that runs again looks at it.
        self.paused, unpaused, self._unpaused = False, self._unpaused, []
        for waiter in unpaused:
            wake(waiter)

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
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unpaused.append(waiter)
            await waiter
