"""The least by formula against every placement there is, for programs small enough to try all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import pytest

from tests.bill.caches import AnthropicCache, Cache, OpenAICache, least
from tests.bill.programs import drawn
from tests.bill.world import WAYS, billed

Plan = Mapping[str, Any]
PAIRS: Mapping[str, tuple[str, str]] = {
    "openai": ("openai", "openai in dispute"),
    "anthropic": ("anthropic", "anthropic in dispute"),
}


def fresh(provider: str, dispute: bool) -> Any:
    """An empty cache of *provider*, by one reading of its rules."""
    made: Cache = OpenAICache(dispute) if provider == "openai" else AnthropicCache(dispute, 300.0)
    return made


def plans(provider: str, prompt: Sequence[str]) -> Iterator[Plan]:
    """Every body for *prompt*: a part for each of its borders, marked or not, in each mode."""
    name = "prompt_cache_breakpoint" if provider == "openai" else "cache_control"
    texts = [
        place[len(before) :] for before, place in zip(["<user>", *prompt], prompt, strict=False)
    ]
    for marks in product((False, True), repeat=len(texts)):
        parts = [
            {"text": text, name: {}} if marked else {"text": text}
            for text, marked in zip(texts, marks, strict=True)
        ]
        body = {"messages": [{"role": "user", "content": parts}]}
        yield body
        if provider == "openai":
            yield {**body, "prompt_cache_options": {"mode": "explicit"}}


def cheapest(provider: str, prompts: Sequence[Sequence[str]]) -> Fraction:
    """The price of the best placements, by the reading of the rules that is worse for them."""
    best: Fraction | None = None
    for chosen in product(*(list(plans(provider, prompt)) for prompt in prompts)):
        worse = Fraction(0)
        for dispute in (False, True):
            cache = fresh(provider, dispute)
            worse = max(worse, sum((cache.bill(b, 3.0 * at, 3.0 * at + 1).price for at, b in enumerate(chosen)), Fraction(0)))  # fmt: skip
        best = worse if best is None else min(best, worse)
    assert best is not None
    return best


@pytest.mark.parametrize("provider", PAIRS)
@pytest.mark.parametrize("seed", range(3))
def test_ours_is_near_the_best_of_all_placements(provider: str, seed: int) -> None:
    dice = Random(seed)
    program = drawn(dice, dice.choice(["map", "fan-out"]))
    while program.calls > 3 or program.shared < 4096:
        program = drawn(dice, dice.choice(["map", "fan-out"]))
    runs = [billed(way, program.run) for way in PAIRS[provider]]
    best = cheapest(provider, runs[0].prompts)
    assert max(run.price for run in runs) <= Fraction(105, 100) * best
    assert least(runs[0].prompts) <= best


def test_every_way_is_tried_by_one_of_the_pairs() -> None:
    assert {way for pair in PAIRS.values() for way in pair} | {"earlier openai"} == set(WAYS)
