"""Random programs with runs inside of runs, in processes that are killed while an answer arrives.

The process dies of SIGKILL at a drawn number of paid answers, then the same command goes on with its
trace, in another process. A twin that is never killed and not recorded tells what has to be paid.
"""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import appl
from appl.tracing import Trace
from tests.cli.conftest import Project, Result

from .conftest import Bill, outermost
from .paying import LAST_S, Answer, answers
from .programs import VARYING, Program

PROGRAMS, LONG = 6, 150
WRITTEN_S = 0.8 * LAST_S
"""What was paid so long before the kill is written: groups take 5 ms, and the machine is loaded."""


class Killed:
    """The program of one seed, killed and gone on with: what is wrong."""

    def __init__(self, seed: int, project: Project) -> None:
        self.seed, self.project = seed, project
        self.program = Program(seed, without=VARYING if seed % 2 else ())
        self.faults: list[str] = []

    def expect(self, what: str, is_so: bool, found: object = "") -> None:
        """Note that *what* is not so."""
        if not is_so:
            self.faults.append(f"{self.seed} {what}: {found}")

    def judge(self) -> list[str]:
        """The faults of the killed program."""
        value, needed = self._twin()
        if not needed:
            return []
        self.project.write(self.file, self.program.source)
        before = len(answers())
        at = random.Random(self.seed).randint(1, needed.total())
        done = self._run(APPL_TEST_KILL=str(at))
        paid = answers()[before:]
        if done.code != -signal.SIGKILL:  # it needed fewer answers in this schedule
            self.expect("run", done.code == 0, done.err)
            return self.faults
        self._goes_on(paid, value, needed)
        return self.faults

    def _goes_on(self, paid: list[Answer], value: Any, needed: Counter[str]) -> None:
        """Run it again: what was written is not paid again, and the rest is paid once."""
        recorded = self._recorded()
        self._replays_nothing(paid)
        before = len(answers())
        done = self._run()
        again = answers()[before:]
        self.expect("went on", done.code == 0, done.err[-1500:])
        if done.code:
            return
        killed_at = paid[-1].at
        lost = Counter(each.digest for each in paid if each.at > killed_at - WRITTEN_S)
        written = Counter(each.digest for each in paid) - lost
        self.expect("not written", not written - recorded, written - recorded)
        if not self.program.kinds & set(VARYING):
            self.expect("value", done.data["value"] == value, (done.data["value"], value))
            every = Counter(each.digest for each in [*paid, *again])
            self.expect("paid twice", not (every - needed) - lost, every - needed)
            self.expect("paid too little", not needed - every, needed - every)
        self._replays(done.data["value"])

    def _replays_nothing(self, paid: list[Answer]) -> None:
        """A replay of what is left asks nobody."""
        if self._name():
            self.project.appl("trace", "replay", *self._name(), "--json")
        self.expect("paid by a replay of a part", answers()[-1] == paid[-1])

    def _replays(self, value: Any) -> None:
        """The trace of the run that went on is whole, and repeats it in another process."""
        before = len(answers())
        done = self.project.appl("trace", "replay", *self._name(), "--json")
        is_same = done.code == 0 and done.data["value"] == value
        self.expect("replay", is_same, (done.out, done.err[-1500:], value))
        self.expect("paid by the replay", len(answers()) == before)

    def _twin(self) -> tuple[Any, Counter[str]]:
        """The value of the program when nothing is recorded, and what is paid for it."""
        before = len(answers())
        with appl.record(trace=False):
            value = json.loads(json.dumps(self.program.run()))
        return value, Counter(answer.digest for answer in answers()[before:])

    def _run(self, **environment: str) -> Result:
        words = ("-m", "appl", "run", f"{self.file}:main", "--json")
        return self.project.python(*words, **environment)

    def _name(self) -> list[str]:
        """The name of the outermost trace; none if nothing was recorded."""
        return outermost(self.project, f"killed_{self.seed}")[-1:]

    def _traces(self) -> list[Path]:
        return self.project.traces

    @property
    def file(self) -> str:
        return f"killed_{self.seed}.py"

    def _recorded(self) -> Counter[str]:
        """The digests of the calls that are answered in the traces."""
        calls = [call for path in self._traces() for call in Trace.open(path).calls]
        return Counter(call.content.hex() for call in calls if call.outcome == "answered")


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_killed_program_pays_for_nothing_twice(seed: int, project: Project, bill: Bill) -> None:
    assert Killed(seed, project).judge() == []


@pytest.mark.long
def test_many_more_kills(project: Project, bill: Bill) -> None:
    seeds = range(10_000, 10_000 + LONG)
    assert [fault for seed in seeds for fault in Killed(seed, project).judge()] == []


# -- what a replay does where the record of a killed run ends

WAITING = """\
import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tests.nested.programs import ask, in_thread

def twice():
    return str(ask("one")) + str(ask("two"))

def by_a_pool():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(twice).result()

def by_a_thread():
    return in_thread(twice)

async def by_a_task():
    said = asyncio.Queue()
    task = asyncio.create_task(feed(said))
    with suppress(TimeoutError):
        return await asyncio.wait_for(said.get(), 0.2)
    return await task

async def feed(said):
    said.put_nowait(str(await ask("one")) + str(await ask("two")))
"""

BESIDE = """\
import sys, threading

from appl.cli import main

threading.Thread(target=threading.Event().wait, name=sys.argv[1], daemon=True).start()
sys.exit(main(["trace", "replay"]))
"""


@pytest.mark.parametrize("function", ["by_a_pool", "by_a_thread", "by_a_task"])
def test_a_replay_ends_where_a_killed_run_did(project: Project, bill: Bill, function: str) -> None:
    project.write("waiting.py", WAITING)
    words = ("-m", "appl", "run", f"waiting.py:{function}")
    assert project.python(*words, APPL_TEST_KILL="2").code == -signal.SIGKILL
    done = project.appl("trace", "replay")
    assert done.code != 0 and "it had not ended when the record ends" in done.err
    assert bill() == 2


def test_a_replay_ends_beside_a_model_that_has_nothing_to_do(project: Project, bill: Bill) -> None:
    project.write("beside.py", BESIDE)
    project.write("waiting.py", WAITING)
    words = ("-m", "appl", "run", "waiting.py:by_a_thread")
    assert project.python(*words, APPL_TEST_KILL="2").code == -signal.SIGKILL
    done = project.python("beside.py", "appl-embedded")
    assert "it had not ended when the record ends" in done.err and bill() == 2


@pytest.mark.long
def test_a_replay_ends_beside_a_thread_that_does_nothing(project: Project, bill: Bill) -> None:
    project.write("beside.py", BESIDE)
    project.write("waiting.py", WAITING)
    words = ("-m", "appl", "run", "waiting.py:by_a_thread")
    assert project.python(*words, APPL_TEST_KILL="2").code == -signal.SIGKILL
    done = project.python("beside.py", "stranger")
    assert "it had not ended when the record ends" in done.err and bill() == 2
