"""The cost of a run's calls, in four kinds that are never added up.

*Spent* was paid for: answers, and failed attempts that reported their usage. *Reused* is the price
that recorded answers had when they were paid for, so what a rerun saved. *In doubt* may have been
paid besides, at most: attempts that were sent and whose end is not known. *Estimated* is for
answers that do not report their usage, from the length of their texts.

Invariant: a number that is not known is counted as unknown, never as 0. Money is in millionths of
the currency unit of the prices, and comes from the answer itself or from the price of its tokens.
The amount in doubt is what a budget reserves for it, by the same estimate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appl.backend import Response, Usage
from appl.backend.price import (
    NOTHING,
    Price,
    Prices,
    money,
    most_tokens,
    price_for,
    price_of,
    prompt_tokens,
    tokens_in,
    total,
    used_by,
)
from appl.errors import InvalidOption
from appl.tracing.format.sampling import max_tokens, parameters, strings, tier
from appl.tracing.format.totals import Totals, combined

if TYPE_CHECKING:
    from appl.tracing.reading.trace import Attempt, RecordedCall, Trace

_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
CLASSES = ("written_tokens", "written_1h_tokens", "reasoning_tokens")
"""Classes of tokens that not every provider has."""
COUNTED = (*_TOKENS, "cost", *CLASSES)
KINDS = ("spent", "reused", "in_doubt", "estimated")
_MODELS, _OTHERS = 1000, "(others)"


def prices_of(header: Mapping[str, object]) -> dict[str, Price]:
    """The prices in a recorded run's settings, by model and by its name within the backend."""
    settings, prices = header.get("settings"), dict[str, Price]()
    begins = f"{header.get('backend')}/"
    for key, row in settings.items() if isinstance(settings, dict) else ():
        name = key.removeprefix("prices.")
        price = _price(row) if name != key else None
        if price is not None:
            prices[name] = price
            if name.startswith(begins):
                prices[name.removeprefix(begins)] = price
    return prices


def _price(row: object) -> Price | None:
    try:
        return price_of(row)
    except InvalidOption:  # whatever a file holds
        return None


class Density:
    """The ratio of actual to estimated prompt tokens, as the answers of a run showed it.

    A budget's estimates grow with what is seen, in each process anew, and so must those of a
    reader: what an attempt may take was reserved with what the answers before it had shown.
    """

    def __init__(self) -> None:
        self._shown: dict[int, list[tuple[int, float]]] = {}
        self._grown: dict[int, list[tuple[int, float]]] = {}

    def learn(self, call: RecordedCall) -> None:
        """Note the prompt tokens that the answer to *call* reports."""
        response = call.response
        if response is None or call.source is not None or call.n != 1 or response.reused:
            return
        tokens, messages = response.usage.prompt_tokens, call.messages
        if tokens is None or response.usage.completion_tokens is None or call.ended is None:
            return
        if messages is None or any(message.media for message in messages):
            return
        ratio = tokens / _estimated(call)
        if ratio > 1:
            self._shown.setdefault(call.incarnation, []).append((call.ended, ratio))
            self._grown.pop(call.incarnation, None)

    def at(self, incarnation: int, at: int | None) -> float:
        """The factor of the estimates of the process *incarnation* at the time *at*."""
        if incarnation not in self._shown:
            return 1.0
        if incarnation not in self._grown:
            most, grown = 1.0, []
            for time, ratio in sorted(self._shown[incarnation]):
                most = max(most, ratio)
                grown.append((time, most))
            self._grown[incarnation] = grown
        densities = self._grown[incarnation]
        before = len(densities) if at is None else bisect_right(densities, (at, math.inf))
        return densities[before - 1][1] if before else 1.0


@dataclass(slots=True)
class Terms:
    """The facts of a record that decide the cost of its calls.

    The ``prices``; how many tokens the model's ``context`` has; whether its texts are ``legible``,
    and not digests in place of them; how dense they were; and which calls are in batches.
    """

    prices: Prices = field(default_factory=dict)
    context: int | None = None
    legible: bool = True
    density: Density = field(default_factory=Density)
    batched: Set[str] = frozenset()


def terms_of(header: Mapping[str, object], *, opened: bool = False) -> Terms:
    """The terms that *header* states; *opened* where a private record was read with its key."""
    profile = header.get("profile")
    context = profile.get("context") if isinstance(profile, dict) else None
    is_number = isinstance(context, int) and not isinstance(context, bool)
    legible = opened or "privacy" not in header
    return Terms(prices_of(header), context if is_number else None, legible)


