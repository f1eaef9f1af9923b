"""What a run says that it cost, against the invoice of a seller's twin: equal to the last token.

The twin bills by its own copy of the published prices, in exact fractions. Read on 2026-11-27:
https://developers.openai.com/api/docs/pricing and
https://platform.claude.com/docs/en/about-claude/pricing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

import appl
from appl import gen, ppl
from appl.backend import Emit, Profile, Request, Response, Usage
from appl.backend.price import Price, price_of
from appl.backend.price_table import Seller
from appl.testing import Run
from appl.tracing import Recorder, Trace, profile_data
from appl.tracing.explaining import costs
from appl_backends.openai.answer import ChatReader, usage_of


class Rates(NamedTuple):
    """The published prices of a million tokens: plain, read, written, for an hour, and output."""

    plain: str
    read: str
    written: str
    hour: str
    output: str


PUBLISHED: dict[str, dict[str, Rates]] = {
    "openai/gpt-5.6": {
        "": Rates("5", "0.5", "6.25", "6.25", "30"),
        "long": Rates("10", "1", "12.5", "12.5", "45"),
        "flex": Rates("2.5", "0.25", "3.125", "3.125", "15"),
        "batch": Rates("2.5", "0.25", "3.125", "3.125", "15"),
        "priority": Rates("10", "1", "12.5", "12.5", "60"),
    },
    "openai/gpt-5-mini": {
        "": Rates("0.25", "0.025", "0.25", "0.25", "2"),
        "flex": Rates("0.125", "0.0125", "0.125", "0.125", "1"),
        "priority": Rates("0.45", "0.045", "0.45", "0.45", "3.6"),
    },
    "anthropic/claude-opus-4-7": {
        "": Rates("5", "0.5", "6.25", "10", "25"),
        "batch": Rates("2.5", "0.25", "3.125", "5", "12.5"),
    },
    "anthropic/claude-sonnet-4-5": {
        "": Rates("3", "0.3", "3.75", "6", "15"),
        "long": Rates("6", "0.6", "7.5", "12", "22.5"),
        "batch": Rates("1.5", "0.15", "1.875", "3", "7.5"),
    },
}
LONG = {"openai/gpt-5.6": 272_000, "anthropic/claude-sonnet-4-5": 200_000}


class Billed(NamedTuple):
    """One call: what the seller reports, and what it bills in units of currency."""

    usage: dict[str, Any]
    tier: str | None
    amount: Fraction


def billed(dice: Random, model: str) -> Billed:
    """A call of *model*, with counts in all classes that its seller has."""
    tiers = PUBLISHED[model]
    tier = dice.choice([name for name in tiers if name != "long"])
    most = 190_000 if tier else 400_000
    total = dice.randrange(dice.choice([10, 3_000, most]))
    read = dice.randint(0, total)
    written = dice.randint(0, total - read) if dice.random() < 0.7 else 0
    output = dice.randrange(dice.choice([2, 500, 64_000]))
    is_long = model in LONG and not tier and total > LONG[model]
    rates = tiers["long" if is_long else tier]
    hour = 0
    if model.startswith("openai"):
        writes = {"cache_write_tokens": written} if model.endswith("5.6") else {}
        usage: dict[str, Any] = {"prompt_tokens_details": {"cached_tokens": read, **writes}}
        written = written if writes else 0
    else:
        hour = dice.randint(0, written)
        parts = {"ephemeral_1h_input_tokens": hour, "ephemeral_5m_input_tokens": written - hour}
        usage = {
            "prompt_tokens_details": {
                "cached_tokens": read,
                "cache_creation_tokens": written,
                "cache_creation_token_details": parts,
            },
            "cache_creation_input_tokens": written,
        }
        written -= hour
    usage |= {"prompt_tokens": total, "completion_tokens": output}
    usage["completion_tokens_details"] = {"reasoning_tokens": dice.randint(0, output)}
    rest = total - read - written - hour
    counts = (rest, read, written, hour, output)
    amount = sum((n * Fraction(rate) for n, rate in zip(counts, rates, strict=True)), Fraction(0))
    return Billed(usage, tier or dice.choice([None, "default", "standard"]), amount / 10**6)


def price(model: str) -> Price:
    seller, _, name = model.partition("/")
    found = Seller(seller).get(name)
    assert found is not None
    return found


@pytest.mark.parametrize("model", PUBLISHED)
@pytest.mark.parametrize("seed", range(50))
def test_a_call_costs_what_its_seller_bills(model: str, seed: int) -> None:
    for call in (billed(Random(f"{seed}{at}"), model) for at in range(10)):
        usage, _ = usage_of(call.usage, call.tier)
        assert price(model).cost(usage) == math.ceil(call.amount * 10**6)


class Shop:
    """A backend that answers with what a seller reports, read as our backends read it."""

    def __init__(self, dice: Random) -> None:
        self.profile = Profile("shop", context=10**6, models=tuple(PUBLISHED))
        self.prices = {model: price(model) for model in PUBLISHED}
        self.calls = list[Billed]()
        self._dice = dice

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer, and note what is billed."""
        call = billed(self._dice, request.model)
        self.calls.append(call)
        message = {"message": {"content": "yes"}, "finish_reason": "stop"}
        data = {"choices": [message], "usage": call.usage, "service_tier": call.tier}
        return ChatReader(request, "shop").response(data)

    async def aclose(self) -> None:
        """Do nothing: it holds no resources."""


