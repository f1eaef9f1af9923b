"""Random programs that nobody has edited: run again, they ask nobody, and give the same values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "resume"))

from continuing import Counting, rehearsal

from appl.testing import Run
from appl.tracing import Predictor, Recorder, Rerunner, profile_data
from appl.tracing.explaining import RerunReport, prediction_of

SEEDS = [
    pytest.param(seed, marks=pytest.mark.long) if seed // 2 % 3 else seed for seed in range(50)
]
"""Every third program of each kind is run each time."""


def rerun(seed: int, path: Path, into: Path, kind: type[Rerunner] = Rerunner) -> tuple[Any, ...]:
    """Run program *seed* again from its trace; its values, what was asked, and the report."""
    live = Counting(rehearsal.backend(seed + 7))
    rerunner = kind(path, keep_failures=True)
    head = {"program": "random", "profile": profile_data(live.profile)}
    recorder = Recorder(into, head, durability="process")
    with Run(
        live, instruments=[rerunner, recorder], gate=recorder.gate, barrier=recorder.barrier,
        world=rerunner,
    ):  # fmt: skip
        values = rehearsal.program(seed)
    recorder.close()
    return values, live, RerunReport(rerunner)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_that_nobody_edited_asks_nobody(tmp_path: Path, seed: int) -> None:
    path, into = tmp_path / "first.trace", tmp_path / "second.trace"
    values, _ = rehearsal.record(seed, path)
    found, live, report = rerun(seed, path, into)
    assert found == values
    assert not live.asked and not report.live and not report.removed
    again, _ = rehearsal.replay(seed, into)
    assert again == values


@pytest.mark.parametrize("seed", range(0, 50, 10))
def test_what_nobody_edited_is_predicted_to_ask_nobody(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "first.trace"
    values, live = rehearsal.record(seed, path)
    predictor = Predictor(path, keep_failures=True)
    with Run(live, instruments=[predictor], world=predictor):
        assert rehearsal.program(seed) == values
    found = prediction_of(predictor)
    assert found.live == (0, 0) and not found.tools and not found.stopped


class Eager(Rerunner):
    """Taken out: the order. What is recorded is let go as it comes."""

    patience_s = 0.05

    def park(self, turn: Any, go: Any) -> None:
        super().park((0, 0), go)


def test_without_the_order_runs_come_out_otherwise(tmp_path: Path) -> None:
    wrong = 0
    for seed in range(1, 60, 2):
        path = tmp_path / f"{seed}.trace"
        values, _ = rehearsal.record(seed, path)
        try:
            found, live, _ = rerun(seed, path, tmp_path / f"{seed}.again.trace", Eager)
            wrong += found != values or bool(live.asked)
        except Exception:
            wrong += 1
    assert wrong > 10, f"{wrong} of 30"
