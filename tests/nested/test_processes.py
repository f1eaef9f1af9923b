"""Random programs with steps in other processes: who pays is counted at the backend, wherever it is.

A child has the settings of the command, and no keys. While a record or a test's backend answers its
parent it may ask nobody; what the run was told through ``appl.observe`` is repeated without it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from appl.tracing import Trace
from tests.cli.conftest import Project, Result

from .conftest import Bill, outermost
from .paying import BACKEND, answers
from .programs import OWN, PROCESSES, VARYING, Program

LONG = 40
REFUSED = "was started by a program that"
IN_A_TEST = """\
import sys
from pathlib import Path
from appl.session import replayed
from appl.testing import Echo, running
from appl.tracing import Trace, tape
from {module} import main

if __name__ == "__main__":  # a spawned process imports this file
    if sys.argv[1] == "running":
        with running(Echo()):
            main()
    else:
        saved = Path("{module}.jsonl")
        tape.save(Trace.open(Path(sys.argv[2])), saved)
        with replayed(saved):
            main()
"""


SCRIPT = """\
from {module} import main
from tests.nested.programs import ask

if __name__ == "__main__":
    main()
    str(ask("{name}: the last call"))
"""


class Parent:
    """The program of one seed, with processes of these kinds: what is wrong.

    As a *script* it is recorded and repeated as ``python file.py``, which gives no value and has no
    runs inside: there they are runs of their own.
    """

    def __init__(
        self,
        seed: int,
        kinds: tuple[str, ...],
        observed: bool,
        project: Project,
        script: bool = False,
    ) -> None:
        runs = ("run", "record", "call", "map", "thread", "state", "refused", "failed")
        without = (*VARYING, *OWN, *(runs if script else ()))
        self.program = Program(seed, without, kinds, observed)
        self.project, self.module = project, f"parent_{seed}_{int(observed)}"
        self.name, self.faults = f"{seed} {kinds} {observed} {script}", list[str]()
        self.script = f"script_{seed}.py" if script else None
        project.write(f"{self.module}.py", self.program.source)
        project.write(f"test_{self.module}.py", IN_A_TEST.format(module=self.module))
        project.write(f"script_{seed}.py", SCRIPT.format(module=self.module, name=self.name))

    def expect(self, what: str, is_so: bool, found: object = "") -> None:
        """Note that *what* is not so."""
        if not is_so:
            self.faults.append(f"{self.name} {what}: {found}")

    def judge(self, ways: int) -> list[str]:
        """The faults of the program; *ways* bounds how many repetitions are tried."""
        before = len(answers())
        if self.script is not None:
            done = self.project.python(self.script, cold=True, APPL_MODEL="the-model")
        else:
            done = self._appl("run", f"{self.module}.py:main", "--model", "the-model", "--json")
        self.expect("run", done.code == 0, done.err[-2000:])
        if done.code:
            return self.faults
        paid = answers()[before:]
        self.paid, self.count = before + len(paid), len(paid)
        self.expect("a process paid", len({each.process for each in paid}) > 1)
        self.expect("model", {each.model for each in paid} == {"the-model"}, paid)
        repetitions: list[Callable[[], None]] = [self.replay, self.dry_run]
        if self.script is None:
            self.value = done.data["value"]
            repetitions += [self.as_a_tape, self.in_a_test, self.keeps_to_a_budget]
        random.Random(self.name).shuffle(repetitions)
        for repeat in repetitions[:ways]:
            repeat()
        return self.faults

    def keeps_to_a_budget(self) -> None:
        """With a budget of half of its answers, no more are paid by all processes together."""
        before, most = len(answers()), self.count // 2 + 1
        words = ("run", "--fresh", "--budget", f"calls={most}", f"{self.module}.py:main")
        self._appl(*words, "--model", "the-model", "--json")
        paid = answers()[before:]
        self.expect("paid beyond the budget", len(paid) <= most, paid)
        self.paid += len(paid)

    def replay(self) -> None:
        """A replay gives the value if it was told what the processes returned, else refuses."""
        self._repeated("replay", self._appl("trace", "replay", self.trace, "--json"), True)

    def dry_run(self) -> None:
        """A dry run asks nobody, and says so or why it ended."""
        done = self._appl("trace", "rerun", self.trace, "--dry-run", "--json")
        self._unpaid("dry run")
        self.expect("dry run", not done.data["asked"], done.data["asked"])
        if not self.program.is_observed:
            self.expect("words of the dry run", REFUSED in done.out + done.err, done.out)

    def as_a_tape(self) -> None:
        """A tape is a record as another."""
        path = f".appl/runs/{self.trace}.trace"
        done = self.project.python(f"test_{self.module}.py", "tape", path, cold=True)
        self._repeated("tape", done, False)

    def in_a_test(self) -> None:
        """Processes do not have the backend of a test, and may ask no other one."""
        done = self.project.python(f"test_{self.module}.py", "running", cold=True)
        self._unpaid("a test")
        self.expect("words in a test", REFUSED in done.err, done.err)

    def _repeated(self, what: str, done: Result, has_value: bool) -> None:
        self._unpaid(what)
        if not self.program.is_observed:
            is_refused = done.code != 0 and REFUSED in done.err
            self.expect(f"words of the {what}", is_refused, done.err)
        else:
            self.expect(what, done.code == 0, done.err)
            if has_value and self.script is None and done.code == 0:
                self.expect(f"value of the {what}", done.data["value"] == self.value)

    def _unpaid(self, what: str) -> None:
        """*what* has paid nothing since the program was recorded."""
        paid = answers()[self.paid :]
        self.expect(f"paid by {what}", not paid, paid)

    @property
    def trace(self) -> str:
        """The name of the parent's trace."""
        if self.script is None:
            return outermost(self.project, self.module)[0]
        return next(
            path.stem
            for path in self.project.traces
            if any(
                call.messages.message.content == f"{self.name}: the last call"
                for call in Trace.open(path).calls
            )
        )

    def _appl(self, *words: str) -> Result:
        return self.project.python("-m", "appl", *words, cold=True)


