"""Random programs are cut off anywhere and go on: nothing that ended is asked again, and the whole
replays without a live call."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from continuing import cut, ended, rehearsal, resume

from appl.errors import DivergenceError
from appl.tracing import Resumer, Trace
from appl.tracing.replaying import Tally

SEEDS = [
    pytest.param(seed, marks=pytest.mark.long) if seed // 2 % 3 else seed for seed in range(50)
]
"""Every third program of each kind is run each time."""
ORDERED = 30


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_that_was_cut_off_goes_on_and_replays(tmp_path: Path, seed: int) -> None:
    whole, path, dice = tmp_path / "whole.trace", tmp_path / "cut.trace", random.Random(seed)
    rehearsal.record(seed, whole)
    cut(whole, path, dice)
    for _ in range(2 if seed % 3 else 1):  # some are cut off once more
        over = ended(Trace.open(path))
        parts = rehearsal.seen_in_part(Trace.open(path))
        try:
            values, live, recalled = resume(seed, path)
        except DivergenceError as error:  # it did something with a text that is not there
            assert parts and "being streamed" in str(error)
            return
        assert not over & set(live.asked), f"asked again: {over & set(live.asked)}"
        assert not recalled.unasked()
        kept = Trace.open(path)
        assert kept.state == "finished" and over <= ended(kept)
        again, _ = rehearsal.replay(seed, path)
        assert again == values
        path = cut(path, tmp_path / "again.trace", dice, least=0.5)


def test_a_run_that_finished_asks_nobody_and_is_left_as_it_is(tmp_path: Path) -> None:
    for seed in range(0, 40, 7):
        path = tmp_path / f"{seed}.trace"
        values, _ = rehearsal.record(seed, path)
        before = path.read_bytes()
        tally = Tally()
        found, live, recalled = resume(seed, path, tally=tally)
        assert found == values and not live.asked
        assert tally.live.calls == 0
        assert tally.reused.calls == len(ended(Trace.open(path)) & recalled.claimed)
        assert path.read_bytes() == before


# -- without it the suite above fails


class Eager(Resumer):
    """Taken out: the order. What is recorded is let go as it comes."""

    patience_s = 0.05

    def park(self, turn: Any, go: Any) -> None:
        super().park((0, 0), go)


def test_without_the_order_runs_come_out_otherwise(tmp_path: Path) -> None:
    wrong = 0
    for seed in range(ORDERED):
        whole, path = tmp_path / f"{seed}.trace", tmp_path / f"{seed}.cut.trace"
        rehearsal.record(seed, whole)
        cut(whole, path, random.Random(seed), least=0.5)
        over = ended(Trace.open(path))
        try:
            values, live, recalled = resume(seed, path, Eager)
            again, _ = rehearsal.replay(seed, path)
            wrong += again != values or bool(over & set(live.asked)) or bool(recalled.unasked())
        except Exception:
            wrong += 1
    assert wrong > ORDERED // 6, f"{wrong} of {ORDERED}"
