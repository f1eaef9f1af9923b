"""Commands on programs with runs and processes inside: who pays is counted at the backend."""

from __future__ import annotations

import pytest

from appl.tracing import Trace
from tests.cli.conftest import Project

from .conftest import Bill
from .paying import BACKEND, paid

PROGRAM = """\
import asyncio
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import appl
from appl import gen, ppl

@ppl
def ask(q):
    f"{q}"
    return gen(max_tokens=4)

@ppl
def agent(q):
    f"{q}"
    found = appl.run(part, q)
    f"{found}"
    return gen(max_tokens=4)

def part(q):
    return str(ask(f"inner {q}"))

def plain():
    first, inner = str(ask("one")), [appl.run(part, str(i)) for i in range(3)]
    if os.path.exists("die"):
        appl.sleep(0.1)  # far longer than the writer gathers
        os.kill(os.getpid(), 9)
    return [first, inner, str(ask("last"))]

def inside():
    return str(agent("two"))

def block():
    with appl.record() as session:
        inner = str(ask("inner"))
    return [inner, session.path.name, str(ask("outer"))]

async def awaited():
    return [await appl.run(part, "a"), await appl.run(part, "b"), str(await ask("c"))]

async def gathered():
    return await asyncio.gather(*(appl.run(part, str(i)) for i in range(4)))

def own():
    first = str(ask("one"))
    inner = [appl.run(part, str(i), own=True) for i in range(2)]
    with appl.record(max_tokens=9):
        named = str(ask("named"))
    return [first, inner, named, str(ask("last"))]

def own_first():
    return [appl.run(three, own=True), str(ask("last"))]

def three():
    return [part(str(i)) for i in range(3)]

def only_own():
    return appl.run(part, "alone", own=True)

def spawn():
    return pool("spawn")

def fork():
    return pool("fork")

def forkserver():
    return pool("forkserver")

def pool(kind):
    with ProcessPoolExecutor(1, get_context(kind)) as workers:
        return [str(ask("here")), list(workers.map(part, ["a", "b"]))]
"""
PARTS = {"plain": 5, "inside": 2, "block": 2, "awaited": 3, "gathered": 4}
OWN = {"own": 5, "only_own": 1}


def run(project: Project, function: str, *words: str) -> object:
    project.write("runs.py", PROGRAM)
    done = project.appl("run", f"runs.py:{function}", "--json", *words)
    assert done.code == 0, done.err
    return done.data["value"]


@pytest.mark.parametrize("function", PARTS)
def test_a_run_inside_a_run_is_a_scope_of_its_trace(
    project: Project, bill: Bill, function: str
) -> None:
    run(project, function)
    (path,) = project.traces
    assert bill() == PARTS[function] == len(Trace.open(path).calls)
    assert any("/run.0" in call.address for call in Trace.open(path).calls)


@pytest.mark.parametrize("function", [*PARTS, *OWN])
def test_no_repetition_pays(project: Project, bill: Bill, function: str) -> None:
    value = run(project, function)
    before = bill()
    assert before == (PARTS | OWN)[function]
    replay = project.appl("trace", "replay", "--json")
    assert replay.code == 0, replay.err
    assert replay.data["value"] == value
    assert project.appl("trace", "rerun", "--dry-run", "--json").data["asked"] == []
    assert bill() == before
    again = project.appl("trace", "rerun", "--json").data
    assert again["run"]["live"] == [] and bill() == before
    if function != "block":  # which has the name of its trace in its value
        assert again["value"] == value
    assert project.appl("trace", "replay").code == 0 and bill() == before


@pytest.mark.parametrize("function", ["plain", "inside", "awaited"])
def test_an_exported_test_pays_nothing(project: Project, bill: Bill, function: str) -> None:
    run(project, function)
    before = bill()
    assert project.appl("trace", "export-test", "--output", "test_it.py").code == 0
    done = project.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert done.code == 0, done.out + done.err
    assert bill() == before