@pytest.mark.parametrize(
    ("kind", "is_observed", "script"),
    [("subprocess", False, False), ("fork", True, False), ("fork", False, True)],
)
def test_processes_ask_nobody_while_their_parent_is_answered(
    project: Project, bill: Bill, kind: str, is_observed: bool, script: bool
) -> None:
    seed = PROCESSES.index(kind)
    assert Parent(seed, (kind,), is_observed, project, script).judge(ways=1) == []


@pytest.mark.long
def test_many_more_with_processes(project: Project, bill: Bill) -> None:
    faults = []
    for seed in range(10_000, 10_000 + LONG):
        kinds = tuple(random.Random(seed).choices(PROCESSES, k=2))
        faults += Parent(seed, kinds, seed % 2 == 0, project, seed % 3 == 0).judge(ways=5)
    assert faults == []


KEYS = """\
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import appl
from tests.nested.programs import ask

appl.init(backends={"mine": {"type": "openai", "api_key": "secret-key-" + "of-mine"}})

def seen(_=None):
    return [name for name, value in os.environ.items() if "secret-key-of-mine" in value]

def main():
    str(ask("open the run"))
    found = [seen()]
    for kind in ("fork", "forkserver"):
        with ProcessPoolExecutor(1, get_context(kind)) as pool:
            found.append(pool.submit(seen).result())
    code = "import keys; print(len(keys.seen()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return [*found, done.stdout.strip()]
"""


def test_a_process_gets_no_key_of_the_settings(project: Project, bill: Bill) -> None:
    project.write("keys.py", KEYS)
    done = project.python("-m", "appl", "run", "keys.py:main", "--json", cold=True)
    assert done.code == 0, done.err
    assert done.data["value"] == [[], [], [], "0"]


COPIES = """\
from multiprocessing import get_context
from tests.nested.programs import ask

def main():
    str(ask("parent"))
    child = get_context("fork").Process(target=lambda: str(ask("child")))
    child.start()
    child.join()
"""


EARLY = f"""\
from multiprocessing import get_context
import appl
from tests.nested.programs import ask

def main():
    child = get_context("fork").Process(target=lambda: str(ask("child")))
    child.start()
    child.join()
    with appl.record(backend="{BACKEND}"):
        str(ask("own"))
    str(ask("parent"))
"""


@pytest.mark.parametrize("words", [("replay",), ("rerun", "--dry-run")], ids=" ".join)
def test_a_process_that_asks_before_its_parent_is_refused(
    project: Project, bill: Bill, words: tuple[str, ...]
) -> None:
    project.write("early.py", f"{EARLY}\nmain()\n")
    assert project.python("early.py").code == 0 and bill() == 3
    parent = project.traces[-1].stem
    done = project.python("-m", "appl", "trace", words[0], parent, *words[1:])
    assert REFUSED in done.err and bill() == 3, done.err


def test_a_preview_asks_nobody(project: Project, bill: Bill) -> None:
    project.write("early.py", EARLY)
    done = project.python("-m", "appl", "render", "early.py")
    assert (done.code, bill(), project.traces) == (0, 0, []), done.err
    assert "the answers of a run of its own at" in done.out and REFUSED in done.err


def test_a_check_asks_only_its_backend(project: Project, bill: Bill) -> None:
    project.write("early.py", EARLY)
    done = project.python("-m", "appl", "check", "--replayable", "early.py")
    assert (done.code, bill()) == (0, 0), done.err


def test_the_trace_of_a_forked_process_names_the_program(project: Project, bill: Bill) -> None:
    project.write("copies.py", COPIES)
    done = project.python("-m", "appl", "run", "copies.py")
    assert done.code == 0 and len(project.traces) == 2, done.err
    for path in project.traces:
        trace = Trace.open(path)
        assert "-copies-" in path.name
        assert trace.header["entry"]["file"] == str(project.folder / "copies.py")
        assert str(project.folder / "copies.py") in trace.header["programs"]
