"""The bill of programs: near the least that a provider's rules allow, and never above its default."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from tests.bill import programs
from tests.bill.caches import WRITTEN, least
from tests.bill.programs import Drawn, drawn, said
from tests.bill.world import WAYS, Provider, billed

NEAR = Fraction(105, 100)
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "bill.json"
BY_TOKENS = {"earlier openai": (Fraction(1), 512)}
"""The price of a written token, and the steps in which beginnings are kept, where not the usual."""


def bound(way: str, provider: Provider, surprises: tuple[str, ...] = ()) -> Fraction:
    """The least that the prompts that *provider* got can cost there."""
    written, step = BY_TOKENS.get(way, (WRITTEN, 1))
    return least(provider.prompts, written, step, surprises)


def checked(way: str, program: Drawn) -> tuple[float, float, float]:
    """The price of *program* over the least, over the default, and over that without a cache."""
    ours, default = billed(way, program.run), billed(way, program.run, plain=True)
    assert ours.price <= NEAR * bound(way, ours, program.surprises)
    assert ours.price <= default.price
    assert sorted(ours.digests) == sorted(default.digests)
    if program.calls >= 10 and program.shared >= 4 * 4000:
        assert ours.price <= Fraction(3, 10) * ours.uncached
    low = bound(way, ours, program.surprises)
    return (
        float(ours.price / low),
        float(ours.price / default.price),
        float(ours.price) / ours.uncached,
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(30))
def test_a_random_program_costs_nearly_the_least(way: str, seed: int) -> None:
    checked(way, drawn(Random(seed)))


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_thousand_random_programs_cost_nearly_the_least(way: str) -> None:
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for seed in range(1000):
        program = drawn(Random(seed))
        found[program.kind].append(checked(way, program))
    if os.environ.get("KEEP_RESULTS"):
        kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        kept[way] = {kind: summed(ratios) for kind, ratios in sorted(found.items())}
        kept[way] |= {"plain tokens of known shapes": dict(known(way))}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def known(way: str) -> Iterator[tuple[str, Mapping[str, int]]]:
    """What each known shape costs in plain tokens of four characters."""
    for shape, program in SHAPES.items():
        ours, default = billed(way, program), billed(way, program, plain=True)
        found = {
            "ours": ours.price, "least": bound(way, ours), "default": default.price,
            "without a cache": Fraction(ours.uncached),
        }  # fmt: skip
        yield shape, {name: round(price / 4) for name, price in found.items()}


def summed(ratios: list[tuple[float, float, float]]) -> Mapping[str, float]:
    """The largest and the mean ratios."""
    columns = list(zip(*ratios, strict=True))
    names = ("over the least", "over the default", "over no cache")
    largest = {f"largest {name}": round(max(c), 3) for name, c in zip(names, columns, strict=True)}
    means = {
        f"mean {name}": round(sum(c) / len(c), 3) for name, c in zip(names, columns, strict=True)
    }
    return {"programs": len(ratios), **largest, **means}


QUESTIONS = [said(f"question{at}", 160) for at in range(50)]
FACTS = said("facts", 24_000)
TURNS = [said(f"turn{at}", 1_200) for at in range(20)]
SHAPES: Mapping[str, Callable[[], object]] = {
    "fifty questions about one text": lambda: [
        str(each) for each in [programs.ask(FACTS, question) for question in QUESTIONS]
    ],
    "fifty branches": lambda: programs.fan_out(FACTS, QUESTIONS),
    "a map": lambda: programs.mapped(FACTS, QUESTIONS),
    "a chain of twenty": lambda: programs.chain_of_twenty(FACTS, TURNS),
    "one-shots": lambda: [
        str(each) for each in [programs.once(said(f"once{at}", 9_000)) for at in range(20)]
    ],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_known_shape_costs_nearly_the_least(way: str, shape: str) -> None:
    provider = billed(way, SHAPES[shape])
    assert provider.price <= NEAR * bound(way, provider)


@pytest.mark.parametrize("way", ["openai", "earlier openai"])
def test_siblings_have_one_key_for_routing(way: str) -> None:
    assert len(billed(way, SHAPES["fifty questions about one text"]).keys) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_run_at_once_costs_the_same_each_time(way: str) -> None:
    program = drawn(Random(7), "several")
    assert billed(way, program.run).price == billed(way, program.run).price
