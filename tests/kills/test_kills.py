"""``kill -9`` of recording programs: what was acknowledged is there, and every trace can be read.

Each trace is killed several times, each time reopened by the next child. The oracle knows what the
child acknowledged through its pipe, and what the backend was asked by its own count.
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
from appl.tracing import Recorder, Trace, records

KILLS, LONG_KILLS = 100, 1000
PER_TRACE = 5
POINTS = {"event": 140, "before-write": 9, "inside-write": 9, "after-write": 9}


@dataclass
class Server:
    """The process that forks the victims."""

    process: subprocess.Popen[str]

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    victim = Path(__file__).with_name("victim.py")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, str(victim)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=env,
    )  # fmt: skip
    yield Server(process)
    process.stdin.close()  # type: ignore[union-attr]
    process.wait(60)


@dataclass
class Verdict:
    """What the oracle found over all kills."""

    kills: int = 0
    by_point: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    recovered: int = 0
    asked: int = 0
    torn: int = 0
    chunks: int = 0
    lost: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.unreadable or self.invented)

    def __str__(self) -> str:
        points = ", ".join(f"{name} {count}" for name, count in sorted(self.by_point.items()))
        return (
            f"{self.kills} kills ({points}): {self.asked} calls at the backend, {self.recovered} recovered, "
            f"{self.acknowledged} acknowledged, {len(self.lost)} acknowledged lost, {self.torn} torn tails, "
            f"{len(self.unreadable)} unreadable traces, {len(self.invented)} records of calls never made"
        )


@dataclass
class Life:
    """One child: what it acknowledged, and what its backend counted."""

    pid: int
    acks: list[str]
    asked: list[str]


def incarnations(path: Path) -> dict[int, list[str]]:
    """For each process that wrote, by pid, the addresses of the answers it recorded, in order."""
    found: dict[int, list[str]] = {}
    scopes: dict[int, str] = {}
    calls: dict[int, str] = {}
    for record in records(path):
        tag = record[0]
        if tag == "I":
            writing = found.setdefault(record[2], [])
            scopes, calls = {}, {}
        elif tag == "X":
            above = scopes.get(record[2], record[2])
            scopes[record[1]] = f"{above}/{record[3]}" if above else record[3]
        elif tag == "S":
            calls[record[1]] = f"{scopes.get(record[2], record[2])}/{record[3]}"
        elif tag == "E" and record[2] == 0:
            writing.append(calls[record[1]])
    return found


def killed_many_times(
    server: Server,
    folder: Path,
    kills: int,
    seed: int,
    writer: str = "whole",
    stream: bool = False,
    acknowledged: int = 0,
    chunks: int = -1,
) -> Verdict:
    """Kill *kills* children at points drawn from *seed*, and judge each trace after each kill.

    A slow machine acknowledges less before each kill: it goes on until *acknowledged* calls are, and
    *chunks* are recorded.
    """
    dice, verdict, trace = random.Random(seed), Verdict(), 0
    points = list(POINTS) if writer != "no-repair" else ["inside-write"]
    while (
        verdict.kills < kills or verdict.acknowledged <= acknowledged or verdict.chunks <= chunks
    ) and (writer == "whole" or verdict.clean):
        trace += 1
        path = folder / f"{trace}.trace"
        lives: list[Life] = []
        for again in range(PER_TRACE):
            point = dice.choice(points)
            order = {
                "path": str(path), "counts": str(folder / f"{trace}.{again}.count"), "seed": dice.random(),
                "point": point, "count": dice.randint(1, POINTS[point]), "writer": writer,
                "durability": dice.choice(["process", "system", "strict"]), "stream": stream,
            }  # fmt: skip
            found = server.run(order)
            if found["code"] == 1:  # the victim could not open the trace of the one before
                verdict.unreadable.append(f"{path}: {order}")
                break
            verdict.kills += found["killed"]
            verdict.by_point[point] = verdict.by_point.get(point, 0) + found["killed"]
            counts = Path(order["counts"])
            asked = counts.read_text().split() if counts.exists() else []
            lives.append(Life(found["pid"], found["acks"], asked))
            judge(path, lives, verdict)
        finish(path, verdict)
    return verdict


def judge(path: Path, lives: list[Life], verdict: Verdict) -> None:
    """The trace after a kill, of all who wrote it: acknowledged is a prefix of recovered (no holes),
    and what is recovered was asked."""
    try:
        trace = Trace.open(path)
        verdict.torn += trace.torn > 0
        verdict.lost += broken_streams(trace)
        verdict.chunks += sum(len(call.cuts) for call in trace.calls)
        found = incarnations(path)
    except TraceError as error:
        verdict.unreadable.append(f"{path}: {error}")
        return
    for life in lives:
        known = found.get(life.pid, [])
        if known[: len(life.acks)] != life.acks:
            verdict.lost.append(f"{path}: {life.acks[len(known) :] or life.acks}")
        verdict.invented += sorted(set(known) - set(life.asked))
    verdict.acknowledged += len(lives[-1].acks)
    verdict.asked += len(lives[-1].asked)
    verdict.recovered += len(found.get(lives[-1].pid, []))


def broken_streams(trace: Trace) -> list[str]:
    """Calls whose chunks are not their answer, or were shown out of order."""
    wrong = []
    for call in trace.calls:
        counts = [count for _, count in call.shown]
        said = "".join(chunk.text for chunk in call.chunks())
        whole = call.response.text if call.response and call.cuts else ""
        if counts != sorted(counts) or (call.cuts and max(counts, default=0) > len(call.cuts)):
            wrong.append(
                f"{trace.path}: {call.address} was shown {counts} of {len(call.cuts)} chunks"
            )
        elif said != whole:
            wrong.append(f"{trace.path}: {call.address} said {said!r:.80}, not {whole!r:.80}")
    return wrong


def finish(path: Path, verdict: Verdict) -> None:
    """Reopen for appending, which repairs, and read once more: nothing has changed."""
    try:
        before = [call.as_data() for call in Trace.open(path).calls]
        Recorder(path, {}, append=True, reason="repair").close()
        after = Trace.open(path)
    except TraceError as error:
        verdict.unreadable.append(f"{path}: {error}")
        return
    if after.torn or [call.as_data() for call in after.calls] != before:
        verdict.lost.append(f"{path}: the repair changed what is recorded")


def test_no_acknowledged_call_is_lost_and_every_trace_is_readable(
    server: Server, tmp_path: Path
) -> None:
    verdict = killed_many_times(server, tmp_path, KILLS, seed=1, acknowledged=5 * KILLS)
    print(verdict)
    assert verdict.clean, verdict
    assert verdict.kills >= KILLS >= 100
    assert 5 * KILLS < verdict.acknowledged <= verdict.recovered, verdict
    assert verdict.torn > 5, verdict
    assert set(verdict.by_point) == set(POINTS)


def test_kills_while_answers_are_streamed_leave_readable_traces(
    server: Server, tmp_path: Path
) -> None:
    verdict = killed_many_times(server, tmp_path, KILLS // 2, seed=5, stream=True, chunks=1000)
    print(verdict)
    assert verdict.clean, verdict
    assert verdict.kills >= KILLS // 2 and verdict.chunks > 1000 and verdict.torn > 0, verdict


def test_without_the_flush_the_suite_fails(server: Server, tmp_path: Path) -> None:
    verdict = killed_many_times(server, tmp_path, 20, seed=2, writer="no-flush")
    assert verdict.lost, verdict


def test_without_the_repair_of_the_tail_the_suite_fails(server: Server, tmp_path: Path) -> None:
    verdict = killed_many_times(server, tmp_path, 20, seed=3, writer="no-repair")
    assert verdict.unreadable, verdict


@pytest.mark.long
def test_a_thousand_kills(server: Server, tmp_path: Path) -> None:
    verdict = killed_many_times(server, tmp_path, LONG_KILLS, seed=4)
    print(verdict)
    assert verdict.clean, verdict