@ppl
def asked(models: list[str]) -> list[str]:
    "Is it so?"
    return [str(gen(model=model)) for model in models]


def invoiced(seed: int, path: Path) -> tuple[Shop, Trace, int]:
    """A run of some calls: the shop, the record, and what a budget was charged."""
    dice = Random(seed)
    shop = Shop(dice)
    recorder = Recorder(path, {"profile": profile_data(shop.profile)}, durability="process")
    with (
        Run(shop, instruments=[recorder], gate=recorder.gate),
        appl.budget(cost=1_000_000.0) as block,
    ):
        asked([dice.choice(list(PUBLISHED)) for _ in range(dice.randint(1, 6))])
    recorder.close()
    assert block.spent.cost is not None
    return shop, Trace.open(path), block.spent.cost


def checked(seed: int, path: Path) -> None:
    """Check a run's cost and classes, in its record and its budget, against the invoice."""
    shop, trace, charged = invoiced(seed, path)
    found, calls = costs.of(trace).spent, shop.calls
    invoice = sum((call.amount for call in calls), Fraction(0)) * 10**6
    assert found.cost == charged == sum(math.ceil(call.amount * 10**6) for call in calls)
    assert invoice <= found.cost < invoice + len(calls)
    assert found.prompt_tokens == sum(call.usage["prompt_tokens"] for call in calls)
    details = [call.usage["prompt_tokens_details"] for call in calls]
    assert found.cached_tokens == sum(each["cached_tokens"] for each in details)
    written = sum(each.get("cache_write_tokens", 0) for each in details)
    written += sum(each.get("cache_creation_tokens", 0) for each in details)
    assert found.written_tokens + found.written_1h_tokens == written
    reasoning = [call.usage["completion_tokens_details"]["reasoning_tokens"] for call in calls]
    assert found.reasoning_tokens == sum(reasoning)


@pytest.mark.parametrize("seed", range(60))
def test_a_run_costs_what_its_sellers_bill(seed: int, tmp_path: Path) -> None:
    checked(seed, tmp_path / "one.trace")


@pytest.mark.long
def test_two_thousand_runs_cost_what_their_sellers_bill(tmp_path: Path) -> None:
    for seed in range(2000):
        checked(seed, tmp_path / f"{seed}.trace")


def test_writes_that_nobody_counted_make_the_cost_unknown_where_they_cost_more() -> None:
    usage = Usage(7540, 23, 0)
    assert price("openai/gpt-5.6").cost(usage) is None
    assert price("openai/gpt-5-mini").cost(usage) is not None


def test_a_measured_call_costs_what_the_invoice_said() -> None:
    """The usage of https://github.com/BerriAI/litellm/pull/37628: 7,537 of 7,540 tokens written."""
    details = {"cached_tokens": 0, "cache_write_tokens": 7537}
    usage, _ = usage_of(
        {"prompt_tokens": 7540, "completion_tokens": 23, "prompt_tokens_details": details}
    )
    assert price("openai/gpt-5.6").cost(usage) == 47_812  # $0.04781, not $0.03839


@pytest.mark.parametrize("tier", ["fast", "scale"])
def test_a_tier_without_a_price_makes_the_cost_unknown(tier: str) -> None:
    usage, _ = usage_of({"prompt_tokens": 10, "completion_tokens": 1}, tier)
    assert usage.tier == tier and price("openai/gpt-5-mini").cost(usage) is None


@pytest.mark.parametrize("tier", ["", "flex", "priority", "fast"])
def test_no_class_costs_more_than_the_most_of_its_tier(tier: str) -> None:
    model = price("openai/gpt-5.6")
    usages = [
        Usage(900, 5, *parts, tier=tier) for parts in ((900, 0), (0, 900), (0, 0), (300, 300))
    ]
    known = [cost for cost in map(model.cost, usages) if cost is not None]
    assert all(cost <= model.most(900, 5, tier) for cost in known)


def test_a_user_gives_the_prices_of_classes_and_tiers() -> None:
    half = {"prompt": 1, "answer": 2, "written": 1.25}
    own = price_of({"prompt": 2, "answer": 4, "cached": 0.2, "written": 2.5, "batch": half})
    assert own.cost(Usage(1000, 100, 500, 500)) == 100 + 1250 + 400
    assert own.cost(Usage(1000, 100, 0, 1000, tier="batch")) == 1250 + 200
