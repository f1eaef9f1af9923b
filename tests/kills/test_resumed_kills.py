"""Runs that are killed at any moment and gone on with until they are done: nothing finished is paid
again, and the whole then replays without a call.

The oracle is the bill that each life writes: what was asked of the backend and answered, what the
run had the outcome of, and when it died.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from appl.errors import TraceError
from appl.tracing import Owner, Trace
from appl.tracing.format import doubt

sys.path.insert(0, str(Path(__file__).parent.parent / "tracing"))

import rehearsal

KILLS, LONG_KILLS = 35, 2000
PART = 3  # as in resuming
LIVES = 12
GROUP_MS = 5
POINTS = {"event": 60, "before-write": 6, "inside-write": 6, "after-write": 6, "time": 60_000}


class Server:
    """The process that forks the lives."""

    def __init__(self) -> None:
        path = [str(Path(__file__).parent), *sys.path]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("resuming.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip

    def live(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@dataclass
class Verdict:
    """What the oracle found over all kills."""

    kills: int = 0
    runs: int = 0
    asked: int = 0
    finished: int = 0
    again: int = 0
    parted: int = 0
    late: list[float] = field(default_factory=list)
    lost: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lost = [age for ages in self.lost.values() for age in ages]
        points = "".join(f"\n  {_spread(self.lost[at])} at {at}" for at in sorted(self.lost))
        return (
            f"{self.kills} kills of {self.runs} runs: {self.asked} calls asked, {self.finished} recorded "
            f"answers of earlier lives, {self.again} of them paid again; {self.parted} runs had acted on half an answer; {len(self.wrong)} faults\n"
            f"not recorded when the process died: {_spread(self.late)} that the backend had answered,\n"
            f"  {_spread(lost)} that the run had the outcome of, {sum(age > GROUP_MS for age in lost)} of them for more than {GROUP_MS} ms; of these{points}"
        )


def _spread(ages: list[float]) -> str:
    """How many calls, and for how many milliseconds they had been so."""
    if not ages:
        return "none"
    ages = sorted(ages)
    half, most = ages[len(ages) // 2], ages[min(len(ages) * 99 // 100, len(ages) - 1)]
    return f"{len(ages)} (for ms: half {half:.2f}, 99% {most:.2f}, oldest {ages[-1]:.2f})"


def finished(path: Path) -> set[str]:
    """The calls that the trace has an answer or a failure of."""
    if not path.exists():
        return set()
    trace = Trace.open(path)
    return {call.address for call in trace.calls if call.outcome in ("answered", "failed")}


def bill(path: Path) -> list[tuple[str, int, str]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [
        (what, int(at), address) for what, at, address in (line.split(" ", 2) for line in lines)
    ]


def killed_until_done(
    server: Server, folder: Path, kills: int, seed: int, resumer: str = "whole", answers: int = 0
) -> Verdict:
    """Kill lives at points drawn from *seed* until there are *kills*, and judge each.

    A slow machine has fewer answers before each kill: it goes on until there are *answers*.
    """
    dice, verdict, number = random.Random(seed), Verdict(), 0
    while (verdict.kills < kills or verdict.finished <= answers) and (
        resumer == "whole" or not verdict.wrong
    ):
        number += 1
        path = folder / f"{number}.trace"
        verdict.runs += 1
        for life in range(LIVES):
            before = finished(path)
            point = dice.choice(list(POINTS))
            most = POINTS[point] if life < LIVES - 1 else 10**9
            order = {
                "seed": number, "life": life, "path": str(path), "bill": str(folder / f"{number}.{life}"),
                "point": point, "count": dice.randint(max(most // 100, 1), most), "resumer": resumer,
            }  # fmt: skip
            if life == LIVES - 1:
                order |= {"point": "event"}
            found = server.live(order)
            verdict.kills += found["killed"]
            try:
                billed = bill(Path(order["bill"]))
                judge(path, before, billed, verdict)
                ages = unrecorded(path, "finished", billed)
            except TraceError as error:
                verdict.wrong.append(f"{number}.{life}: {error}")
                break
            if found["killed"]:
                verdict.lost.setdefault(point, []).extend(ages)
            elif ages:
                verdict.wrong.append(f"{number}.{life} was not killed, and lost {len(ages)} calls")
            if found["code"] == 0:
                replays(number, path, found["values"], verdict)
                break
            if found["code"] == PART or any(what == "parted" for what, _, _ in billed):
                verdict.parted += 1
                break
            if not found["killed"]:
                verdict.wrong.append(f"{number}.{life} ended with {found['code']}: {order}")
                break
    return verdict


def judge(
    path: Path, before: set[str], billed: list[tuple[str, int, str]], verdict: Verdict
) -> None:
    """One life: what it asked though *before* had it, and what it got and did not record."""
    asked = [address for what, _, address in billed if what == "asked"]
    verdict.asked += len(asked)
    verdict.finished += len(before)
    again = before & set(asked)
    verdict.again += len(again)
    if again:
        verdict.wrong.append(f"{path.name}: paid again: {sorted(again)[:5]}")
    verdict.late += unrecorded(path, "answered", billed)


def unrecorded(path: Path, what: str, billed: list[tuple[str, int, str]]) -> list[float]:
    """For how many milliseconds, at the end of a life, calls had been *what* and not recorded."""
    known, died = finished(path), max((at for _, at, _ in billed), default=0)
    return [
        (died - at) / 1e6 for did, at, address in billed if did == what and address not in known
    ]


def replays(number: int, path: Path, values: str, verdict: Verdict) -> None:
    """What the lives were together is one run: it replays, to the values that the last one gave."""
    try:
        again, _ = rehearsal.replay(number, path, schedule=number)
    except Exception as error:
        verdict.wrong.append(f"{number} does not replay: {type(error).__name__}: {error}")
        return
    reason = doubt(path, Owner(bytes(32), path.with_suffix(".ends")))
    if reason is not None:
        verdict.wrong.append(f"{number} is not the user's own any more: {reason}")
    if again != json.loads(values):
        verdict.wrong.append(f"{number} replays to other values")


def test_nothing_finished_is_paid_again_and_what_comes_of_it_replays(
    server: Server, tmp_path: Path
) -> None:
    verdict = killed_until_done(server, tmp_path, KILLS, seed=1, answers=10 * KILLS)
    print(verdict)
    assert not verdict.wrong, verdict.wrong[:3]
    assert verdict.kills >= KILLS and verdict.again == 0 and verdict.parted < 5, verdict
    assert verdict.finished > 10 * KILLS and verdict.asked > KILLS, verdict


def test_without_the_order_of_deliveries_the_suite_fails(server: Server, tmp_path: Path) -> None:
    verdict = killed_until_done(server, tmp_path, 150, seed=2, resumer="eager")
    assert verdict.wrong, verdict


@pytest.mark.long
def test_two_thousand_kills_of_runs_that_go_on(server: Server, tmp_path: Path) -> None:
    verdict = killed_until_done(server, tmp_path, LONG_KILLS, seed=3)
    print(verdict)
    assert not verdict.wrong, verdict.wrong[:3]
