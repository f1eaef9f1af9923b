"""``appl trace resume`` and ``appl trace rerun``, and the same command again."""

from __future__ import annotations

import pytest

from appl.tracing import Trace
from tests.trust.forging import make_strangers

from .conftest import Project

STOPS = """\
import os
from appl import gen, ppl

@ppl
def ask(question):
    f"{question}"
    return gen(max_tokens=4)

def main(n: int = 4):
    said = []
    for i in range(n):
        said.append(str(ask(f"question {i}")))
        if i == 1 and os.path.exists("stop"):
            raise KeyboardInterrupt
    return said
"""


@pytest.fixture
def stopped(project: Project) -> Project:
    """A run of four calls that a Ctrl-C has ended after two."""
    project.write("stops.py", STOPS)
    (project.folder / "stop").write_text("")
    assert project.appl("run", "stops.py:main").code == 130
    (project.folder / "stop").unlink()
    return project


def test_resume_goes_on_and_says_what_was_there(stopped: Project) -> None:
    (path,) = stopped.traces
    done = stopped.appl("trace", "resume", "--json")
    assert done.code == 0, done.err
    assert len(done.data["value"]) == 4
    assert done.data["run"]["live"]["calls"] == 2 == done.data["run"]["reused"]["calls"]
    assert stopped.traces == [path] and Trace.open(path).reason == "finished"
    again = stopped.appl("trace", "resume")
    assert "4 of 4 calls are there" in again.err and "0 of 4 calls live" in again.err
    assert stopped.appl("trace", "replay").code == 0


def test_the_same_command_goes_on_unless_it_is_to_begin_anew(stopped: Project) -> None:
    done = stopped.appl("run", "stops.py:main")
    assert done.code == 0
    assert "where 2 of 2 calls are there; --fresh starts anew" in done.err
    assert "2 of them from the record" in done.err and len(stopped.traces) == 1
    assert "going on" not in stopped.appl("run", "stops.py:main").err  # that run is finished
    assert len(stopped.traces) == 2


@pytest.mark.parametrize("words", [["--fresh"], ["--n", "3"], ["--temperature", "0.5"]])
def test_another_command_or_fresh_begins_anew(stopped: Project, words: list[str]) -> None:
    assert "going on" not in stopped.appl("run", "stops.py:main", *words).err
    assert len(stopped.traces) == 2


def test_a_setting_keeps_runs_from_going_on(stopped: Project) -> None:
    (stopped.folder / "appl.toml").write_text('resume = "off"\n')
    assert "going on" not in stopped.appl("run", "stops.py:main").err


def test_a_changed_program_asks_for_edited(stopped: Project) -> None:
    stopped.write("stops.py", STOPS.replace("question {i}", "another {i}"))
    refused = stopped.appl("trace", "resume")
    assert refused.code == 3
    assert "changed since" in refused.err and "--edited" in refused.err
    assert "going on" not in stopped.appl("run", "stops.py:main").err
    (first, _) = stopped.traces
    done = stopped.appl("trace", "resume", first.stem, "--edited", "--json")
    assert done.data["run"]["live"]["calls"] == 4


def test_a_run_that_stopped_at_a_budget_goes_on_with_a_larger_one(project: Project) -> None:
    project.write("stops.py", STOPS)
    assert project.appl("run", "stops.py:main", "--budget", "calls=2").code == 1
    done = project.appl("trace", "resume", "--budget", "calls=4", "--json")
    assert done.code == 0, done.err
    assert done.data["run"]["live"]["calls"] == 2


def test_rerun_asks_what_was_edited_and_records_a_run_of_its_own(stopped: Project) -> None:
    stopped.appl("trace", "resume")
    stopped.write("stops.py", STOPS.replace('"question {i}"', '"question {i}" + "?" * (i == 2)'))
    predicted = stopped.appl("trace", "rerun", "--dry-run", "--json").data
    assert predicted["live"] == {"fewest": 1, "most": 1} and len(stopped.traces) == 1
    assert predicted["same_way"] == {"fewest": 1, "most": 1}
    assert predicted["decides"] == "/ask.2/gen.0"  # the program reads it, and asks more
    done = stopped.appl("trace", "rerun")
    assert done.code == 0, done.err
    assert "live: /ask.2/gen.0: prompt changed at part 1" in done.err
    assert "1 of 4 calls live" in done.err and "changed since" in done.err
    first, second = stopped.traces
    assert Trace.open(second).header["parent"]["run"] == first.stem
    assert stopped.appl("trace", "replay").code == 0


def test_the_rerun_of_a_script_is_named_as_the_script(project: Project) -> None:
    file = project.write("notes.py", 'from appl import gen\n\nprint(gen(messages="a"))\n')
    assert project.python(str(file)).code == 0
    assert project.appl("trace", "rerun").code == 0
    assert [path.stem.split("-")[1] for path in project.traces] == ["notes", "notes"]


def test_rerun_asks_anew_what_is_named(stopped: Project) -> None:
    told = stopped.appl("trace", "rerun", "--dry-run", "--anew", "/ask.0/gen.0").out
    assert "live: /ask.0/gen.0: asked anew" in told
    assert "no call was nobody" in stopped.appl("trace", "rerun", "--anew", "nobody").err


def test_rerun_pins_answers_and_sets_options(stopped: Project) -> None:
    stopped.appl("trace", "resume")
    words = ("--pin", "ask.0/gen.0=pinned", "--set", "ask.1/*.temperature=0.5")
    done = stopped.appl("trace", "rerun", *words, "--json")
    assert done.data["value"][0] == "pinned" and done.data["run"]["pinned"] == 1
    (live,) = done.data["run"]["live"]
    assert live["cause"] == "set temperature null -> 0.5"
    assert stopped.appl("trace", "replay").code == 0
    assert "no call was nobody" in stopped.appl("trace", "rerun", "--pin", "nobody=x").err


def test_a_trace_from_elsewhere_is_not_gone_on_with_unasked(stopped: Project) -> None:
    (path,) = stopped.traces
    copy = make_strangers(path, stopped.folder / "copy.trace")
    for command in ("resume", "rerun"):
        refused = stopped.appl("trace", command, str(copy))
        assert refused.code == 2 and "--trust" in refused.err
    assert stopped.appl("trace", "resume", str(copy), "--trust").code == 0
