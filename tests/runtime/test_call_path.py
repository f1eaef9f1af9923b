"""How much code one ``gen()`` runs through: a slower way is seen at the change that made it.

Counts of calls do not depend on the machine. How far the I/O thread is when the program waits does
change them by a few, so the least of many calls counts. The bounds lie a little above.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.testing.embedded_server import Served, serving

WATCH = """
import json, sys, threading
from pathlib import Path

import appl
import appl_backends

ROOTS = tuple(str(Path(package.__path__[0])) for package in (appl, appl_backends))
THREADS = ("MainThread", "appl-io")
# These run by time: also the shield, where the program's thread, and not the I/O thread, runs the loop.
POLLING = ("loop_thread.py", "shield.py", "watchdog.py", "collecting.py", "serial.py")
LOOKS = ("watchdog.py", "collecting.py")  # and so does all that they call
seen, on = [], [False]


def is_looked_at(frame):
    while frame is not None and not frame.f_code.co_filename.endswith(LOOKS):
        frame = frame.f_back
    return frame is not None


def watch(frame, what, arg):
    file = frame.f_code.co_filename
    if what == "call" and on[0] and file.startswith(ROOTS) and not file.endswith(POLLING):
        if threading.current_thread().name in THREADS and not is_looked_at(frame):
            seen.append((file, frame.f_code.co_qualname))


threading.setprofile(watch)
"""
SCRIPT = """
from appl.runtime.run import Run
from appl.testing import Instant
from appl.tracing import Recorder
from appl_backends.openai import OpenAI
from appl_backends.sglang import SGLang
import program

url, key, rounds = sys.argv[2:]
made = {
    "instant": lambda: (Instant(), None),
    "openai": lambda: (OpenAI(base_url=f"{url}/v1", api_key=key), "embedded"),
    "sglang": lambda: (SGLang(url=url, api_key=key, advise=lambda line: None), None),
}
backend, model = made[sys.argv[1]]()
found = []
recorder = Recorder(Path("run.trace"), {})
with Run(backend, instruments=[recorder], gate=recorder.gate, model=model):
    sys.setprofile(watch)
    for _ in range(int(rounds)):
        seen.clear()
        on[0] = True
        str(program.main())
        on[0] = False
        files = {file for file, _ in seen}
        classes = {name.split(".")[0] for _, name in seen if "." in name and "<" not in name}
        found.append((len(seen), len(files), len(classes)))
    sys.setprofile(None)
recorder.close()
print(json.dumps([min(each) for each in zip(*found)]))
"""
REPLAY = """
from pathlib import Path

from appl.runtime.run import Run
from appl.session import replayed
from appl.testing import Instant
from appl.tracing import Recorder
import program

path = Path("run.trace")
recorder = Recorder(path, {"backend": "instant"})
with Run(Instant(), instruments=[recorder], gate=recorder.gate):
    str(program.main())
recorder.close()
sys.setprofile(watch)
for warm in (False, True):
    on[0] = warm
    with replayed(path):
        str(program.main())
on[0] = False
sys.setprofile(None)
print(json.dumps(sorted({file for file, _ in seen})))
"""
REPLAYED_CALLS = """
from pathlib import Path

from appl.runtime.run import Run
from appl.session import replayed
from appl.testing import Instant
from appl.tracing import Recorder
import program

path, rounds = Path("run.trace"), 12
recorder = Recorder(path, {"backend": "instant"})
with Run(Instant(), instruments=[recorder], gate=recorder.gate):
    for _ in range(rounds):
        str(program.main())
recorder.close()
sys.setprofile(watch)
found = []
with replayed(path):
    for _ in range(rounds):
        seen.clear()
        on[0] = True
        str(program.main())
        on[0] = False
        found.append(len(seen))
sys.setprofile(None)
print(json.dumps(found[2:]))
"""
PROGRAM = """
from appl import gen, ppl

@ppl
def main():
    "Hello, who are you?"
    return gen(max_tokens=2, temperature=0)
"""


CROWD = """
from appl import gen, ppl

@ppl
def ask(number):
    f"Question {number}: who are you?"
    return gen(max_tokens=2, temperature=0)

def main():
    return " ".join([str(answer) for answer in [ask(number) for number in range(64)]])
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The embedded model behind HTTP, in another process."""
    with serving() as server:
        yield server


def run_through(program: str, backend: str, rounds: int, served: Served, folder: Path) -> list[int]:
    """The least number of functions, files and classes that *program* runs through in a round."""
    (folder / "program.py").write_text(program)
    (folder / "script.py").write_text(WATCH + SCRIPT)
    command = [sys.executable, "script.py", backend, served.url, served.api_key or "", f"{rounds}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found: list[int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("backend", "most"),
    [("instant", (104, 21, 26)), ("openai", (145, 27, 33)), ("sglang", (173, 30, 40))],
)
def test_one_warm_recorded_call_runs_through_few_functions(
    backend: str, most: tuple[int, int, int], served: Served, tmp_path: Path
) -> None:
    calls, files, classes = run_through(PROGRAM, backend, 30, served, tmp_path)
    assert calls <= most[0], calls
    assert files <= most[1], files
    assert classes <= most[2], classes


@pytest.mark.parametrize(("backend", "most"), [("openai", 166), ("sglang", 252)])
def test_each_of_many_calls_at_once_runs_through_few_functions(
    backend: str, most: int, served: Served, tmp_path: Path
) -> None:
    calls, _, _ = run_through(CROWD, backend, 6, served, tmp_path)
    assert calls <= 64 * most, calls / 64


def test_a_replay_of_one_call_runs_through_few_files(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "script.py").write_text(WATCH + REPLAY)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    files = json.loads(done.stdout)
    assert len(files) <= 51, files


def test_each_of_ten_replayed_calls_runs_through_few_functions(tmp_path: Path) -> None:
    """Whether all programs wait is looked for once, and not again by each look for another."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "script.py").write_text(WATCH + REPLAYED_CALLS)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout)
    assert len(counts) == 10 and max(counts) <= 500, counts
