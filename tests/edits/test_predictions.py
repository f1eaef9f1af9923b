"""What is predicted of random edits contains what running them again asks."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tracing"))
sys.path.insert(0, str(Path(__file__).parent))

import edits
from test_edits import Swift, programs, recorded, rehearsal, run

from appl.session.rerunning import foreseen
from appl.testing import Run
from appl.tracing import Predictor, Trace
from appl.tracing.explaining import Prediction

FEW, MANY = 4, 1000


@dataclass
class Found:
    """Predictions beside the truth: how many there are, which are wrong, how many are exact."""

    every: int = 0
    exact: int = 0
    wrong: list[str] = field(default_factory=list)


def predicted(seed: int, program: programs.Tree, path: Path) -> Prediction:
    """What running *program* again would ask, with the record at *path*."""

    def performed(number: int) -> tuple[Predictor, Exception | None]:
        predictor = Predictor(Trace.open(path), rehearsal=number)
        try:
            with Run(rehearsal.backend(seed), instruments=[predictor], world=predictor):
                run(program, seed % 2 == 1)
        except Exception as stopped:
            return predictor, stopped
        return predictor, None

    return foreseen(performed)


def compare(seeds: range, folder: Path) -> Found:
    """Record, edit, predict and run again."""
    found = Found()
    for seed in seeds:
        first, second, asynchronous = folder / f"{seed}", folder / f"{seed}.again", seed % 2 == 1
        program = programs.tree(seed, asynchronous)
        recorded(seed, program, asynchronous, first, None)
        name, changed = edits.edited(seed, program, asynchronous)
        foreseen_calls = predicted(seed, changed, first)
        fewest, most = foreseen_calls.live
        again = Swift(Trace.open(first))
        recorded(seed + 7, changed, asynchronous, second, again)
        truth = len(again.asked)
        found.every += 1
        found.exact += fewest == most
        fewest = min(fewest, foreseen_calls.same_way[0])  # new answers may repeat recorded ones
        # A call that its program cancels before it is asked is live, and costs nothing.
        begun = sum(call.source is None for call in Trace.open(second).calls)
        if begun < fewest or (most is not None and truth > most):
            found.wrong.append(f"program {seed}, {name}: {truth} live, {fewest} to {most} said")
    return found


def test_the_truth_is_in_the_range(tmp_path: Path) -> None:
    found = compare(range(FEW), tmp_path)
    assert found.every == FEW and not found.wrong, found


@pytest.mark.long
def test_of_a_thousand_edits_the_truth_is_in_the_range(tmp_path: Path) -> None:
    found = compare(range(10_000, 10_000 + MANY), tmp_path)
    print(found.every, found.exact, found.wrong)
    assert len(found.wrong) <= MANY // 100 and found.exact >= MANY // 3, found
