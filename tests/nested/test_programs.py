"""Random programs with runs inside of runs: recorded, replayed, predicted, run again and cut off.

What was paid is counted at the backend of the process, whoever has asked it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import appl
from appl.errors import DivergenceError
from appl.session import predicted, replayed, rerun, resumed
from appl.testing import Echo, running
from appl.tracing import Trace, tape

from .cutting import keep_half
from .paying import BACKEND, DELAY, PAID, paid
from .programs import OWN, TIMED, Program

PROGRAMS, LONG = 504, 10_000
CHUNKS = 8


def unsaid(line: str) -> None:
    """Say nothing."""


@pytest.fixture
def _paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(PAID, str(tmp_path / "paid"))
    monkeypatch.setenv("APPL_BACKEND", BACKEND)
    monkeypatch.setenv(DELAY, "")  # each program sets its own
    monkeypatch.setenv("APPL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("APPL_DURABILITY", "process")
    return tmp_path


class Judge:
    """Runs the program of one seed in every way, and notes what is wrong."""

    def __init__(self, seed: int, folder: Path) -> None:
        os.environ[DELAY] = str(seed)
        self.seed, self.path = seed, folder / f"{seed}.trace"
        self.program = Program(seed)
        self.faults: list[str] = []
        before = len(paid())
        with appl.record(self.path):
            self.value = self._run()
        self.paid = paid()[before:]

    def _run(self) -> Any:
        return json.loads(json.dumps(self.program.run()))

    def expect(self, what: str, is_so: bool, found: object = "") -> None:
        """Note that *what* is not so."""
        if not is_so:
            self.faults.append(f"{self.seed} {what}: {found}")

    def judge(self) -> list[str]:
        """The faults of the program of this seed."""
        if not self.path.exists():
            return []  # it asks nothing itself
        self.replays()
        ways = (self.predicts, self.reruns, self.in_a_test, self.as_a_tape, self.cut_off)
        ways[self.seed % len(ways)]()
        self.previews()
        return self.faults

    def replays(self) -> None:
        """A replay gives the same value, and nobody is asked."""
        before = len(paid())
        try:
            with replayed(self.path):
                value = self._run()
        except Exception as error:
            self.expect("replay", False, f"{type(error).__name__}: {error!s:.300}")
            return
        self.expect("value of the replay", value == self.value, (value, self.value))
        self.expect("paid by the replay", len(paid()) == before, paid()[before:])

    def predicts(self) -> None:
        """An unedited program would ask nothing; to say so asks nobody."""
        before = len(paid())
        found = predicted(self.path, self.program.run)
        self.expect("predicted", not found.fewest, [call.address for call in found.fewest])
        self.expect("paid by the prediction", len(paid()) == before, paid()[before:])

    def reruns(self) -> None:
        """An unedited program pays nothing, and has the same value; an edited one what is new."""
        before = len(paid())
        with rerun(self.path, say=unsaid):
            value = self._run()
        self.expect("value of the rerun", value == self.value, (value, self.value))
        self.expect("paid by the rerun", len(paid()) == before, paid()[before:])

    def previews(self) -> None:
        """A preview asks nobody, also for a run of its own.

        That one polls without end, or waits for a thread for ever, is known after some seconds.
        """
        if self.program.kinds & {*TIMED, "thread"}:
            return
        before = len(paid())
        with appl.record(trace=False):
            appl.render(self.program.run)
        self.expect("paid by the preview", len(paid()) == before, paid()[before:])

    def in_a_test(self) -> None:
        """Inside of ``running`` only the given backend is asked."""
        before = len(paid())
        with running(Echo()) as seen:
            self._run()
        self.expect("paid in a test", len(paid()) == before, paid()[before:])
        self.expect("asked in a test", bool(seen.requests) == bool(self.paid))

    def as_a_tape(self) -> None:
        """A tape answers it; one that has not the runs of its own inside refuses them."""
        before, saved = len(paid()), self.path.with_suffix(".jsonl")
        tape.save(Trace.open(self.path), saved)
        try:
            with replayed(saved):
                value = self._run()
        except DivergenceError as error:
            self.expect("tape", bool(self.program.kinds & set(OWN)), f"{error!s:.300}")
        else:
            self.expect("value by the tape", value == self.value, (value, self.value))
        self.expect("paid by the tape", len(paid()) == before, paid()[before:])

    def cut_off(self) -> None:
        """What goes on from a part of the record pays for what is missing, and nothing twice."""
        known = self._cut()
        if known is None:
            return
        before = len(paid())
        try:
            with resumed(self.path, say=unsaid, trust=True):
                value = self._run()
        except Exception as error:
            self.expect("resumed", False, f"{type(error).__name__}: {error!s:.300}")
            return
        asked = Counter(paid()[before:])
        if not self.program.kinds & {*TIMED, "seen"}:  # what was not recorded is live again
            self.expect("value of the resumed run", value == self.value, (value, self.value))
        twice = {at: asked[at] for at in known if asked[at] > self.paid.count(at) - 1}
        if not self.program.kinds & set(OWN):
            self.expect("paid twice", not twice, twice)
        before, self.value = len(paid()), value
        self.replays()

    def _cut(self) -> list[str] | None:
        """Leave a part of the record; the addresses of the calls that are answered in it."""
        if not keep_half(self.path):
            return None
        calls = Trace.open(self.path).calls
        return [call.address for call in calls if call.outcome == "answered"]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_with_runs_inside_keep_every_promise(chunk: int, _paid: Path) -> None:
    seeds = range(chunk, PROGRAMS, CHUNKS)
    assert [fault for seed in seeds for fault in Judge(seed, _paid).judge()] == []


@pytest.mark.long
def test_many_more(_paid: Path) -> None:
    seeds = range(10_000, 10_000 + LONG)
    assert [fault for seed in seeds for fault in Judge(seed, _paid).judge()] == []
