"""The accounts behind budgets: what calls may use is reserved at its worst, and settled afterwards.

Invariant: spent and reserved together never pass a limit, of a budget or of one around it, as long
as no call uses more than its worst case. A call that does not fit now, but might once others have
used less than they could, waits; one that cannot fit any more fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from appl.backend.price import limit_of
from appl.errors import BudgetExceeded
from appl.runtime.scheduling.policy import Allowance


class Amounts(NamedTuple):
    """Amounts that calls use: ``cost`` in millionths of the currency unit, tokens, and calls.

    A ``cost`` of ``None`` is unknown: of one attempt, or of all that were counted.
    """

    cost: int | None = 0
    tokens: int = 0
    calls: int = 0


_UNITS = {"cost": "millionths of a currency unit", "tokens": "tokens", "calls": "calls"}
_NONE = Amounts()
ONE = Amounts(0, 0, 1)
"""The amounts of one attempt for budgets that count attempts alone."""


class AccountState(NamedTuple):
    """The amounts of an account at one time, as another process is told of them."""

    spent: Amounts
    reserved: Amounts
    unpriced: int


class Account:
    """The amounts that are spent and reserved under one allowance, inside of other accounts.

    ``is_block`` is true for a block of the program; other accounts are those of whole runs.
    ``unpriced`` counts the attempts of unknown cost. Where there are any, ``spent.cost`` is at
    least what was paid for the others, and ``None`` where that is nothing.
    """

    __slots__ = ("_spent", "around", "is_block", "limits", "reserved", "unpriced")
    poll_s: ClassVar[float | None] = None
    """The seconds between two looks of calls that wait, where others give back without a word."""

    def __init__(
        self, allowance: Allowance, around: Account | None = None, *, is_block: bool = False
    ) -> None:
        self.allow(allowance)
        self.around, self.unpriced, self.is_block = around, 0, is_block
        self._spent = self.reserved = _NONE

    @property
    def spent(self) -> Amounts:
        """The amounts used; the cost is ``None``, and not 0, where no backend gives any."""
        if self.unpriced and not self._spent.cost:
            return self._spent._replace(cost=None)
        return self._spent

    @property
    def state(self) -> AccountState:
        """The present amounts; they can be set where another process keeps the account."""
        return AccountState(self._spent, self.reserved, self.unpriced)

    @state.setter
    def state(self, state: AccountState) -> None:
        self._spent, self.reserved, self.unpriced = state

    def allow(self, allowance: Allowance) -> None:
        """Have the account keep to *allowance* from now on."""
        cost = None if allowance.cost is None else limit_of(allowance.cost)
        self.limits = (cost, allowance.tokens, allowance.calls)

    def levels(self) -> list[Account]:
        """This one and those around it, inner ones first."""
        accounts, account = [], self
        while account is not None:
            accounts.append(account)
            account = account.around  # type: ignore[assignment]
        return accounts

    def fits(self, worst: Amounts) -> bool:
        """True if *worst* can be reserved now. Raises ``BudgetExceeded`` if it never can."""
        # Two different limits: what is spent never comes back, so a call that does not fit beside
        # it can never be sent. What is reserved may come back, and is worth waiting for.
        room = True
        for limit, name, spent, reserved, needed in zip(
            self.limits, Amounts._fields, self._spent, self.reserved, worst, strict=True
        ):
            if limit is None or not needed:
                continue
            assert spent is not None and reserved is not None
            if spent + needed > limit:
                raise BudgetExceeded(
                    f"the budget of {limit} {_UNITS[name]} has {limit - spent} left, and this call "
                    f"may take {needed}; it was not sent",
                    limit=name,
                    most=limit,
                    spent=spent,
                    reserved=reserved,
                    asked=needed,
                )
            room = room and spent + reserved + needed <= limit
        return room

    def held(self) -> AbstractContextManager[None]:
        """A block in which nobody else reserves: here nobody else does."""
        return nullcontext()

    def book(self, spent: Amounts, reserved: Amounts) -> None:
        """Add to what is spent and to what is reserved; either may be negative."""
        self.unpriced += spent.cost is None
        self._spent = _sum(self._spent, spent)
        self.reserved = _sum(self.reserved, reserved)


def _sum(one: Amounts, other: Amounts) -> Amounts:
    """The sum of what is known."""
    return Amounts(*((a or 0) + (b or 0) for a, b in zip(one, other, strict=True)))


def refusal(account: Account, worst: Callable[[], Amounts]) -> BudgetExceeded | None:
    """The error with which *account* refuses a call that may take so much at *worst*."""
    try:
        amounts = worst()
    except BudgetExceeded:  # what it may take is not known here
        amounts = ONE
    try:
        for level in account.levels():
            level.fits(amounts)
    except BudgetExceeded as error:
        return error
    return None


@dataclass(slots=True)
class Reservation:
    """The amounts that one attempt may use, until it is settled."""

    accounts: list[Account]
    worst: Amounts
    ledger: BudgetLedger
    _settled: bool = field(default=False, repr=False)

    def settle(self, used: Amounts | None) -> None:
        """*used* is spent, the rest is free again; once."""
        if self._settled:
            return
        self._settled = True
        back = Amounts(*(-(amount or 0) for amount in self.worst))
        for account in self.accounts:
            account.book(used or _NONE, back)
        self.ledger.look(self.accounts[-1])


class _Waiting(NamedTuple):
    """An attempt that waits for room: its accounts, and the amounts that it needs."""

    accounts: list[Account]
    worst: Amounts
    turn: asyncio.Future[None]


class BudgetLedger:
    """The reservations of the calls of one run; calls wait for room in the order of asking.

    ``late`` is the account of a run that was given a budget only when it ran.
    """

    def __init__(self) -> None:
        self._queues: dict[Account, deque[_Waiting]] = {}  # by the outermost account
        self._polled: set[Account] = set()
        self.late: Account | None = None

    def allow(self, account: Account, allowance: Allowance) -> None:
        """Have *account*, the outermost of all, keep to *allowance*; also for calls that wait."""
        account.allow(allowance)
        self.look(account)

    def charged(self, account: Account | None) -> Account | None:
        """The account that a call of *account* is charged to; ``late`` is around all others."""
        late = self.late
        if late is None or account is None:
            return late if account is None else account
        outermost = account.levels()[-1]
        if outermost is not late:
            outermost.around = late
            if outermost in self._queues:  # one queue, so that nobody waits where nobody looks
                self._queues.setdefault(late, deque()).extend(self._queues.pop(outermost))
        return account

    async def reserve(self, account: Account, worst: Amounts) -> Reservation:
        """Wait until *worst* fits in *account*, and reserve it. Raises ``BudgetExceeded``."""
        accounts = account.levels()
        # Not past a queue, even where it would fit: small calls that come later would take each
        # bit of room as it becomes free, and a large one would wait for ever.
        if accounts[-1] in self._queues or not _reserved(accounts, worst):
            await self._wait(accounts, worst)
        return Reservation(accounts, worst, self)

    def try_reserve(self, account: Account, worst: Amounts) -> Reservation | None:
        """Reserve now, or not at all."""
        accounts = account.levels()
        try:
            if accounts[-1] in self._queues or not _reserved(accounts, worst):
                return None
        except BudgetExceeded:
            return None
        return Reservation(accounts, worst, self)

    async def _wait(self, accounts: list[Account], worst: Amounts) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outermost = accounts[-1]
        self._queues.setdefault(outermost, deque()).append(_Waiting(accounts, worst, turn))
        # Those before it may wait for accounts that are not its own: then it has room at once.
        self.look(outermost)
        if outermost.poll_s is not None:
            self._look_later(outermost, outermost.poll_s)
        try:
            await turn
        except asyncio.CancelledError:
            # Cancelled after its turn had come, before it ran: the reservation was made for it and
            # goes back. Cancelled in the queue: those behind it may fit now.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                Reservation(accounts, worst, self).settle(_NONE)
            else:
                self.look(outermost)
            raise

    def _look_later(self, outermost: Account, seconds: float) -> None:
        """Look again and again, as long as somebody waits: other processes give back, too."""
        if outermost in self._queues and outermost not in self._polled:
            self._polled.add(outermost)

            def look() -> None:
                self._polled.discard(outermost)
                self.look(outermost)
                self._look_later(outermost, seconds)

            asyncio.get_running_loop().call_later(seconds, look)

    def look(self, account: Account) -> None:
        """Let in the calls that have room now; one that has none holds up those of its account.

        *account* is the one that got something back, or one inside it.
        """
        outermost = account.levels()[-1]
        # Taken out, and put back with those that are left. To set a future runs nothing now: the
        # tasks of those that are let in go on later, and find their amounts reserved.
        queue = self._queues.pop(outermost, None)
        if queue is None:
            return
        blocked: set[Account] = set()
        remaining: deque[_Waiting] = deque()
        while queue and outermost not in blocked:
            waiting = queue.popleft()
            if not waiting.turn.done():
                self._try(waiting, blocked, remaining)
        remaining += queue
        if remaining:
            self._queues[outermost] = remaining

    def _try(self, waiting: _Waiting, blocked: set[Account], remaining: deque[_Waiting]) -> None:
        accounts, worst, turn = waiting
        try:
            # Here, not when the task runs: until then others would find the same room free.
            if blocked.isdisjoint(accounts) and _reserved(accounts, worst):
                turn.set_result(None)
                return
            full = [account for account in accounts if not account.fits(worst)]
        except BudgetExceeded as error:
            turn.set_exception(error)
            return
        # Only the accounts that are full are blocked. A call of another block of the program, with
        # a budget of its own, may go past this one.
        blocked.update(full)
        remaining.append(waiting)


def _reserved(accounts: list[Account], worst: Amounts) -> bool:
    """Reserve *worst* if it fits now. Raises ``BudgetExceeded`` if it never can."""
    with accounts[-1].held():
        room = all([account.fits(worst) for account in accounts])  # all raise before one says no
        for account in accounts if room else ():
            account.book(_NONE, worst)
    return room
