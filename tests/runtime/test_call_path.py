"""How much code one ``gen()`` runs through: a slower way is seen at the change that made it.

Counts of calls do not depend on the machine. How far the I/O thread is when the program waits does
change them by a few, so the least of many calls counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

SCRIPT = """
import json, sys, threading
from pathlib import Path

import appl

ROOT = str(Path(appl.__file__).parent)
APART = ("appl-trace",)  # the thread that writes the trace
POLLING = ("loop_thread.py", "watchdog.py", "collecting.py")  # run by time, and not by calls
seen, on = [], [False]


def watch(frame, what, arg):
    file = frame.f_code.co_filename
    if what == "call" and on[0] and file.startswith(ROOT) and not file.endswith(POLLING):
        if threading.current_thread().name not in APART:
            seen.append((file, frame.f_code.co_qualname))


threading.setprofile(watch)
from appl.runtime.run import Run
from appl.testing import Instant
from appl.tracing import Recorder
import program

found = []
recorder = Recorder(Path("run.trace"), {})
with Run(Instant(), instruments=[recorder], gate=recorder.gate):
    sys.setprofile(watch)
    for _ in range(40):
        seen.clear()
        on[0] = True
        str(program.main())
        on[0] = False
        files = {file for file, _ in seen}
        classes = {name.split(".")[0] for _, name in seen if "." in name and "<" not in name}
        found.append((len(seen), len(files), len(classes)))
    sys.setprofile(None)
recorder.close()
print(json.dumps(min(found)))
"""
PROGRAM = """
from appl import gen, ppl

@ppl
def main():
    "Hello, who are you?"
    return gen(max_tokens=6, temperature=0)
"""


@cache
def counted(folder: Path) -> tuple[int, int, int]:
    """The calls of functions, files and classes of one warm recorded ``gen()``."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    calls, files, classes = json.loads(done.stdout)
    return calls, files, classes


def test_one_warm_recorded_call_runs_through_few_functions(tmp_path: Path) -> None:
    calls, files, classes = counted(tmp_path)
    assert calls <= 180, calls
    assert files <= 42, files
    assert classes <= 42, classes
