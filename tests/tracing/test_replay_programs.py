"""Exact replay: random programs give the same values again, whatever the schedule, and no call is live."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from rehearsal import record, replay

import appl
from appl import gen, ppl
from appl.testing import Echo, Run
from appl.tracing import Recorder, Replayer

FEW, PROGRAMS = 24, 140
AGAIN = 3
FEW_HASHED, HASHED = 8, 40


@functools.cache
def recorded(programs: int) -> tuple[Path, dict[int, Any], dict[int, dict[str, str]]]:
    """Traces of *programs* in one folder, the values of each, and what each asked."""
    folder, values, asked = Path(tempfile.mkdtemp()), {}, {}
    for seed in range(programs):
        values[seed], live = record(seed, folder / f"{seed}.trace")
        asked[seed] = {request.address: request.digest.hex() for request in live.requests}
    return folder, values, asked


@pytest.mark.parametrize("programs", [FEW, pytest.param(PROGRAMS, marks=pytest.mark.long)])
@pytest.mark.parametrize("schedule", range(AGAIN))
def test_random_programs_replay_to_the_same_values_with_no_live_call(
    schedule: int, programs: int
) -> None:
    folder, values, asked = recorded(programs)
    for seed in range(programs):
        found, again = replay(seed, folder / f"{seed}.trace", schedule=1000 * schedule + seed)
        assert found == values[seed], f"program {seed}"
        assert again.items() <= {**again, **asked[seed]}.items(), f"program {seed}"


@pytest.mark.parametrize("hashed", [FEW_HASHED, pytest.param(HASHED, marks=pytest.mark.long)])
@pytest.mark.parametrize("hash_seed", ["1", "31337"])
def test_another_process_with_another_hash_seed_replays_them(
    tmp_path: Path, hash_seed: str, hashed: int
) -> None:
    folder, values, _ = recorded(max(FEW, hashed))
    chosen = [folder / f"{seed}.trace" for seed in range(hashed)]
    for path in chosen:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, str(here / "rehearsal.py"), str(tmp_path), hash_seed],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    order = sorted(chosen, key=lambda p: p.name)
    assert found == [values[int(path.stem)] for path in order]


def test_at_least_500_replays_are_made_of_the_larger_counts() -> None:
    assert PROGRAMS * AGAIN + 2 * HASHED >= 500


def test_the_programs_are_worth_replaying() -> None:
    """Without ordered release they come out otherwise: the order of delivery matters to them."""
    from appl.tracing.replaying import replayer

    class Eager(replayer.Replayer):
        def park(self, turn: Any, go: Any) -> None:
            go()

    folder, values, _ = recorded(FEW)
    wrong, before = 0, replayer.Replayer
    import rehearsal

    rehearsal.Replayer = Eager  # type: ignore[misc]
    try:
        for seed in range(0, FEW, 4):
            try:
                wrong += replay(seed, folder / f"{seed}.trace")[0] != values[seed]
            except Exception:
                wrong += 1
    finally:
        rehearsal.Replayer = before  # type: ignore[misc]
    assert wrong > FEW // 4 // 4


@ppl
async def sleeper(log: list[str]) -> None:
    await appl.sleep(0)
    log.append("woke")


@ppl
async def blocker(log: list[str]) -> None:
    """A generator expression cannot await: it holds the loop up where it needs an answer."""
    "question"
    answers = [gen(), gen(temperature=0.5), gen(temperature=1.0)]

    async def note(answer: str) -> None:
        log.append(answer)

    await asyncio.gather(*(note(answer) for answer in answers))


def side_by_side() -> list[str]:
    log: list[str] = []

    async def main() -> None:
        await asyncio.gather(sleeper(log), blocker(log))

    asyncio.run(main())
    return log


def test_a_sleep_that_ends_while_the_loop_is_held_up_ends_there_in_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorder = Recorder(path, durability="process")
    with Run(Echo(), instruments=[recorder], gate=recorder.gate):
        log = side_by_side()
    recorder.close()
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert side_by_side() == log
    replayer.finish()
