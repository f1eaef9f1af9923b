"""Random programs under random orders and faults: they end, for nothing, and a seed repeats its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drawn import counts
from rehearsal import program, record

from appl.errors import ApplError
from appl.testing import Policy, Run
from appl.testing.clock import VirtualClock
from appl.tracing import Trace
from appl.tracing.replaying import Fuzzer, plan

PROGRAMS = 24
PLANS = 4
NUMBERS = [
    pytest.param(number, marks=pytest.mark.long) if number % 3 else number
    for number in range(0, 2 * PROGRAMS, 2)
]


def fuzzed(trace: Trace, number: int, seed: int) -> tuple[Any, list[str]]:
    """What program *number* gives under the plan of *seed*, and which prompts were others."""
    clock = VirtualClock()
    fuzzer = Fuzzer(trace, plan(trace, seed), clock.advance)
    try:
        with Run(fuzzer, world=fuzzer, instruments=[fuzzer], policy=Policy(clock=clock), seed=1):
            return program(number), sorted(fuzzer.changed)
    except (ApplError, ExceptionGroup) as error:
        return type(error).__name__, sorted(fuzzer.changed)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_seed_repeats_its_run(tmp_path: Path, number: int) -> None:
    record(number, tmp_path / "a.trace")
    trace = Trace.open(tmp_path / "a.trace")
    for seed in range(PLANS):
        assert fuzzed(trace, number, seed) == fuzzed(trace, number, seed)


@counts(PROGRAMS // 2, PROGRAMS)
def test_programs_that_take_who_is_first_depend_on_the_order_and_end_all_the_same(
    tmp_path: Path, count: int
) -> None:
    changed = 0
    for number in range(1, count, 2):
        values, _ = record(number, tmp_path / f"{number}.trace")
        trace = Trace.open(tmp_path / f"{number}.trace")
        for seed in range(0, 2 * PLANS, 2):
            found, prompts = fuzzed(trace, number, seed)
            changed += found != values or bool(prompts)
    assert changed > count // 2
