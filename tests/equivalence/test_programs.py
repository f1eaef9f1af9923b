"""1,000 random programs mean the same scheduled, naive, and in plain Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from .compare import Verdict, judge, same_sort
from .programs import program
from .shrink import shrunk

PROGRAMS = 1_000
BLOCK = 50
FEATURES = (
    "try", "failing calls", "mutation after capture", "ctx=new", "ctx=copy", "ctx=same",
    "ctx=resume", "generators", "closures", "sets", "dicts", "async",
)  # fmt: skip


@dataclass
class Census:
    """What the programs of this session did."""

    programs: int = 0
    calls: int = 0
    marks: Counter[str] = field(default_factory=Counter)


CENSUS = Census()


def explained(seed: int, verdict: Verdict) -> str:
    """The disagreement about a seed, on a program made as small as it gets."""
    small = shrunk(program(seed), same_sort(verdict))
    again = "python -m tests.equivalence"
    return f"{judge(small).problem}\nrepeat with: {again} {seed}\n{small.source()}"


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_every_way_to_run_a_program_agrees(first: int) -> None:
    for seed in range(first, first + BLOCK):
        verdict = judge(program(seed))
        CENSUS.programs += 1
        CENSUS.calls += verdict.calls
        CENSUS.marks.update(list(verdict.marks))
        assert verdict.problem is None, explained(seed, verdict)


def test_every_feature_runs_in_a_twentieth_of_the_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    if CENSUS.programs < PROGRAMS:
        pytest.skip("needs the whole run above")
    shares = {name: count / CENSUS.programs for name, count in CENSUS.marks.most_common()}
    with capsys.disabled():
        print(f"\n{CENSUS.programs} programs, {CENSUS.calls} calls; share of programs that ran")
        for name, share in shares.items():
            print(f"  {name:24}{share:6.1%}  {'#' * round(40 * share)}")
    assert {name: shares.get(name, 0) for name in FEATURES if shares.get(name, 0) < 0.05} == {}
