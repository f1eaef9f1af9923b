"""The budget of an optimisation: whatever it is, nothing is spent beyond it."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import appl
from appl.backend import Request
from appl.backend.price import Price
from appl.errors import BackendRefused, BudgetExceeded
from appl.testing import Policy, Retries, Scripted, running

from .program import answer, judge

PRICE = 3.0, 15.0  # of a million tokens of prompts and of answers


class Bill:
    """Answers at random, and adds up what the answers took, in plain Python."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.calls = self.tokens = 0
        self.cost = 0.0
        self.fails = self.dice.choice([0.0, 0.0, 0.1])

    def __call__(self, request: Request) -> str:
        self.calls += 1
        prompt = " ".join(message.content for message in request.messages or ())
        if self.dice.random() < self.fails:
            raise BackendRefused("not now")
        if prompt.startswith("You improve"):
            holes = [hole for hole in ("{topic(question)}", "{question}") if hole in prompt]
            words = [f"w{self.dice.randrange(99)}" for _ in range(self.dice.randrange(1, 30))]
            said = f"```\n{' '.join(words + holes)}\n```"
        else:
            said = " ".join(["1"] * self.dice.randrange(1, 5))
        asked, answered = len(prompt.split()), len(said.split())
        self.tokens += asked + answered
        self.cost += (asked * PRICE[0] + answered * PRICE[1]) / 1e6
        return said


def spend(seed: int) -> tuple[float, float, str]:
    """What was spent, of what budget, and why it ended; all drawn by *seed*."""
    dice, bill = random.Random(seed), Bill(seed)
    unit = dice.choice(["calls", "tokens", "cost"])
    most = {"calls": 150, "tokens": 12_000, "cost": 0.2}[unit] * dice.random() ** 2
    limit = most if unit == "cost" else int(most)
    cases = [(f"q{i}", dice.choice(["1", "1 1"])) for i in range(dice.randrange(3, 10))]
    policy = Policy(prices={"": Price(*PRICE)}, retries=Retries(attempts=dice.choice([1, 2])))
    ended = "the budget is too small"
    with suppress(BudgetExceeded), running(Scripted(bill), policy=policy, concurrency=4):
        found = appl.optimize(
            answer,
            cases,
            scores=["exact", judge] if dice.random() < 0.3 else ["exact"],
            proposals=dice.randrange(1, 12),
            samples=dice.choice([1, 1, 2]),
            seed=seed,
            progress=False,
            **{unit: limit},
        )
        ended = found.ended
        assert found.spent.calls <= bill.calls
    return getattr(bill, unit), limit, ended


def check(seeds: range) -> set[str]:
    ends = set()
    for seed in seeds:
        spent, limit, ended = spend(seed)
        assert spent <= limit + 1e-9, (seed, spent, limit)
        ends.add(ended.partition(";")[0])
    return ends


def test_no_budget_is_passed_whatever_it_is():
    ends = check(range(60))
    assert {"the budget is too small", "the budget is used up"} < ends and len(ends) > 2


@pytest.mark.long
@pytest.mark.parametrize("first", range(60, 2060, 500))
def test_no_budget_is_passed_in_many_searches(first: int):
    check(range(first, first + 500))
