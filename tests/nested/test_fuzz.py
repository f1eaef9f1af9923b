"""``appl trace fuzz`` and ``check --replayable`` on programs with runs inside: nobody is asked."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Project

from .conftest import Bill, outermost
from .paying import BACKEND
from .programs import VARYING, Program

PROGRAMS, LONG = 6, 300

RACES = """\
from pathlib import Path

import appl
from tests.nested.programs import ask

def named(text):
    return text, str(ask(text))

def race():
    first = [text for text, _ in appl.as_completed(named, ["a", "b", "c"])][0]
    ask(f"the first was {first}").result()
    return first

def part():
    appl.run(race)
    return "done"

def own():
    ask("one").result()
    appl.run(race, own=True)
    return "done"

def sometimes():
    first, recorded = appl.run(race), Path("recorded")
    if not recorded.exists():
        recorded.write_text(first)
    if recorded.read_text() != first:
        appl.run(race, own=True)
    return "done"

def steady():
    return [appl.run(inside), appl.run(inside, own=True), str(ask("last"))]

def inside():
    return [str(ask(f"inside {i}")) for i in range(2)]
"""


def fuzzed(project: Project, seed: int) -> list[str]:
    """What is wrong with the fuzzed program of *seed*, whose value follows from no order."""
    program = Program(seed, without=VARYING)
    project.write(f"fuzzed_{seed}.py", program.source)
    assert project.appl("run", f"fuzzed_{seed}.py:main", "--json").code == 0
    names = outermost(project, f"fuzzed_{seed}")
    if not names:
        return []  # it asks nothing itself
    faults = []
    for order in ("0", "2", "4"):
        found = project.appl("trace", "fuzz", names[-1], "--seed", order, "--json").data
        faults += [f"{seed}, order {order}: {each['text']}" for each in found["findings"]]
        faults += [f"{seed}, order {order}: unclear"] * found["unclear"]
    return faults


@pytest.mark.parametrize("chunk", range(2))
def test_other_orders_change_nothing_in_runs_inside(
    project: Project, bill: Bill, chunk: int
) -> None:
    seeds = range(chunk, PROGRAMS, 2)
    assert [fault for seed in seeds for fault in fuzzed(project, seed)] == []


@pytest.mark.long
def test_many_more_are_fuzzed(project: Project, bill: Bill) -> None:
    assert [fault for seed in range(10_000, 10_000 + LONG) for fault in fuzzed(project, seed)] == []


def orders(project: Project) -> list[dict[str, str]]:
    """What depends on the order in the last run."""
    found = project.appl("trace", "fuzz", "--seeds", "12", "--json").data["findings"]
    return [each for each in found if each["kind"] == "order"]


@pytest.mark.parametrize("function", ["part", "own"])
def test_a_race_inside_is_found_and_nobody_is_asked(
    project: Project, bill: Bill, function: str
) -> None:
    project.write("races.py", RACES)
    project.appl("run", f"races.py:{function}")
    before = bill()
    (found,) = orders(project)
    assert "the first was" in found["details"]
    where = "/run.0/" if function == "part" else "in the run of its own at /"
    assert where in found["text"] and bill() == before


def test_a_run_of_its_own_that_only_another_order_has_is_unclear(
    project: Project, bill: Bill
) -> None:
    project.write("races.py", RACES)
    project.appl("run", "races.py:sometimes")
    before = bill()
    done = project.appl("trace", "fuzz", "--seeds", "12", "--json")
    assert not any("of its own" in each["text"] for each in done.data["findings"])
    assert done.data["unclear"] > 0 and bill() == before


def test_each_fault_reaches_a_call_inside(project: Project, bill: Bill) -> None:
    project.write("races.py", RACES)
    project.appl("run", "races.py:steady")
    before = bill()
    done = project.appl("trace", "fuzz", "--fault", "malformed", "--json")
    assert any("/run.0/ask.0/gen.0" in each["text"] for each in done.data["findings"]), done.out
    assert bill() == before


@pytest.mark.long  # eight processes
def test_runs_inside_are_replayable(project: Project, bill: Bill) -> None:
    project.write("races.py", RACES)
    done = project.appl("check", "--replayable", "races.py:steady", "--backend", BACKEND, "--json")
    assert done.code == 0, done.out + done.err
    assert bill() == 5