def test_a_killed_run_pays_for_no_part_twice(project: Project, bill: Bill) -> None:
    project.write("runs.py", PROGRAM)
    (project.folder / "die").write_text("")
    done = project.python("-m", "appl", "run", "runs.py:plain", cold=True)
    assert done.code == -9, done.err
    (project.folder / "die").unlink()
    (path,) = project.traces
    known = [call.address for call in Trace.open(path).calls if call.outcome == "answered"]
    assert project.appl("run", "runs.py:plain").code == 0
    assert project.traces == [path] and "/run.0/ask.0/gen.0" in known
    assert all(paid().count(address) == 1 for address in known)


def test_the_budget_of_a_command_holds_for_runs_inside(project: Project, bill: Bill) -> None:
    project.write("runs.py", PROGRAM)
    done = project.appl("run", "--budget", "calls=1", "runs.py:gathered")
    assert done.code != 0 and "budget" in done.err and bill() == 1


def test_the_backend_of_a_command_answers_runs_inside(
    project: Project, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("APPL_BACKEND")
    run(project, "plain", "--backend", BACKEND)
    run(project, "own", "--backend", BACKEND)
    assert bill() == PARTS["plain"] + OWN["own"]


@pytest.mark.parametrize("kind", ["spawn", "fork", "forkserver"])
def test_processes_have_the_settings_and_ask_nobody_in_a_replay(
    project: Project, bill: Bill, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.delenv("APPL_BACKEND")
    project.write("runs.py", PROGRAM)
    words = ["-m", "appl", "run", f"runs.py:{kind}", "--backend", BACKEND]
    assert (done := project.python(*words, cold=True)).code == 0, done.err
    assert bill() == 3
    outer = [path for path in project.traces if f"-{kind}-" in path.name]
    replayed = project.python("-m", "appl", "trace", "replay", cold=True)  # the outermost is last
    assert replayed.code != 0 and "was started by a program that a record answers" in replayed.err
    assert "appl.observe" in replayed.err and len(outer) == 1 and bill() == 3


def test_a_process_draws_on_the_budget_of_the_command(
    project: Project, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("runs.py", PROGRAM)
    words = ["-m", "appl", "run", "--budget", "calls=1", "runs.py:fork"]
    done = project.python(*words, cold=True)
    assert done.code != 0 and "the budget of 1 calls" in done.err and bill() == 1


def test_an_own_run_names_the_outer_one_which_is_the_last(project: Project, bill: Bill) -> None:
    run(project, "own")
    outer, *inner = sorted(project.traces, key=lambda path: "-own-" not in path.name)
    heads = [Trace.open(path).header["outer"] for path in inner]
    assert [head["run"] for head in heads] == [outer.stem] * 3
    assert {head["address"] for head in heads} == {""}
    seen = [each.value for each in Trace.open(outer).observations if each.kind == "run"]
    assert sorted(seen) == sorted(path.name for path in inner)
    assert '"one"' in project.appl("trace", "show", "--json").out or "one" in (
        project.appl("trace", "show").out
    )


def test_a_new_own_run_is_refused_while_a_record_answers(project: Project, bill: Bill) -> None:
    run(project, "plain")
    before = bill()
    project.write(
        "runs.py", PROGRAM.replace("appl.run(part, str(i))", "appl.run(part, 'x', own=True)")
    )
    done = project.appl("trace", "replay")
    assert done.code != 0 and "a run of its own begins at" in done.err and bill() == before


def test_what_an_edit_changes_in_an_own_run_is_predicted_and_reported(
    project: Project, bill: Bill
) -> None:
    run(project, "own")
    project.write("runs.py", PROGRAM.replace('f"inner {q}"', 'f"within {q}"'))
    before = bill()
    found = project.appl("trace", "rerun", "--dry-run", "--json").data
    assert found["asked"] == [] and bill() == before
    assert [len(each["asked"]) for each in found["inner"]] == [1, 1, 0]
    again = project.appl("trace", "rerun", "--json").data["run"]
    assert [each["live"] for each in again["inner"]] == [1, 1, 0] and bill() == before + 2


@pytest.mark.parametrize("edited", ["temperature=0.8", "own=True"])
def test_an_edited_setting_of_an_own_run_is_predicted_and_asked(
    project: Project, bill: Bill, edited: str
) -> None:
    program = PROGRAM.replace("appl.record(max_tokens=9)", "appl.record(temperature=0.9)")
    project.write("runs.py", program)
    project.appl("run", "runs.py:own")
    project.write("runs.py", program.replace("temperature=0.9", edited))
    project.write("appl.toml", "temperature = 0.5\n")  # other runs have what was recorded
    before = bill()
    found = project.appl("trace", "rerun", "--dry-run", "--json").data
    assert [len(each["asked"]) for each in found["inner"]] == [0, 0, 1] and bill() == before
    again = project.appl("trace", "rerun", "--json").data["run"]
    assert [each["live"] for each in again["inner"]] == [0, 0, 1] and bill() == before + 1


def test_a_killed_run_goes_on_in_a_run_of_its_own_that_came_first(
    project: Project, bill: Bill
) -> None:
    project.write("runs.py", PROGRAM)
    words = ("-m", "appl", "run", "runs.py:own_first")
    assert project.python(*words, APPL_TEST_KILL="3").code == -9
    assert project.python(*words).code == 0
    assert bill() == 3 + 4 - 2


# -- budgets of blocks

SPENDING = """\
import appl
from appl import gen, ppl

@ppl
def ask(q):
    f"{q}"
    return gen(max_tokens=4)

def until():
    with appl.budget(calls=3) as block:
        rounds = 0
        while block.spent.calls < 2:
            ask(f"round {rounds}").result()
            rounds += 1
        return [rounds, list(block.spent), block.unpriced]

def refused():
    said = []
    with appl.budget(calls=4):
        try:
            for i in range(10):
                said.append(str(ask(f"q{i}")))
        except appl.errors.BudgetExceeded:
            said.append("stop")
    return said

def at_once():
    said = []
    with appl.budget(calls=4):
        for each in [ask(f"q{i}") for i in range(10)]:
            try:
                said.append(str(each))
            except appl.errors.BudgetExceeded:
                said.append("stop")
    return said
"""


@pytest.mark.parametrize(("function", "calls"), [("until", 2), ("refused", 4), ("at_once", 4)])
def test_what_a_block_has_spent_is_not_spent_again(
    project: Project, bill: Bill, function: str, calls: int
) -> None:
    project.write("spend.py", SPENDING)
    value = project.appl("run", f"spend.py:{function}", "--json").data["value"]
    assert bill() == calls
    replay = project.appl("trace", "replay", "--json")
    assert replay.code == 0, replay.err
    assert replay.data["value"] == value
    assert project.appl("trace", "rerun", "--dry-run", "--json").data["asked"] == []
    again = project.appl("trace", "rerun", "--json").data
    assert again["value"] == value and again["run"]["live"] == [] and bill() == calls


@pytest.mark.parametrize("function", ["refused", "at_once"])
def test_a_raised_budget_lets_through_as_many_more_as_predicted(
    project: Project, bill: Bill, function: str
) -> None:
    project.write("spend.py", SPENDING)
    project.appl("run", f"spend.py:{function}")
    project.write("spend.py", SPENDING.replace("calls=4", "calls=6"))
    found = project.appl("trace", "rerun", "--dry-run", "--json").data
    assert len(found["asked"]) == 2 and bill() == 4
    assert len(project.appl("trace", "rerun", "--json").data["run"]["live"]) == 2 and bill() == 6


def test_an_observation_that_an_edit_adds_shifts_no_amounts(project: Project, bill: Bill) -> None:
    project.write("spend.py", SPENDING)
    value = project.appl("run", "spend.py:until", "--json").data["value"]
    project.write("spend.py", SPENDING.replace("rounds = 0", "rounds = int(appl.random())", 1))
    again = project.appl("trace", "rerun", "--json").data
    assert again["value"] == value and again["run"]["live"] == [] and bill() == 2