@dataclass(slots=True)
class UsageSum:
    """Sums over ``calls``: tokens and cost as far as they are known.

    ``unknown`` counts, for each of these, the calls that do not say.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: int = 0
    written_tokens: int = 0
    written_1h_tokens: int = 0
    reasoning_tokens: int = 0
    unknown: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def add(self, usage: Usage, cost: int | None) -> None:
        """Count one more call."""
        self.calls += 1
        values = (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens,
            cost,
            usage.written_tokens,
            usage.written_1h_tokens,
            usage.reasoning_tokens,
        )
        for name, value in zip(COUNTED, values, strict=True):
            if value is None:
                self.unknown[name] += 1
            else:
                setattr(self, name, getattr(self, name) + value)

    @property
    def open_ended(self) -> bool:
        """True if the tokens of a call are not known, so that the sums are too small."""
        return any(self.unknown[name] for name in COUNTED[:2])

    def known(self, name: str) -> int | None:
        """The sum of *name* (of ``COUNTED``), ``None`` when no call says anything about it."""
        if self.calls and self.unknown[name] == self.calls:
            return None
        value: int = getattr(self, name)
        return value

    def as_data(self) -> dict[str, object]:
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
    at least nothing and at most what it says, unless that is open-ended.
    """

    terms: Terms = field(default_factory=Terms)
    spent: UsageSum = field(default_factory=UsageSum)
    reused: UsageSum = field(default_factory=UsageSum)
    in_doubt: UsageSum = field(default_factory=UsageSum)
    estimated: UsageSum = field(default_factory=UsageSum)
    samples: int = 0
    models: dict[str, Costs] = field(default_factory=dict)

    def add(self, call: RecordedCall) -> None:
        """Count *call*, with all its attempts."""
        model = call.model or (call.response.model if call.response else "")
        own = self.models.get(model)
        if own is None:
            model = model if len(self.models) < _MODELS else _OTHERS
            own = self.models.setdefault(model, Costs(self.terms))
        for kind, usage, cost in entries(call, self.terms):
            for costs in (self, own):
                getattr(costs, kind).add(usage, cost)
        if call.response is not None and call.response.reused:
            self.samples += call.response.reused
            own.samples += call.response.reused

    def as_data(self) -> dict[str, object]:
        """The costs as JSON-ready data."""
        data = {kind: getattr(self, kind).as_data() for kind in KINDS}
        if not self.models:
            return {**data, "cached_samples": self.samples}
        models = {name: own.as_data() for name, own in sorted(self.models.items())}
        return {**data, "cached_samples": self.samples, "models": models}

    @property
    def is_free(self) -> bool:
        """True if nothing of it was or may have been paid for."""
        kinds = (self.spent, self.in_doubt, self.estimated)
        return not any(kind.cost or kind.unknown["cost"] for kind in kinds)

    def line(self) -> str:
        """The four kinds on one line for a human; empty kinds are left out."""
        return "; ".join(
            f"{kind.replace('_', ' ')} {shown(getattr(self, kind), kind)}"
            for kind in KINDS
            if kind == "spent" or getattr(self, kind).calls
        )


def of(trace: Trace, prices: Prices | None = None) -> Costs:
    """The costs of all calls in *trace*, also of those that a later process repeated.

    *prices* replace those that the run's settings held.
    """
    terms = terms_of(trace.header, opened=trace.opened)
    terms.prices = {**terms.prices, **(prices or {})}
    terms.batched = trace.batched
    return of_calls(trace.paid_calls(), terms)


def of_calls(calls: Sequence[RecordedCall], terms: Terms | None = None) -> Costs:
    """The costs of *calls*."""
    costs = Costs(terms or Terms())
    if any(len(call.attempts) > (call.response is not None) for call in calls):
        for call in calls:
            costs.terms.density.learn(call)
    for call in calls:
        costs.add(call)
    return costs


def of_totals(models: Mapping[str, Totals], terms: Terms) -> Costs | None:
    """The costs of a run by its totals; ``None`` if only its calls can tell.

    The totals tell where each call named its model, was sent and answered once, and says what it
    took.
    """
    costs = Costs(terms, _spent(combined(models.values())))
    costs.models = {name: Costs(terms, _spent(totals)) for name, totals in models.items()}
    is_complete = all(name and _tells(totals, terms) for name, totals in models.items())
    return costs if is_complete else None


def _tells(totals: Totals, terms: Terms) -> bool:
    is_single_attempt = totals.calls == totals.answered == totals.attempts
    elsewhere = totals.attempts_failed or totals.reused or totals.recalled or totals.in_doubt
    unknown = totals.unknown
    silent = unknown["prompt_tokens"] and unknown["completion_tokens"] and totals.cost_unknown
    priced = terms.prices and totals.cost_unknown
    return is_single_attempt and not (elsewhere or silent or priced)


def _spent(totals: Totals) -> UsageSum:
    silent = {name: totals.calls - reported for name, reported in totals.classes_known.items()}
    unknown = {**totals.unknown, "cost": totals.cost_unknown, **silent}
    return UsageSum(
        totals.calls, cost=totals.cost, unknown=unknown, **totals.tokens, **totals.classes
    )


Entry = tuple[str, Usage, int | None]
"""A kind of ``KINDS``, what was used, and its cost if that is known."""


