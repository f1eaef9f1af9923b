"""Budgets: what calls may use, reserved at its worst before they are sent, put right afterwards.

Invariant: spent and reserved together never pass a limit, of a budget or of one around it, as long
as no call uses more than its worst case. A call that does not fit now, but might once others have
used less than they could, waits; one that cannot fit any more fails.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from appl.backend import PrefixCaching, Profile, Request, Response
from appl.errors import BudgetExceeded
from appl.runtime.scheduling.policy import Allowance, Price


class Amounts(NamedTuple):
    """What calls use: ``cost`` in millionths of the currency unit, tokens, and their number."""

    cost: int = 0
    tokens: int = 0
    calls: int = 0


_UNITS = {"cost": "millionths of a currency unit", "tokens": "tokens", "calls": "calls"}
_NONE = Amounts()
_AROUND = 8
_MEDIUM = 1600
"""Tokens of an image or a sound, about as many as the largest one that providers do not shrink."""


class Account:
    """What is spent and reserved under one allowance, and under the accounts around it."""

    __slots__ = ("around", "limits", "reserved", "spent")

    def __init__(self, allowance: Allowance, around: Account | None = None) -> None:
        self.allow(allowance)
        self.around = around
        self.spent = self.reserved = _NONE

    def allow(self, allowance: Allowance) -> None:
        """Have *allowance* hold from now on."""
        cost = None if allowance.cost is None else math.floor(allowance.cost * 1_000_000)
        self.limits = (cost, allowance.tokens, allowance.calls)

    def levels(self) -> list[Account]:
        """This one and those around it, inner ones first."""
        found, account = [], self
        while account is not None:
            found.append(account)
            account = account.around  # type: ignore[assignment]
        return found

    def fits(self, worst: Amounts) -> bool:
        """Whether *worst* can be reserved now. Raises ``BudgetExceeded`` if it never can."""
        room = True
        for limit, name, spent, reserved, asked in zip(
            self.limits, Amounts._fields, self.spent, self.reserved, worst, strict=True
        ):
            if limit is None or not asked:
                continue
            if spent + asked > limit:
                raise _exceeded(name, limit, spent, reserved, asked)
            room = room and spent + reserved + asked <= limit
        return room

    def book(self, spent: Amounts, reserved: Amounts) -> None:
        """Add to what is spent and to what is reserved; either may be negative."""
        self.spent = Amounts(*(a + b for a, b in zip(self.spent, spent, strict=True)))
        self.reserved = Amounts(*(a + b for a, b in zip(self.reserved, reserved, strict=True)))


def _exceeded(name: str, limit: int, spent: int, reserved: int, asked: int) -> BudgetExceeded:
    return BudgetExceeded(
        f"the budget of {limit} {_UNITS[name]} has {limit - spent} left, and this call may take "
        f"{asked}; it was not sent",
        limit=name, most=limit, spent=spent, reserved=reserved, asked=asked,
    )  # fmt: skip


@dataclass(slots=True)
class Reservation:
    """What one attempt may use, until it is settled."""

    accounts: list[Account]
    worst: Amounts
    desk: Desk
    _settled: bool = field(default=False, repr=False)

    def settle(self, used: Amounts) -> None:
        """*used* is spent, the rest is free again; once."""
        if self._settled:
            return
        self._settled = True
        back = Amounts(*(-each for each in self.worst))
        for account in self.accounts:
            account.book(used, back)
        self.desk.look(self.accounts[-1])


class _Waiting(NamedTuple):
    """Who waits for room, in which accounts and for how much."""

    accounts: list[Account]
    worst: Amounts
    turn: asyncio.Future[None]


class Desk:
    """Where the calls of one run reserve; who has to wait, waits in the order of asking.

    ``late`` is the account of a run that was given a budget only when it ran.
    """

    def __init__(self) -> None:
        self._queues: dict[Account, deque[_Waiting]] = {}  # by the outermost account
        self.late: Account | None = None

    def allow(self, account: Account, allowance: Allowance) -> None:
        """Have *account*, the outermost of all calls, hold *allowance*: also for who waits."""
        account.allow(allowance)
        self.look(account)

    def charged(self, account: Account | None) -> Account | None:
        """Where a call of *account* is charged: ``late`` is around all that there are."""
        late = self.late
        if late is None or account is None:
            return late if account is None else account
        outermost = account.levels()[-1]
        if outermost is not late:
            outermost.around = late
        return account

    async def reserve(self, account: Account, worst: Amounts) -> Reservation:
        """Wait until *worst* fits in *account*, and reserve it. Raises ``BudgetExceeded``."""
        accounts = account.levels()
        if accounts[-1] not in self._queues and _fit(accounts, worst):
            _reserve(accounts, worst)
        else:
            await self._wait(accounts, worst)
        return Reservation(accounts, worst, self)

    def try_reserve(self, account: Account, worst: Amounts) -> Reservation | None:
        """Reserve now, or not at all."""
        accounts = account.levels()
        try:
            if accounts[-1] in self._queues or not _fit(accounts, worst):
                return None
        except BudgetExceeded:
            return None
        _reserve(accounts, worst)
        return Reservation(accounts, worst, self)

    async def _wait(self, accounts: list[Account], worst: Amounts) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outermost = accounts[-1]
        self._queues.setdefault(outermost, deque()).append(_Waiting(accounts, worst, turn))
        self.look(outermost)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                Reservation(accounts, worst, self).settle(_NONE)
            else:
                self.look(outermost)
            raise

    def look(self, outermost: Account) -> None:
        """Let in who has room now; who has none holds up those who want it of the same account."""
        queue = self._queues.pop(outermost, None)
        if queue is None:
            return
        blocked: set[Account] = set()
        left: deque[_Waiting] = deque()
        while queue and outermost not in blocked:
            waiting = queue.popleft()
            if not waiting.turn.done():
                self._try(waiting, blocked, left)
        left += queue
        if left:
            self._queues[outermost] = left

    def _try(self, waiting: _Waiting, blocked: set[Account], left: deque[_Waiting]) -> None:
        accounts, worst, turn = waiting
        try:
            room = _fit(accounts, worst)
        except BudgetExceeded as error:
            turn.set_exception(error)
            return
        if room and blocked.isdisjoint(accounts):
            _reserve(accounts, worst)
            turn.set_result(None)
            return
        blocked.update(account for account in accounts if not account.fits(worst))
        left.append(waiting)


def _fit(accounts: list[Account], worst: Amounts) -> bool:
    return all([account.fits(worst) for account in accounts])  # all raise before one says no


def _reserve(accounts: list[Account], worst: Amounts) -> None:
    for account in accounts:
        account.book(_NONE, worst)


class Prices:
    """What requests may use, and what they have used."""

    def __init__(
        self, profile: Profile, prices: Mapping[str, Price], caching: PrefixCaching | None
    ) -> None:
        self._profile, self._prices, self._caching = profile, prices, caching
        self._ratio = 1.0

    def worst(self, request: Request, account: Account) -> Amounts:
        """The most that *request* may use. Raises ``BudgetExceeded`` when that is not limited."""
        limited = [any(level.limits[i] is not None for level in account.levels()) for i in (0, 1)]
        if not any(limited):
            return Amounts(0, 0, 1)
        prompt = self.prompt_tokens(request)
        prompt *= len(request.sampling.choices or (1,))  # each may be scored behind a prompt
        answer = self._longest(request, prompt) * max(request.n, 1)
        cost = 0
        if limited[0]:
            price = self._price(request.model)
            cost = math.ceil(prompt * price.prompt + answer * price.answer)
        return Amounts(cost, prompt + answer, 1)

    def used(self, request: Request, response: Response, worst: Amounts) -> Amounts:
        """What was used; the worst case of what the backend does not say."""
        usage = response.usage
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            tokens, cost = worst.tokens, worst.cost
        else:
            self._learn(request, usage.prompt_tokens)
            tokens = usage.prompt_tokens + usage.completion_tokens
            cost = self._paid(request, response) if worst.cost else 0
        if response.cost is not None:
            cost = response.cost
        return Amounts(cost, tokens, worst.calls)

    def recorded(self, request: Request, response: Response, requests: int) -> Amounts:
        """What an earlier run used for *response*; estimated where the backend did not say."""
        usage, cost = response.usage, response.cost
        prompt, answer = usage.prompt_tokens, usage.completion_tokens
        if prompt is None:
            prompt = self.prompt_tokens(request)
        if answer is None:
            answer = sum(_tokens(sample.text) for sample in response.samples)
        if cost is None and (self._prices.get(request.model) or self._prices.get("")):
            cost = self._paid(request, response)
        return Amounts(cost or 0, prompt + answer, requests)

    def prompt_tokens(self, request: Request) -> int:
        """The tokens of the prompt: counted where the backend can, else estimated."""
        if self._caching is not None:
            return len(self._caching.prompt_tokens(request))
        return math.ceil(estimated(request) * self._ratio)

    def _learn(self, request: Request, tokens: int) -> None:
        """Text that takes more tokens than was thought makes the next estimates larger."""
        if self._caching is None and not any(m.media for m in request.messages or ()):
            self._ratio = max(self._ratio, tokens / estimated(request))

    def _longest(self, request: Request, prompt: int) -> int:
        sampling, context = request.sampling, self._profile.context
        if sampling.choices:
            return sum(_tokens(choice) for choice in sampling.choices)
        if sampling.max_tokens is not None:
            return sampling.max_tokens
        if context is not None:
            return max(context - prompt, 0)
        raise BudgetExceeded(
            f"nobody says how long an answer of {self._profile.name!r} may be, so no budget of "
            "tokens or cost can hold; give max_tokens, to gen() or as a setting",
            limit="tokens",
        )

    def _price(self, model: str) -> Price:
        price = self._prices.get(model) or self._prices.get("")
        if price is None:
            raise BudgetExceeded(
                f"there is no price for {model or 'the default model'!r}, so no budget of cost can "
                f'hold; write [prices] "{model}" = {{ prompt = …, answer = … }} per million tokens',
                limit="cost",
            )
        return price

    def _paid(self, request: Request, response: Response) -> int:
        price, usage = self._price(request.model), response.usage
        cached = usage.cached_tokens or 0 if price.cached is not None else 0
        prompt = (usage.prompt_tokens or 0) - cached
        answer = (usage.completion_tokens or 0) * price.answer
        return math.ceil(prompt * price.prompt + cached * (price.cached or 0) + answer)


def estimated(request: Request) -> int:
    """How many tokens a prompt has: a third of its bytes, and some around each message."""
    sampling = request.sampling
    size = sum(map(_tokens, sampling.tools)) + _tokens(sampling.schema or "")
    for message in request.messages or ():
        size += _tokens(message.content) + _MEDIUM * len(message.media)
        size += sum(_tokens(call.arguments) for call in message.tool_calls)
    return size


def _tokens(text: str) -> int:
    """What a piece of text takes with what is around it."""
    return _AROUND + math.ceil(len(text.encode("utf-8", "surrogatepass")) / 3)
