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

KINDS = ("prompt", "answer", "cached")
_AROUND = 8
_MEDIUM = 1600
"""The tokens of an image or a sound: those of the largest one that providers do not shrink."""
_EXACT = 1_000_000
"""The number of trillionths in a millionth, and of millionths in a unit."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens, in a currency unit.

    ``prompt``, ``answer`` and ``cached`` are the prices of tokens of the prompt, of the answer, and
    of the cached part of the prompt (``None``: as the rest of it). If a provider charges more for
    tokens ``written`` into its cache, the worst case of a call counts that price. A prompt of more
    than ``over`` tokens has the price ``beyond``. Raises ``InvalidOption`` for a value that is no
    amount of money.
    """

    prompt: float
    answer: float
    cached: float | None = None
    written: float | None = None
    over: int | None = None
    beyond: Price | None = None
    _per_token: tuple[int, int, int] = field(init=False, repr=False, compare=False)
    _dearest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        cached = self.prompt if self.cached is None else self.cached
        per_token = (
            _exact("prompt", self.prompt),
            _exact("answer", self.answer),
            _exact("cached", cached),
        )
        written = per_token[0] if self.written is None else _exact("written", self.written)
        object.__setattr__(self, "_per_token", per_token)
        object.__setattr__(self, "_dearest", max(per_token[0], per_token[2], written))

    @property
    def is_free(self) -> bool:
        """True if no call costs anything, however many tokens it takes."""
        return not any(self._per_token) and not self._dearest and self.beyond is None

    def cost(self, usage: Usage) -> int | None:
        """The cost of *usage* in millionths, ``None`` if it does not say enough."""
        if self.is_free:
            return 0
        prompt, answer = usage.prompt_tokens, usage.completion_tokens
        if prompt is None or answer is None:
            return None
        cached = min(usage.cached_tokens or 0, prompt)
        for_prompt, for_answer, for_cached = self._for(prompt)._per_token
        return _up((prompt - cached) * for_prompt + cached * for_cached + answer * for_answer)

    def most(self, prompt: int, answer: int) -> int:
        """The highest cost of so many tokens, in millionths, however many of them are cached."""
        return _up(self.trillionths(prompt, answer))

    def trillionths(self, prompt: int, answer: int) -> int:
        """The unrounded :meth:`most`, which also orders small amounts."""
        price = self._for(prompt)
        return prompt * price._dearest + answer * price._per_token[1]

    def _for(self, prompt: int) -> Price:
        """The price that applies to a prompt of so many tokens."""
        if self.over is None or self.beyond is None or prompt <= self.over:
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

    def cost(self, asked: str, response: Response) -> int | None:
        """The cost of a live answer in millionths, ``None`` if it is unknown.

        Every backend uses this order: the user's own price of the model; the cost reported with the
        answer; the price that the backend brought; the user's price of every other model. The model
        is the *asked* one, otherwise the one that answered.
        """
        models = tuple(filter(None, (asked, response.model)))
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
    """The price in a *row* of a table: ``prompt`` and ``answer``, perhaps ``cached``.

    Raises ``InvalidOption``.
    """
    if not isinstance(row, Mapping):
        raise InvalidOption("a price is a table like {prompt = 1.25, answer = 10.0}")
    for name, value in row.items():
        if name not in KINDS:
            known = ", ".join(KINDS)
            raise InvalidOption(f"unknown {name!r}{nearest(str(name), KINDS)} (known: {known})")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidOption(f"{name} must be a number of at least 0, got {value!r}")
    if "prompt" not in row or "answer" not in row:
        raise InvalidOption("prompt and answer are both needed")
    return Price(row["prompt"], row["answer"], row.get("cached"))


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


def total(known: int | None, unknown: int) -> str:
    """A sum for a human: the sum of the ``known`` costs, beside so many ``unknown`` ones."""
    if not unknown:
        return money(known)
    return f"at least {money(known)}" if known else "unknown"


def limit_of(units: float) -> int:
    """A limit in *units* of currency, in millionths, rounded down."""
    return _trillionths(units) // _EXACT


def tokens_in(text: str) -> int:
    """An estimate of the tokens of a text with its frame: a third of its bytes."""
    return _AROUND + math.ceil(len(text.encode("utf-8", "surrogatepass")) / 3)


def prompt_tokens(messages: Messages | None, tools: Sequence[str], schema: str) -> int:
    """An estimate of the tokens of a prompt, with its *tools* and its *schema*."""
    return _said(messages) + sum(map(tokens_in, tools)) + tokens_in(schema)


def _said(chain: Messages | None) -> int:
    """The estimate of a chain, cached with each link, so that a growing chat is read once."""
    key, fresh, link = _said, list[Messages](), chain
    while link is not None and key not in link.cache:
        fresh.append(link)
        link = link.parent
    total = 0 if link is None else cast(int, link.cache[key])
    for added in reversed(fresh):
        message = added.message
        total += tokens_in(message.content) + _MEDIUM * len(message.media)
        total += sum(tokens_in(call.arguments) for call in message.tool_calls)
        added.cache[key] = total
    return total


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
    usage = _valid_usage(getattr(error, "usage", None))
    if usage is not None:
        return usage
    return None if _may_have_worked(error) else NOTHING


NOTHING = Usage(0, 0, 0)


def _valid_usage(usage: object) -> Usage | None:
    """The *usage* that came with an error, which may have been read from a file."""
    if not isinstance(usage, tuple | list) or len(usage) != 3:
        return None
    if not all(tokens is None or (isinstance(tokens, int) and tokens >= 0) for tokens in usage):
        return None
    return Usage(*usage)


def _may_have_worked(error: BaseException) -> bool:
    if not isinstance(error, BackendError):
        return True
    if error.worked is not None:
        return error.worked
    if isinstance(error, BackendTimeout) and error.deadline == "connect":
        return False
    return not isinstance(error, UNWORKED)


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
