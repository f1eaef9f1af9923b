"""However a program ends, each command reports, pays for nothing that is recorded, and ends so."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Project

from .conftest import Bill

ENDS = {
    "returns": ("return", 0, 1),
    "exits": ("sys.exit()", 0, 1),
    "exits with a code": ("sys.exit(7)", 7, 1),
    "leaves a call": ("appl.call(ask, 'two'); sys.exit(7)", 7, 2),
    "leaves a thread": ("thread.start(); main_ends.release()", 0, 2),
    "leaves a thread and exits": ("thread.start(); main_ends.release(); sys.exit(7)", 7, 2),
    "asks at its exit": ("atexit.register(lambda: print(ask('two')))", 0, 1),
}
"""The last statement of a program, its exit code, and how many calls it makes."""

PROGRAM = """\
import appl, atexit, sys, threading
from tests.nested.programs import ask

main_ends = threading.Lock()
main_ends.acquire()

def late():
    with main_ends:
        print("late", ask("late"))

thread = threading.Thread(target=late)

def main():
    print(ask("one"))
    {end}

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("way", ["python", "run"])
@pytest.mark.parametrize("name", ENDS)
def test_each_command_reports_of_a_program_however_it_ends(
    project: Project, bill: Bill, name: str, way: str
) -> None:
    end, code, calls = ENDS[name]
    project.write("ends.py", PROGRAM.format(end=end))

    def command(*words: str) -> tuple[int, str, str]:
        done = project.python("-m", "appl", *words, cold=True)
        assert bill() == calls, (words, done.err)
        assert "RuntimeError" not in done.err
        return done.code, done.out, done.err

    if way == "python":
        done = project.python("ends.py", cold=True)
        first = done.code, done.out, done.err
    else:
        first = command("run", "ends.py")
    assert first[0] == code and bill() == calls, first
    run = project.traces[-1].stem
    again = command("trace", "replay", run)
    assert again[:2] == first[:2], (again, first)
    assert f"replayed {calls} call" in again[2]
    assert f"0 of {calls} calls would be live" in command("trace", "rerun", run, "--dry-run")[1]
    rerun = command("trace", "rerun", run)
    assert rerun[:2] == first[:2] and f"0 of {calls} calls live" in rerun[2], rerun
    resumed = command("trace", "resume", run)
    assert resumed[:2] == first[:2] and f"0 of {calls} calls live" in resumed[2], resumed
    assert command("trace", "export-test", run)[0] == 0
    if "thread" not in name:  # a test ends with its function
        tested = project.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_ends.py")
        assert "1 passed" in tested.out and bill() == calls, tested.out
    rendered = command("render", "ends.py")
    assert rendered[0] == 0 and "[user]\none" in rendered[1], rendered
    assert len(project.traces) == 2  # the run and its rerun


def test_a_run_reports_as_json_of_a_program_that_exits(project: Project, bill: Bill) -> None:
    project.write("ends.py", PROGRAM.format(end="sys.exit(7)"))
    done = project.python("-m", "appl", "run", "--json", "ends.py", cold=True)
    assert done.code == 7 and json.loads(done.out)["run"]["calls"] == bill() == 1


def test_a_replay_asks_for_every_call_of_a_program_that_exits(project: Project, bill: Bill) -> None:
    project.write("ends.py", PROGRAM.format(end="sys.exit()"))
    assert project.python("ends.py", cold=True).code == 0
    project.write("ends.py", PROGRAM.format(end="sys.exit()").replace('print(ask("one"))', "pass"))
    done = project.python("-m", "appl", "trace", "replay", "last", cold=True)
    assert done.code == 3 and "1 of 1 recorded calls were never asked for" in done.err


@pytest.mark.parametrize("words", [("rerun",), ("resume",)], ids=" ".join)
def test_a_script_that_asks_nothing_any_more_is_reported(
    project: Project, bill: Bill, words: tuple[str, ...]
) -> None:
    project.write("ends.py", PROGRAM.format(end="return"))
    assert project.python("ends.py", cold=True).code == 0
    project.write("ends.py", "print('nothing')\n")
    done = project.python("-m", "appl", "trace", *words, "last", "--edited", cold=True)
    assert done.code == 0 and "0 of 0 calls live" in done.err, done.err
    assert "not asked for any more" in done.err


def test_a_preview_does_not_wait_for_the_threads_of_its_program(
    project: Project, bill: Bill
) -> None:
    waits = "print(ask('two')); main_ends.release()"
    source = PROGRAM.format(end=waits).replace('print(ask("one"))', "thread.start()")
    project.write("ends.py", source)
    done = project.python("-m", "appl", "render", "ends.py", cold=True)
    assert done.code == 0 and "[user]\ntwo" in done.out and bill() == 0


def test_a_first_call_after_the_main_thread_is_refused_in_words(
    project: Project, bill: Bill
) -> None:
    source = "threading.main_thread().join()\n    print(ask('late'))"
    project.write("ends.py", f"import threading\n{LATE.format(end=source)}")
    done = project.python("ends.py", cold=True)
    assert "the first call comes after the main thread has ended" in done.err, done.err
    assert bill() == 0


LATE = """\
from tests.nested.programs import ask

def late():
    {end}

threading.Thread(target=late).start()
"""
