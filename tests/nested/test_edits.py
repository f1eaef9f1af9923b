"""Random programs with runs inside of runs are edited: a rerun pays for what is new alone.

What is new is what the edited program asks in a run of its own that no record answers, without what
was asked when it was recorded. Both are counted at the backend of the process.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import appl
from appl.session import predicted, replayed, rerun

from .paying import answers
from .programs import OWN, VARYING, Program

PROGRAMS, LONG, CHUNKS = 20, 1_000, 4


def unsaid(line: str) -> None:
    """Say nothing."""


class Edit:
    """The edit of one seed: what is wrong with its rerun."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.path = seed, folder / f"edited-{seed}.trace"
        self.program = Program(seed, without=VARYING)
        self.faults: list[str] = []

    def expect(self, what: str, is_so: bool, found: object = "") -> None:
        """Note that *what* is not so."""
        if not is_so:
            self.faults.append(f"{self.seed} {self.how}: {what}: {found}")

    def judge(self) -> list[str]:
        """The faults of a rerun after the edit."""
        with appl.record(self.path):
            _, recorded = self._counted()
        self.how = self.program.edit()
        with appl.record(trace=False):
            value, fresh = self._counted()
        new = fresh - recorded
        if not self.path.exists():
            return []  # it asked nothing itself
        foreseen = self._predicted()
        into = self.path.with_suffix(".rerun.trace")
        with rerun(self.path, into=into, say=unsaid):
            again, asked = self._counted()
        self.expect("value", again == value, (again, value))
        if self.program.kinds & set(OWN):  # what moved into a run of its own is asked there
            self.expect("paid too little", not new - asked, new - asked)
            self.expect("paid too much", not asked - fresh, asked - fresh)
        else:
            self.expect("paid", asked == new, (asked - new, new - asked))
        self.expect("foreseen", foreseen <= asked.total(), (foreseen, asked.total()))
        self._replays(into, value)
        return self.faults

    def _counted(self) -> tuple[Any, Counter[str]]:
        """The value of the program, and what was paid for it."""
        before = len(answers())
        value = json.loads(json.dumps(self.program.run()))
        return value, Counter(answer.digest for answer in answers()[before:])

    def _predicted(self) -> int:
        """How many calls a prediction says at least; it pays nothing."""
        before = len(answers())
        found = predicted(self.path, self.program.run)
        self.expect("paid by the prediction", len(answers()) == before)
        return len(found.fewest)

    def _replays(self, path: Path, value: Any) -> None:
        """The trace of the rerun is whole: a replay gives the same value, and nobody is asked."""
        if not path.exists():
            return
        with replayed(path):
            again, asked = self._counted()
        self.expect("replay of the rerun", again == value and not asked, (again, value, asked))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_an_edited_program_pays_for_its_edit_alone(chunk: int, folder: Path) -> None:
    seeds = range(chunk, PROGRAMS, CHUNKS)
    assert [fault for seed in seeds for fault in Edit(seed, folder).judge()] == []


@pytest.mark.long
def test_many_more_edits(folder: Path) -> None:
    seeds = range(10_000, 10_000 + LONG)
    assert [fault for seed in seeds for fault in Edit(seed, folder).judge()] == []
