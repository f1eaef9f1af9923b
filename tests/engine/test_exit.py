"""The process ends while threads that nobody waits for still run programs: as lost workers do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """\
import sys, threading, time
from appl import call, gen, ppl
from appl.runtime.run import Run
from appl.testing import Fake

class Late:
    # the interpreter is being torn down: whoever wants it now is ended
    def __del__(self, sleep=time.sleep):
        sleep(0.05)

late = Late()
going = threading.Barrier(len(sys.argv))

@ppl
def program(way, first):
    "Go on."
    str(gen())
    if first:
        going.wait()
    while True:
        if way == "asks":
            str(gen())
        elif way == "polls":
            time.sleep(0.001)
        else:
            sum(range(100))

def work(way):
    with Run(Fake(lambda request: "x")):
        [str(each) for each in [call(program, way, first) for first in (True, False)]]

for way in sys.argv[1:]:
    threading.Thread(target=work, args=(way,), daemon=True).start()
going.wait()
"""


def ended(*ways: str) -> subprocess.CompletedProcess[str]:
    """A process that ends while programs of these *ways* go on, a thread each."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *ways],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_threads_that_are_inside_of_programs_do_not_crash_the_process() -> None:
    done = ended("asks", "polls", "computes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.long
@pytest.mark.parametrize("way", ["asks", "polls", "computes"])
def test_nor_does_any_of_them_in_many_tries(way: str) -> None:
    for _ in range(20):
        done = ended(*[way] * 4)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
