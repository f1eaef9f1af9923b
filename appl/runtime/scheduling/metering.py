"""The usage of requests as accounts count it: the worst case before, the measured amount after.

Invariant: what an attempt is charged is never more than its worst case, as long as the backend says
that it used no more than was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from appl.backend import PrefixCaching, Profile, Request, Response, Sampling, Usage
from appl.backend.price import (
    NOTHING,
    Overridden,
    Price,
    most_tokens,
    price_for,
    prompt_tokens,
    tokens_in,
    used_by,
)
from appl.errors import BudgetExceeded
from appl.runtime.scheduling.accounts import Account, Amounts

_NONE = Amounts()


class Meter:
    """Measures the requests to one backend, by the *prices* of its models.

    *tier* is the way of service of a request that names none.
    """

    def __init__(
        self,
        profile: Profile,
        prices: Overridden,
        caching: PrefixCaching | None,
        tier: Callable[[Request], str] | None = None,
    ) -> None:
        self._tier = tier
        self._profile, self._prices, self._caching = profile, prices, caching
        self._ratio = 1.0

    def worst(self, request: Request, account: Account, streams: bool = False) -> Amounts:
        """The most that *request* may use. Raises ``BudgetExceeded`` when that is not limited.

        One that *streams* has the usual way of service, unless it names one.
        """
        limited = [any(level.limits[i] is not None for level in account.levels()) for i in (0, 1)]
        if not any(limited):
            return Amounts(0, 0, 1)
        sampling, context = request.sampling, self._profile.context
        prompt, answer = most_tokens(
            self.prompt_tokens(request),
            request.n,
            sampling.choices or (),
            sampling.max_tokens if sampling.dimensions is None else 0,
            context,
        )
        if answer is None:
            raise BudgetExceeded(
                f"nobody says how long an answer of {self._profile.name!r} may be, so no budget of "
                "tokens or cost can hold; give max_tokens, to gen() or as a setting",
                limit="tokens",
            )
        cost = 0
        if limited[0]:
            reuse, tier = request.reuse, _tier(sampling)
            if not tier and self._tier is not None and not streams:
                tier = self._tier(request)
            hour = reuse is not None and reuse.needs_an_hour
            cost = self._price(request.model).most(prompt, answer, tier, hour=hour)
        return Amounts(cost, prompt + answer, 1)

    def priced(self, request: Request, response: Response) -> Response:
        """A live answer with its cost, by the order of ``Overridden.cost``."""
        if response.cost is not None and not self._prices.own:
            return response
        cost = self._prices.cost(request.model or self._profile.default_model or "", response)
        return response if cost == response.cost else replace(response, cost=cost)

    def used(self, request: Request, response: Response, worst: Amounts | None) -> Amounts:
        """The usage of a priced answer; the worst case of what the backend does not report.

        Without *worst* nothing is counted.
        """
        if worst is None:
            return _NONE
        usage = response.usage
        # On the I/O loop alone, as every answer is: what one answer teaches holds for the estimates
        # of all calls that are admitted after it, and amounts that are reserved stay as they are.
        if (
            usage.prompt_tokens is not None
            and usage.completion_tokens is not None
            and self._caching is None
            and not any(message.media for message in request.messages or ())
        ):
            self._ratio = max(self._ratio, usage.prompt_tokens / estimated(request))
        return _charged(usage, response.cost, worst)

    def failed(self, request: Request, error: BaseException, worst: Amounts | None) -> Amounts:
        """The usage of an attempt that failed with *error*; the worst case if it is unknown.

        Without *worst* nothing is counted.
        """
        if worst is None:
            return _NONE
        usage = used_by(error)
        if usage == NOTHING:
            return _NONE
        price = price_for(self._prices, request.model)
        usage = usage or Usage()
        return _charged(usage, None if price is None else price.cost(usage), worst)

    def recorded(self, request: Request, response: Response, requests: int) -> Amounts:
        """The usage of *response* in an earlier run; estimated where it was not reported."""
        usage, cost = response.usage, response.cost
        prompt, answer = usage.prompt_tokens, usage.completion_tokens
        if prompt is None:
            prompt = self.prompt_tokens(request)
        if answer is None:
            answer = sum(tokens_in(sample.text) for sample in response.samples)
        price = price_for(self._prices, request.model)
        if cost is None and price is not None:
            cost = price.cost(replace(usage, prompt_tokens=prompt, completion_tokens=answer))
        return Amounts(cost, prompt + answer, requests)

    def prompt_tokens(self, request: Request) -> int:
        """The tokens of the prompt: counted where the backend can, else estimated."""
        if self._caching is not None:
            return len(self._caching.prompt_tokens(request))
        return math.ceil(estimated(request) * self._ratio)

    def tokens(self, request: Request) -> int:
        """The tokens of the prompt and of the longest answer that was asked for."""
        longest = (request.sampling.max_tokens or 0) * max(request.n, 1)
        return self.prompt_tokens(request) + longest

    def _price(self, model: str) -> Price:
        model = model or self._profile.default_model or ""
        price = price_for(self._prices, model)
        if price is None:
            name = f"{self._profile.name}/{model}" if model else ""
            raise BudgetExceeded(
                f"there is no price for {name or 'the default model'!r}, so no budget of cost can "
                f'hold; write [prices] "{name}" = {{ prompt = …, answer = … }} per million tokens',
                limit="cost",
            )
        return price


def _tier(sampling: Sampling) -> str:
    """The way of service that is asked for, ``""`` for the usual one."""
    tier = next((value for name, value in sampling.extra if name == "service_tier"), None)
    return tier if isinstance(tier, str) and tier not in ("auto", "default") else ""


def _charged(usage: Usage, cost: int | None, worst: Amounts) -> Amounts:
    """The amounts that a budget takes for *usage*: the worst case of what is not known."""
    prompt, answer = usage.prompt_tokens, usage.completion_tokens
    tokens = worst.tokens if prompt is None or answer is None else prompt + answer
    if cost is None and worst.cost:
        cost = worst.cost
    return Amounts(cost, tokens, worst.calls)


def tokens_of(response: Response) -> int | None:
    """The number of tokens of *response* in all; ``None`` if the backend does not report it."""
    usage = response.usage
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return usage.prompt_tokens + usage.completion_tokens


def estimated(request: Request) -> int:
    """The number of tokens of a prompt, estimated from the length of its texts."""
    sampling = request.sampling
    return prompt_tokens(request.messages, sampling.tools, sampling.schema or "")
