"""What the calls of a run cost, in four kinds that are never added up.

*Spent* is what was paid for: answers, and failed attempts that said what they used. *Reused* is
what recorded answers cost when they were paid for, so what a rerun saved. *In doubt* is what may
have been paid besides, at most: attempts that were sent and of which nobody heard more. *Estimated*
is for answers that do not say what they used, from the length of their texts.

Invariant: a number that is not known is counted as unknown, never as 0. Money is in millionths of
the currency unit of the prices, and comes from the answer itself or from the price of its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appl.backend import Response, Usage
from appl.errors import InvalidOption
from appl.price import NOTHING, Price, Prices, price_for, price_of, used_by
from appl.prompt import Messages
from appl.tracing.format.sampling import longest

if TYPE_CHECKING:
    from appl.tracing.reading.trace import Call, Trace

COUNTED = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost")
KINDS = ("spent", "reused", "in_doubt", "estimated")
_AROUND, _MEDIUM = 8, 1600
_MODELS, _OTHERS = 1000, "(others)"


def prices_of(header: Mapping[str, Any]) -> dict[str, Price]:
    """The prices that the settings of a recorded run held, also by the name within its backend."""
    settings, found = header.get("settings"), dict[str, Price]()
    begins = f"{header.get('backend')}/"
    for key, row in settings.items() if isinstance(settings, dict) else ():
        name = key.removeprefix("prices.")
        price = _price(row) if name != key else None
        if price is not None:
            found[name] = price
            if name.startswith(begins):
                found[name.removeprefix(begins)] = price
    return found


def _price(row: object) -> Price | None:
    try:
        return price_of(row)
    except InvalidOption:  # whatever a file holds
        return None


@dataclass(slots=True)
class Amount:
    """Sums over ``calls``: tokens and cost as far as they are known.

    ``unknown`` counts, for each of these, the calls that do not say.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: int = 0
    unknown: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def add(self, usage: Usage, cost: int | None) -> None:
        """Count one more call."""
        self.calls += 1
        values = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, cost)
        for name, value in zip(COUNTED, values, strict=True):
            if value is None:
                self.unknown[name] += 1
            else:
                setattr(self, name, getattr(self, name) + value)

    def known(self, name: str) -> int | None:
        """The sum of *name* (of ``COUNTED``), ``None`` when no call says anything about it."""
        if self.calls and self.unknown[name] == self.calls:
            return None
        value: int = getattr(self, name)
        return value

    def as_data(self) -> dict[str, Any]:
        """The sums as JSON-ready data; ``None`` for what no call says."""
        return {
            "calls": self.calls,
            **{name: self.known(name) for name in COUNTED},
            "unknown": dict(self.unknown),
        }


@dataclass(slots=True)
class Costs:
    """The four kinds, of all calls that were added, and by model in ``models``.

    Of very many models those after the first count together, as ``(others)``.
    ``samples`` are samples that a cache gave beside paid ones, at no cost. What is ``in_doubt`` is
    at least nothing and at most what it says.
    """

    prices: Prices = field(default_factory=dict)
    spent: Amount = field(default_factory=Amount)
    reused: Amount = field(default_factory=Amount)
    in_doubt: Amount = field(default_factory=Amount)
    estimated: Amount = field(default_factory=Amount)
    samples: int = 0
    models: dict[str, Costs] = field(default_factory=dict)

    def add(self, call: Call) -> None:
        """Count *call*, with all its attempts."""
        model = call.model or (call.response.model if call.response else "")
        own = self.models.get(model)
        if own is None:
            model = model if len(self.models) < _MODELS else _OTHERS
            own = self.models.setdefault(model, Costs(self.prices))
        for kind, usage, cost in entries(call, self.prices):
            for each in (self, own):
                getattr(each, kind).add(usage, cost)
        if call.response is not None and call.response.reused:
            self.samples += call.response.reused
            own.samples += call.response.reused

    def as_data(self) -> dict[str, Any]:
        """The costs as JSON-ready data."""
        data = {kind: getattr(self, kind).as_data() for kind in KINDS}
        if not self.models:
            return {**data, "cached_samples": self.samples}
        models = {name: own.as_data() for name, own in sorted(self.models.items())}
        return {**data, "cached_samples": self.samples, "models": models}

    def line(self) -> str:
        """All that there is of the four kinds, for a human, on one line."""
        return "; ".join(
            f"{kind.replace('_', ' ')} {shown(getattr(self, kind), kind)}"
            for kind in KINDS
            if kind == "spent" or getattr(self, kind).calls
        )


def of(trace: Trace, prices: Prices | None = None) -> Costs:
    """The costs of all that *trace* holds, also of calls that a later process began again.

    *prices* replace those that the run's settings held.
    """
    return of_calls((*trace.earlier, *trace.calls), prices_of(trace.header) | dict(prices or {}))


