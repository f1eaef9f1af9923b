"""Runs with batches that are killed at any moment and gone on with: nothing is sent twice, nothing
is lost, all costs half, and each level is one batch.

The oracle is the provider's: what its twin was paid for, by question; and plain Python, which knows
what the program asks and says.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from appl.tracing import Trace
from tests.batches.programs import Shape
from tests.batches.twins import KINDS, Faults, Kind, Twin

KILLS, LONG_KILLS = 40, 1000
LIVES = 12
FAULTY = Faults(lost=0.15, failed_after=0.1, busy=0.1, fails=0.15, expires=0.15)


class Lives:
    """The process that forks the lives."""

    def __init__(self) -> None:
        root = Path(__file__).parents[2]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.batches.lives"], cwd=root, env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def begin(self, order: dict[str, Any]) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> dict[str, Any]:
        assert self.process.stdout
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    made = Lives()
    yield made
    made.close()


@dataclass
class Verdict:
    """What came of all runs."""

    kills: int = 0
    runs: int = 0
    batches: int = 0
    in_doubt: int = 0
    calls: int = 0
    twice: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    cost: int = 0
    whole: int = 0

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.kills} kills: {self.calls} questions in {self.batches} batches, "
            f"{self.in_doubt} in doubt, {len(self.twice)} paid twice, {len(self.wrong)} lost or wrong, "
            f"cost {self.cost / max(self.whole, 1):.2f} x"
        )


def killed_until_done(
    lives: Lives, folder: Path, seed: int, kind: Kind, faults: Faults, verdict: Verdict
) -> None:
    """One run that is killed several times, and then goes on to its end."""
    dice, shape = random.Random(seed), Shape.drawn(seed)
    path = folder / f"{seed}.trace"
    with Twin(kind, seed, faults, looks=dice.randint(1, 3)) as twin:
        rerun: list[str] = []
        for life in range(LIVES):
            said = _live(lives, twin, dice, path, seed, rerun, mortal=life < LIVES - 4)
            verdict.kills += not said
            if "values" in said:
                break
            if "doubt" in said:  # the user looks, and says that it is not there
                verdict.in_doubt += 1
                rerun.append(said["doubt"])
            elif said:
                verdict.wrong.append(f"{kind} {seed}: {said}")
                return
        _judge(twin, shape, said, path, verdict)


def _live(
    lives: Lives,
    twin: Twin,
    dice: random.Random,
    path: Path,
    seed: int,
    rerun: list[str],
    mortal: bool,
) -> dict[str, Any]:
    """One life; empty if it was killed: at an event of its own, or at a request."""
    at_event = dice.random() < 0.5
    events = dice.randint(1, 60) if mortal and at_event else 0
    at, after = len(twin.requests) + dice.randint(0, 12), dice.random() < 0.5
    pid = 0

    def kill(number: int, done: bool) -> bool:
        if not mortal or at_event or number < at or done != after or not pid:
            return False
        os.kill(pid, signal.SIGKILL)
        return True

    twin.on_request = kill
    order = {
        "seed": seed, "path": str(path), "twin": twin.settings(), "kind": twin.kind,
        "events": events, "rerun": rerun, "plan": {},
    }  # fmt: skip
    pid = lives.begin(order)
    return lives.end()


def _judge(twin: Twin, shape: Shape, said: dict[str, Any], path: Path, verdict: Verdict) -> None:
    questions, where = shape.questions(), f"{twin.kind} {shape.seed}"
    faults = [*twin.problems]
    if said.get("values") != shape.told():
        faults.append(f"said {said}")
    if set(twin.answered) != questions:
        faults.append("asked something else")
    if twin.files:
        faults.append(f"files are left: {twin.files}")
    levels = shape.levels(twin.tries)
    if len(twin.batches) != levels:
        faults.append(f"{len(twin.batches)} batches for {levels} levels")
    if 2 * twin.cost != twin.whole or twin.at_once:
        faults.append(f"cost {twin.cost} of {twin.whole}")
    recorded = [call.response for call in Trace.open(path).calls]
    if [response for response in recorded if response is None or response.usage.tier != "batch"]:
        faults.append("an answer is recorded at another price")
    verdict.wrong += [f"{where}: {fault}" for fault in faults]
    verdict.twice += [f"{where}: {question}" for question in twin.sent_twice]
    verdict.runs += 1
    verdict.batches += len(twin.batches)
    verdict.calls += len(questions)
    verdict.cost, verdict.whole = verdict.cost + twin.cost, verdict.whole + twin.whole


def of_kills(lives: Lives, folder: Path, kills: int) -> Verdict:
    verdict, seed = Verdict(), 0
    while verdict.kills < kills:
        faults = FAULTY if seed % 2 else Faults()
        killed_until_done(lives, folder, seed, KINDS[seed % 3], faults, verdict)
        seed += 1
    return verdict


def test_killed_runs_send_nothing_twice_lose_nothing_and_cost_half(
    lives: Lives, tmp_path: Path
) -> None:
    verdict = of_kills(lives, tmp_path, KILLS)
    print(verdict)
    assert not verdict.twice and not verdict.wrong, verdict


@pytest.mark.long
def test_a_thousand_kills(lives: Lives, tmp_path: Path) -> None:
    verdict = of_kills(lives, tmp_path, LONG_KILLS)
    print(verdict)
    assert not verdict.twice and not verdict.wrong, verdict
