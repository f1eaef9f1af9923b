"""The budget of a command holds for all processes that its program starts, together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Project, Result

from .conftest import Bill

PROGRAM = """\
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import appl
from appl.errors import BudgetExceeded
from tests.nested.programs import ask

def part(count, name=""):
    good = 0
    for i in range(count):
        try:
            good += bool(str(ask(f"{name} {os.getpid()} {i}")))
        except BudgetExceeded:
            pass
    return good

def pool(kind):
    with ProcessPoolExecutor(2, get_context(kind)) as workers:
        children = [workers.submit(part, 6, str(i)) for i in range(4)]
        return part(2, "before") + sum(each.result() for each in children) + part(6, "after")

def fork():
    return pool("fork")

def spawn():
    return pool("spawn")

def forkserver():
    return pool("forkserver")

def separate():
    code = "from prog2 import part; print(part(6))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return int(done.stdout) + part(6)

def once():
    with ProcessPoolExecutor(1, get_context("fork")) as workers:
        return workers.submit(part, 3).result() + part(3)

def killed():
    with ProcessPoolExecutor(1, get_context("fork")) as workers:
        os.environ["APPL_TEST_KILL"] = "3"
        try:
            workers.submit(part, 6).result()
        except Exception as error:
            died = type(error).__name__
    return [died, part(9)]
"""


def run(project: Project, function: str, budget: str) -> Result:
    project.write("prog2.py", PROGRAM)
    words = ("-m", "appl", "run", "--budget", budget, f"prog2.py:{function}", "--json")
    return project.python(*words, cold=function in ("forkserver", "separate"))


@pytest.mark.parametrize("function", ["fork", "forkserver", "separate"])
def test_all_processes_together_keep_to_the_budget(
    project: Project, bill: Bill, function: str
) -> None:
    done = run(project, function, "calls=9")
    assert done.code == 0, done.err
    assert done.data["value"] == bill() == 9


def test_tokens_are_reserved_at_their_worst_by_all(project: Project, bill: Bill) -> None:
    project.write("appl.toml", "max_tokens = 10\n")
    done = run(project, "fork", "tokens=60")
    assert done.code == 0, done.err
    assert 0 < done.data["value"] == bill() <= 60 // 2


def test_what_a_killed_process_had_reserved_counts_as_spent(project: Project, bill: Bill) -> None:
    done = run(project, "killed", "calls=7")
    assert done.code == 0, done.err
    assert done.data["value"] == ["BrokenProcessPool", 4] and bill() == 7


def test_a_budget_that_is_enough_refuses_nothing_and_leaves_no_file(
    project: Project, bill: Bill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    assert run(project, "once", "calls=6").data["value"] == 6 == bill()
    assert list((tmp_path / "tmp").glob("appl-budget-*")) == []


def test_a_process_that_outlives_its_account_is_told(
    project: Project, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPL_BUDGET_ACCOUNT", str(project.folder / "gone"))
    project.write("prog2.py", PROGRAM)
    done = project.appl("run", "prog2.py:part", "--count", "1")
    assert done.code != 0 and "unset APPL_BUDGET_ACCOUNT" in done.err and bill() == 0