def of_calls(calls: Iterable[Call], prices: Prices | None = None) -> Costs:
    """The costs of *calls*."""
    costs = Costs(prices or {})
    for call in calls:
        costs.add(call)
    return costs


Entry = tuple[str, Usage, int | None]
"""A kind of ``KINDS``, what was used, and its cost if that is known."""


def entries(call: Call, prices: Prices) -> Iterable[Entry]:
    """What *call* adds to the four kinds, one entry for each attempt that may have cost."""
    price = _price_of(call, prices)
    if call.source is not None:
        yield _again(call, price)
        return
    yield from _failed(call, price)
    response = call.response
    if response is None or response.reused >= len(response.samples):
        return
    usage = response.usage
    if usage.prompt_tokens is None and usage.completion_tokens is None and response.cost is None:
        guess = Usage(_prompt_tokens(call.messages), _said_tokens(response))
        yield "estimated", guess, price.cost(guess) if price else None
        return
    yield "spent", usage, _cost(response, price)


def _cost(response: Response, price: Price | None) -> int | None:
    if response.cost is not None or price is None:
        return response.cost
    return price.cost(response.usage)


def _again(call: Call, price: Price | None) -> Entry:
    """An answer that was taken from another run; one that the user gave never cost anything."""
    if call.source == "pinned" or call.response is None:
        return "reused", Usage(0, 0, 0), 0
    return "reused", call.response.usage, _cost(call.response, price)


def _failed(call: Call, price: Price | None) -> Iterable[Entry]:
    """The attempts that gave no answer: those that say what they used, and those in doubt."""
    silent = sum(1 for attempt in call.attempts if attempt.error is None)
    for attempt in call.attempts:
        if attempt.error is not None:
            yield from _attempt(call, attempt.error, price)
    if call.response is not None:  # a backend may be asked for each sample by itself
        silent -= max(len(call.response.samples) - call.response.reused, 1)
    elif call.outcome == "failed" and call.error is not None and silent > 0:
        silent -= 1
        yield from _attempt(call, call.error, price)
    for _ in range(silent):
        yield _doubtful(call, price)


def _attempt(call: Call, error: BaseException, price: Price | None) -> Iterable[Entry]:
    used = used_by(error)
    if used is None:
        yield _doubtful(call, price)
    elif used != NOTHING:
        yield "spent", used, price.cost(used) if price else None


def _doubtful(call: Call, price: Price | None) -> Entry:
    """The most that one attempt may have used."""
    prompt, most = _prompt_tokens(call.messages), longest(call.sampling)
    if most is None:
        return "in_doubt", Usage(prompt), None
    answer = most * max(call.n, 1)
    return "in_doubt", Usage(prompt, answer), price.most(prompt, answer) if price else None


def _price_of(call: Call, prices: Prices) -> Price | None:
    return price_for(prices, call.model, call.response.model if call.response else "")


def _prompt_tokens(chain: Messages | None) -> int:
    """About how many tokens a prompt has: a third of its bytes, and some around each message.

    What was found for a chain is kept with it, so that a growing chat is not read again each time.
    """
    key, fresh, link = _prompt_tokens, list[Messages](), chain
    while link is not None and key not in link.cache:
        fresh.append(link)
        link = link.parent
    total = 0 if link is None else int(str(link.cache[key]))
    for each in reversed(fresh):
        said = each.message
        total += _tokens(said.content) + _MEDIUM * len(said.media)
        total += sum(_tokens(call.arguments) for call in said.tool_calls)
        each.cache[key] = total
    return total


def _said_tokens(response: Response) -> int:
    return sum(
        _tokens(sample.text)
        + _tokens(sample.reasoning or "")
        + sum(_tokens(call.arguments) for call in sample.tool_calls)
        for sample in response.samples
    )


def _tokens(text: str) -> int:
    return _AROUND + math.ceil(len(text.encode("utf-8", "surrogatepass")) / 3) if text else 0


def money(millionths: int | None) -> str:
    """An amount of money for a human, ``?`` when it is not known."""
    if millionths is None:
        return "?"
    text = f"{millionths / 1e6:.6f}".rstrip("0")
    whole, _, parts = text.partition(".")
    return f"{whole}.{parts.ljust(2, '0')}"


def shown(amount: Amount, kind: str = "spent") -> str:
    """*amount* for a human: money where it is known, and tokens."""
    if not amount.calls:
        return "nothing"
    most = "at most " if kind == "in_doubt" else "about " if kind == "estimated" else ""
    words = [f"{_plus(amount, name)} {name.replace('_', ' ')}" for name in COUNTED[:2]]
    if amount.known("cost") is not None:
        words.insert(0, _plus(amount, "cost"))
    return most + ", ".join(words)


def _plus(amount: Amount, name: str) -> str:
    """A sum as text; ``+?`` says that some calls do not say theirs."""
    value = amount.known(name)
    text = money(value) if name == "cost" else "?" if value is None else str(value)
    return f"{text}+?" if value is not None and amount.unknown[name] else text