def entries(call: RecordedCall, terms: Terms) -> Iterable[Entry]:
    """The entries that *call* adds to the four kinds, one for each attempt that may have cost."""
    price = price_for(terms.prices, call.model, call.response.model if call.response else "")
    if call.source is not None:
        yield _again(call, price)
        return
    yield from _failed(call, price, terms)
    response = call.response
    if response is None or response.reused >= len(response.samples):
        return
    usage = response.usage
    if usage.prompt_tokens is None and usage.completion_tokens is None and response.cost is None:
        answer: int | None = None
        if terms.legible:
            answer = sum(
                tokens_in(sample.text)
                + (tokens_in(sample.reasoning) if sample.reasoning else 0)
                + sum(tokens_in(call.arguments) for call in sample.tool_calls)
                for sample in response.samples
            )
        guess = Usage(_prompt_tokens(call, terms), answer)
        yield "estimated", guess, price.cost(guess) if price else None
        return
    yield "spent", usage, _cost(response, price)


def _cost(response: Response, price: Price | None) -> int | None:
    if response.cost is not None or price is None:
        return response.cost
    return price.cost(response.usage)


def _again(call: RecordedCall, price: Price | None) -> Entry:
    """The entry of an answer taken from another run; the user's own answers cost nothing."""
    if call.source == "pinned" or call.response is None:
        return "reused", Usage(0, 0, 0), 0
    return "reused", call.response.usage, _cost(call.response, price)


def _failed(call: RecordedCall, price: Price | None, terms: Terms) -> Iterable[Entry]:
    """The entries of failed attempts: those that report their usage, and those in doubt."""
    silent = [attempt for attempt in call.attempts if attempt.error is None]
    for attempt in call.attempts:
        if attempt.error is not None:
            yield from _attempt(call, attempt, attempt.error, price, terms)
    if call.response is not None:  # a backend may be asked for each sample by itself
        del silent[: max(len(call.response.samples) - call.response.reused, 1)]
    elif call.outcome == "failed" and call.error is not None and silent:
        yield from _attempt(call, silent.pop(0), call.error, price, terms)
    for attempt in silent:
        yield _doubtful(call, attempt, price, terms)


def _attempt(
    call: RecordedCall, attempt: Attempt, error: BaseException, price: Price | None, terms: Terms
) -> Iterable[Entry]:
    used = used_by(error)
    if used is None:
        yield _doubtful(call, attempt, price, terms)
    elif used != NOTHING:
        yield "spent", used, price.cost(used) if price else None


def _doubtful(call: RecordedCall, attempt: Attempt, price: Price | None, terms: Terms) -> Entry:
    """The most that one attempt may have used, as a budget reserves it.

    Where the record does not say how long the prompt was, or how long the answer may have been,
    that is unknown, and the cost with it.
    """
    sampling, context = call.sampling, terms.context
    prompt = _prompt_tokens(call, terms, attempt.at)
    if prompt is None:  # what of the context is left for the answer is not known either
        context = None
    choices = strings(sampling, "choices")
    prompt_most, answer = most_tokens(prompt or 0, call.n, choices, max_tokens(sampling), context)
    is_withheld = "redacted" in parameters(sampling)  # as in a private trace
    used = Usage(None if prompt is None else prompt_most, None if is_withheld else answer)
    if price is None or used.prompt_tokens is None or used.completion_tokens is None:
        return "in_doubt", used, None
    way = tier(sampling) or ("batch" if call.address in terms.batched else "")
    return "in_doubt", used, price.most(used.prompt_tokens, used.completion_tokens, way)


def _prompt_tokens(call: RecordedCall, terms: Terms, at: int | None = None) -> int | None:
    """The estimated prompt tokens of *call*, with the density known at the time *at*.

    ``None`` if its text was not read, or digests stand in its place.
    """
    if call.messages is None or not terms.legible:
        return None
    return math.ceil(_estimated(call) * terms.density.at(call.incarnation, at))


def _estimated(call: RecordedCall) -> int:
    schema = "".join(strings(call.sampling, "schema"))
    return prompt_tokens(call.messages, strings(call.sampling, "tools"), schema)


def shown(amount: UsageSum, kind: str = "spent") -> str:
    """*amount* for a human: money, and tokens."""
    if not amount.calls:
        return "nothing"
    most = "about " if kind == "estimated" else ""
    if kind == "in_doubt":
        most = "at least " if amount.open_ended else "at most "
    words = [_tokens(amount, name) for name in COUNTED[:2]]
    if amount.known("cost") is None:
        return most + ", ".join([*words, "cost unknown"])
    certain, unknown = amount.known("cost"), amount.unknown["cost"]
    cost = total(certain, unknown)
    if most and unknown:  # which says already what kind of bound a sum is
        cost = f"{money(certain)} and an unknown rest"
    return most + ", ".join([cost, *words])


def _tokens(amount: UsageSum, name: str) -> str:
    """A sum as text; ``+?`` says that some calls do not say theirs."""
    value, word = amount.known(name), name.replace("_", " ")
    if value is None:
        return f"? {word}"
    return f"{value}{'+?' if amount.unknown[name] else ''} {word}"
