"""Admission of attempts: each waits for the server, its share of the budget, a slot and the rate.

Invariant: all that has been taken is given back when the next step fails, is cancelled, or finds
the run paused or the server left alone; an attempt that is let in holds all of it in one loan,
which is given back once, however the attempt ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from appl.errors import BackendError
from appl.runtime.scheduling.patience import Outage, exhausted_error, plain
from appl.runtime.scheduling.timers import wake
from appl.runtime.scheduling.traffic import Loan, Traffic

if TYPE_CHECKING:
    from appl.runtime.scheduling.accounts import Account, Reservation
    from appl.runtime.scheduling.call_status import Why
    from appl.runtime.scheduling.connecting import Connecting
    from appl.runtime.scheduling.dispatcher import Budgets, Question
    from appl.runtime.scheduling.metering import Meter
    from appl.runtime.scheduling.policy import Retries

_NEVER = float("-inf")


class Admission:
    """Lets the attempts of one run in to one server; while ``paused`` none.

    ``stuck`` is the number of attempts that wait for leave. ``on_room`` is called when more calls
    may be sent than before.
    """

    def __init__(
        self,
        traffic: Traffic,
        connecting: Connecting | None,
        retries: Retries,
        budgets: Budgets,
        meter: Callable[[], Meter],
        on_room: Callable[[], object],
    ) -> None:
        self._traffic, self._connecting, self._retries = traffic, connecting, retries
        self._budgets, self._meter = budgets, meter
        self.paused = False
        self._resumed_at = _NEVER
        self._unpaused: list[asyncio.Future[None]] = []
        self.stuck = 0
        self.on_room = on_room

    async def wait(self, question: Question) -> Loan:
        """Wait for all that the next attempt of *question* needs.

        Raises ``BudgetExceeded``, errors of the connecting, and at the end of the patience an
        error of the class of the server's last one.
        """
        if self._traffic.outages:
            await asyncio.sleep(0)  # thousands of calls may end at once, one after the other
        while True:
            if self.paused:
                with self._waiting(question, "paused"):
                    await self._resumed()
            loan = Loan(self._traffic, question.request.model)
            try:
                if not self._may_go(loan, question):
                    with self._waiting(question, "circuit"):
                        await self._turn(loan, question)
                # All may have changed during these waits. Then all goes back, so that a call that
                # waits for a server, or in a paused run, holds nothing that others could use.
                if await self._take(loan, question) and not self.paused:
                    return loan
            except BaseException:  # a cancellation, too
                loan.back()
                raise
            loan.back()

    async def rest(self, question: Question, until: float) -> None:
        """Wait for *until*, after a failure; not if the server asks for more than the patience."""
        while self._traffic.clock.now() < until:
            outage = self._traffic.outage(question.request.model)
            late = self.late(question, outage)
            if outage.over(late):
                raise self._refusal_error(question, outage)
            await outage.resting(until, late)

    def late(self, question: Question, outage: Outage | None) -> float:
        """The time at which the patience of *question* ends; pauses of the run do not count."""
        begins = float("inf") if question.refused is None else question.refused
        if outage is not None:
            begins = min(begins, max(outage.since, question.ready))
        begins = float("inf") if self.paused else max(begins, self._resumed_at)
        return begins + self._retries.patience_s

    def resume(self) -> None:
        """Let attempts in again."""
        # First the flag: a paused attempt that runs again looks at it.
        self.paused, unpaused, self._unpaused = False, self._unpaused, []
        self._resumed_at = self._traffic.clock.now()
        for waiter in unpaused:
            wake(waiter)
        for outage in self._traffic.outages.values():
            outage.recheck()

    def _may_go(self, loan: Loan, question: Question) -> bool:
        """True if the server may be asked now, perhaps by this attempt alone.

        Raises the error of a call that is to wait no longer.
        """
        outage = self._traffic.outages.get(loan.model)
        if outage is None or (self._retries.attempts == 1 and not question.elsewhere):
            return True
        blocked = outage.blocks(loan)
        if outage.over(self.late(question, outage), loan) or (blocked and question.elsewhere):
            raise self._refusal_error(question, outage)
        if outage.dead and not blocked:
            outage.probe = loan
        return not blocked

    async def _turn(self, loan: Loan, question: Question) -> None:
        """Wait until the server may be asked."""
        while not self._may_go(loan, question):
            outage = self._traffic.outage(loan.model)
            await outage.entering(self.late(question, outage))
            if self._traffic.gives_up:
                self.on_room()

    def _refusal_error(self, question: Question, outage: Outage | None) -> BackendError:
        question.over = True
        error = question.error if outage is None else outage.error
        assert error is not None
        error = plain(error)
        if not question.elsewhere:
            error = exhausted_error(error, self._retries.patience_s)
        if not question.number:
            error.worked = False
        return error

    async def _take(self, loan: Loan, question: Question) -> bool:
        """Take all for *loan*; false if the server is to be left alone after all."""
        traffic = self._traffic
        if self._connecting is not None and self._connecting.needed:
            await self._connected(self._connecting, loan, question)
        # The order: first what may take long and holds nobody up (a budget), last what is lost
        # while one waits for something else (a place in the rate). Each is noted in the loan as
        # soon as it is taken, so that a failure of the next step gives it back.
        account = self._budgets.charged(question.call.account)
        if account is not None:
            loan.reserved = await self._reserved(account, question)
        late = None if question.refused is None else self.late(question, None)
        loan.epoch = await traffic.slots.take(late)
        if loan.epoch is None and self.late(question, None) <= traffic.clock.now():
            raise self._refusal_error(question, None)
        if loan.epoch is None:  # the run was paused meanwhile
            return False
        if not self._may_go(loan, question):
            return False
        if traffic.rate is not None:
            tokens = self._meter().tokens(question.request) if traffic.by_tokens else 0
            with self._waiting(question, "rate"):
                await traffic.rate.take(tokens)
            loan.requested = tokens
        return self._may_go(loan, question)

    async def _connected(self, connecting: Connecting, loan: Loan, question: Question) -> None:
        with question.waiting("connect"):  # all wait for it together, so it holds nobody back
            try:
                await connecting.done(loan.refused)
            except BackendError:
                # It counts as an attempt of each call that waited for it, but takes only one retry
                # out of the budget of retries.
                question.call.attempts += 1
                question.number, question.shared = question.call.attempts, True
                raise
        if self._traffic.outages:
            self._traffic.answered(loan.model)

    async def _reserved(self, account: Account, question: Question) -> Reservation:
        ledger = self._budgets.ledger
        worst = self._meter().worst(question.request, account, question.emit is not None)
        reserved = ledger.try_reserve(account, worst)
        if reserved is None:
            with self._waiting(question, "budget"):
                reserved = await ledger.reserve(account, worst)
            question.ready = self._traffic.clock.now()  # the wait is no matter of the server
        return reserved

    @contextmanager
    def _waiting(self, question: Question, why: Why) -> Iterator[None]:
        """A block in which a call waits for leave; no other is taken out of the queue meanwhile."""
        self.stuck += 1
        try:
            with question.waiting(why):
                yield
        finally:
            self.stuck -= 1
            # The limit was held down by this wait: the queue has to be looked at again, or the
            # calls in it would wait for the next one that comes.
            if not self.stuck:
                self.on_room()

    async def _resumed(self) -> None:
        while self.paused:  # it may be paused again before this task runs
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unpaused.append(waiter)
            await waiter
