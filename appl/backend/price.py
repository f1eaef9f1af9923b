"""The cost of calls: prices of tokens, the rule of rounding, and the worst case of a call.

Also the tokens that a failed attempt has used. Budgets and the readers of traces both use this
module, so that they agree.

Invariant: money is counted in integers. A price is exact to a trillionth of the currency unit per
token (six decimals per million), sums of tokens are exact, and each attempt's cost is rounded up to
a millionth: it is never below the real cost, and above it by less than a millionth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol, cast

from appl.backend import Response, Usage
from appl.errors import UNWORKED, BackendError, BackendTimeout, InvalidOption, nearest
from appl.prompt.message import Messages

KINDS = ("prompt", "answer", "cached", "written", "written_1h")
TIERS = ("batch", "flex", "priority")
"""Ways of service that have prices of their own, besides the standard one."""
_AROUND = 8
_MEDIUM = 1600
"""The tokens of an image or a sound: those of the largest one that providers do not shrink."""
_EXACT = 1_000_000
"""The number of trillionths in a millionth, and of millionths in a unit."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens, in a currency unit.

    ``prompt`` and ``answer`` are those of tokens of the prompt and of the answer. ``cached`` is
    that of tokens read from the provider's cache (``None``: as the rest of the prompt), ``written``
    and ``written_1h`` are those of tokens written into it, for its usual time and for an hour
    (``None``: no other price than the rest of the prompt). A prompt of more than ``over`` tokens
    has the price ``beyond``, which is unknown if it is ``None``. ``tiers`` are the prices of other
    ways of service by the names of ``Usage.tier``. Raises ``InvalidOption`` for a value that is no
    amount of money.
    """

    prompt: float
    answer: float
    cached: float | None = None
    written: float | None = None
    over: int | None = None
    beyond: Price | None = None
    written_1h: float | None = None
    tiers: tuple[tuple[str, Price], ...] = ()
    _per_token: tuple[int, int, int] = field(init=False, repr=False, compare=False)
    _written: tuple[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        cached = self.prompt if self.cached is None else self.cached
        prompt = _exact("prompt", self.prompt)
        per_token = prompt, _exact("answer", self.answer), _exact("cached", cached)
        written = prompt if self.written is None else _exact("written", self.written)
        hour = written if self.written_1h is None else _exact("written_1h", self.written_1h)
        object.__setattr__(self, "_per_token", per_token)
        object.__setattr__(self, "_written", (written, hour))

    @property
    def is_free(self) -> bool:
        """True if no call costs anything, however many tokens it takes."""
        free = not any(self._per_token) and not any(self._written)
        return free and self.beyond is None and not self.tiers

    def cost(self, usage: Usage) -> int | None:
        """The cost of *usage* in millionths, ``None`` if it does not say enough.

        It is unknown, too, at a tier without a price, and where tokens that are written cost more
        than others and nobody says how many were.
        """
        if self.is_free:
            return 0
        prompt, answer = usage.prompt_tokens, usage.completion_tokens
        tier = self._at(usage.tier)
        if prompt is None or answer is None or tier is None:
            return None
        price = tier._for(prompt)
        if price is None:
            return None
        for_prompt, for_answer, for_cached = price._per_token
        written_tokens = usage.written_tokens
        if written_tokens is None and price._written[0] > for_prompt:
            return None
        cached = min(usage.cached_tokens or 0, prompt)
        hour = min(usage.written_1h_tokens or 0, prompt - cached)
        written = min(written_tokens or 0, prompt - cached - hour)
        return _up(
            (prompt - cached - written - hour) * for_prompt
            + cached * for_cached
            + written * price._written[0]
            + hour * price._written[1]
            + answer * for_answer
        )

    def most(self, prompt: int, answer: int, tier: str = "", *, hour: bool = False) -> int:
        """The highest cost of so many tokens, in millionths, however many of them are cached.

        With *hour*, tokens may be written into the cache for an hour. A *tier* without a price
        counts as the dearest that there is.
        """
        return _up(self.trillionths(prompt, answer, tier, hour=hour))

    def trillionths(self, prompt: int, answer: int, tier: str = "", *, hour: bool = False) -> int:
        """The unrounded :meth:`most`, which also orders small amounts."""
        at = self._at(tier)
        price = None if at is None else at._for(prompt)
        if price is None:
            every = [self, *(price for _, price in self.tiers)]
            every = [cost for price in every if (cost := price._for(prompt)) is not None]
            return max((price.trillionths(prompt, answer, hour=hour) for price in every), default=0)
        for_prompt, for_answer, for_cached = price._per_token
        dearest = max(for_prompt, for_cached, price._written[0], price._written[1] if hour else 0)
        return prompt * dearest + answer * for_answer

    def _at(self, tier: str) -> Price | None:
        """The price of *tier*, if there is one."""
        return next((price for name, price in self.tiers if name == tier), None) if tier else self

    def _for(self, prompt: int) -> Price | None:
        """The price that applies to a prompt of so many tokens, if it is known."""
        if self.over is None or prompt <= self.over:
            return self
        return self.beyond


Prices = Mapping[str, Price]
"""Prices by name of the model; ``""`` is for every other."""


class Priced(Protocol):
    """A source of prices: a table, or a library that has one."""

    def get(self, model: str, /) -> Price | None:
        """The price of *model*, if it is known."""


@dataclass(frozen=True, slots=True)
class Overridden:
    """The prices that a backend ``brought``, overridden by the user's ``own``.

    The user's price of every other model applies to models without a price from the backend.
    """

    own: Prices
    brought: Priced

    def get(self, model: str, /) -> Price | None:
        """The price of *model*, if it is known."""
        price = self.own.get(model)
        return self.brought.get(model) if price is None else price

    def cost(self, model: str, response: Response) -> int | None:
        """The cost of a live answer in millionths, ``None`` if it is unknown.

        Every backend uses this order: the user's own price of the model; the cost reported with the
        answer; the price that the backend brought; the user's price of every other model. The model
        is the *model* one, otherwise the one that answered.
        """
        models = tuple(filter(None, (model, response.model)))
        own = next(filter(None, map(self.own.get, models)), None) if self.own else None
        cost = None if own is None else own.cost(response.usage)
        if cost is None:
            cost = response.cost
        if cost is not None:
            return cost
        price = price_for(self, *models)
        return None if price is None else price.cost(response.usage)


def price_for(prices: Priced, *models: str) -> Price | None:
    """The price of the first of *models* that has one, or the price of every other."""
    return next(filter(None, map(prices.get, (*models, ""))), None)


def price_of(row: object) -> Price:
    """The price in a *row* of a table: ``prompt`` and ``answer``, perhaps others of ``KINDS``.

    Under the names of ``TIERS`` it may have tables of the same form. Raises ``InvalidOption``.
    """
    if not isinstance(row, Mapping):
        raise InvalidOption("a price is a table like {prompt = 1.25, answer = 10.0}")
    tiers = tuple((name, price_of(row[name])) for name in TIERS if name in row)
    amounts = {name: value for name, value in row.items() if name not in TIERS}
    for name, value in amounts.items():
        if name not in KINDS:
            kinds = ", ".join((*KINDS, *TIERS))
            raise InvalidOption(f"unknown {name!r}{nearest(str(name), KINDS)} (known: {kinds})")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidOption(f"{name} must be a number of at least 0, got {value!r}")
    if "prompt" not in row or "answer" not in row:
        raise InvalidOption("prompt and answer are both needed")
    return Price(**amounts, tiers=tiers)


def millionths(units: float) -> int:
    """An amount in *units* of currency that somebody else computed, rounded up as costs are."""
    return _up(_trillionths(units))


def money(millionths: int | None) -> str:
    """An amount for a human: with cents, or three digits of less than a dollar."""
    if millionths is None:
        return "unknown"
    if not millionths:
        return "$0"
    if millionths >= _EXACT:
        return f"${Decimal(millionths) / _EXACT:,.2f}"
    places = min(6, max(2, 9 - len(str(millionths))))
    whole, _, parts = f"{Decimal(millionths) / _EXACT:.{places}f}".partition(".")
    return f"${whole}.{parts.rstrip('0').ljust(2, '0')}"


def total(total_cost: int | None, unknown: int) -> str:
    """A sum for a human: the sum of the ``total_cost`` costs, beside so many ``unknown`` ones."""
    if not unknown:
        return money(total_cost)
    return f"at least {money(total_cost)}" if total_cost else "unknown"


def limit_of(units: float) -> int:
    """A limit in *units* of currency, in millionths, rounded down."""
    return _trillionths(units) // _EXACT


def tokens_in(text: str) -> int:
    """An estimate of the tokens of a text with its frame: a third of its bytes."""
    return _AROUND + math.ceil(len(text.encode("utf-8", "surrogatepass")) / 3)


def prompt_tokens(messages: Messages | None, tools: Sequence[str], schema: str) -> int:
    """An estimate of the tokens of a prompt, with its *tools* and its *schema*.

    Each link of the chain has its own in the cache, so that a growing chat is read once.
    """
    key, fresh, link = prompt_tokens, list[Messages](), messages
    while link is not None and key not in link.cache:
        fresh.append(link)
        link = link.parent
    total = 0 if link is None else cast(int, link.cache[key])
    for added in reversed(fresh):
        message = added.message
        total += tokens_in(message.content) + _MEDIUM * len(message.media)
        total += sum(tokens_in(call.arguments) for call in message.tool_calls)
        added.cache[key] = total
    return total + sum(map(tokens_in, tools)) + tokens_in(schema)


def most_tokens(
    prompt: int, n: int, choices: Sequence[str], max_tokens: int | None, context: int | None
) -> tuple[int, int | None]:
    """The largest numbers of tokens of prompts and of answers in one attempt.

    The prompt has *prompt* tokens. Each of the *choices* may be scored after a prompt of its own.
    The number for answers is ``None`` if neither *max_tokens* nor the model's *context* limits it.
    """
    if choices:
        return prompt * len(choices), sum(map(tokens_in, choices)) * max(n, 1)
    if max_tokens is None and context is not None:
        max_tokens = max(context - prompt, 0)
    return prompt, None if max_tokens is None else max_tokens * max(n, 1)


def used_by(error: BaseException) -> Usage | None:
    """The usage that must be paid for an attempt that failed with *error*.

    ``NOTHING`` if no model can have worked on the request, because it was not sent, or turned away.
    ``None`` if nobody knows, so that anything up to its worst case may have to be paid.
    """
    usage = getattr(error, "usage", None)  # which may have been read from a file
    if (
        isinstance(usage, tuple | list)
        and 3 <= len(usage) <= 5
        and all(tokens is None or (isinstance(tokens, int) and tokens >= 0) for tokens in usage)
    ):
        return Usage(*usage)
    if not isinstance(error, BackendError):
        return None
    if error.worked is not None:
        return None if error.worked else NOTHING
    if isinstance(error, BackendTimeout) and error.deadline == "connect":
        return NOTHING
    return NOTHING if isinstance(error, UNWORKED) else None


NOTHING = Usage(0, 0, 0)


def _exact(name: str, price: float) -> int:
    """Trillionths of a unit per token, from units per million tokens."""
    if not (isinstance(price, int | float) and 0 <= price < math.inf):
        raise InvalidOption(f"prices: {name} must be a number of at least 0, got {price!r}")
    return round(price * _EXACT)


def _trillionths(units: float) -> int:
    """Trillionths in *units*: a double is off by less than half of one below some 1,000 units."""
    return round(units * _EXACT * _EXACT)


def _up(trillionths: int) -> int:
    return -(-trillionths // _EXACT)


FREE = Price(0, 0)


class Free:
    """The prices of a backend that runs its models on the user's own machine: nothing."""

    def get(self, model: str, /) -> Price:
        """The price of *model*: nothing."""
        return FREE
