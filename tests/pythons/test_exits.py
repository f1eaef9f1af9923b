"""How a plain script ends: its exit code, what it leaves behind, and nothing of ours on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from appl.base.threads import REFUSES
from appl.tracing import Trace

HEAD = """\
from concurrent.futures import ThreadPoolExecutor
import asyncio, multiprocessing, os, signal, sys, threading
import appl
from appl import call, gen, ppl

@ppl
def say(word):
    f"Say {word}."
    return gen(max_tokens=4)

def plain(word):
    return word

@ppl
def nothing():
    return "nothing"

async def later():
    await say("later")
    say("and more")

def child():
    str(say("child"))

def last():
    threading.main_thread().join()

def on_and_on():
    while True:
        str(say("again"))

def two_more():
    str(say("one"))
    str(say("two"))

"""
ENDS = {
    "without an answer": ("nothing()", 0, 0),
    "with an answer": ("str(say('a'))", 0, 1),
    "with answers that nobody waits for": ("[say(each) for each in 'abc']", 0, 3),
    "after a function on a worker thread": ("call(plain, 'a'); call(say, 'b')", 0, 1),
    "with an exit code": ("say('a'); raise SystemExit(3)", 3, 1),
    "with the reason as an exit code": ("say('a'); sys.exit('no')", 1, 1),
    "with an error": ("say('a'); raise ValueError('mine')", 1, None),
    "with a failure that nobody looks at": ("say('a'); say('word ' * 5000)", 1, 2),
    "with that and an idle pool of threads": (
        "ThreadPoolExecutor().submit(plain, 1); say('word ' * 5000)",
        1,
        1,
    ),
    "by Ctrl-C": ("str(say('a')); os.kill(os.getpid(), signal.SIGINT); signal.pause()", -2, 1),
    "inside asyncio.run": ("asyncio.run(later())", 0, 2),
    "at once": ("str(say('a')); os._exit(4)", 4, 1),
    "beside a thread": ("threading.Thread(target=child, daemon=True).start(); say('a')", 0, None),
    "beside a thread that never ends": (
        "threading.Thread(target=on_and_on, daemon=True).start(); str(say('a'))",
        0,
        None,
    ),
    "after a thread": ("t = threading.Thread(target=child); t.start(); t.join()", 0, 1),
    "before a thread": ("str(say('a')); threading.Timer(0.2, two_more).start()", 0, 3),
    "before a thread that waits for the main one": (
        "say('a'); threading.Thread(target=threading.main_thread().join).start(); "
        "threading.Thread(target=last).start()",
        0,
        1,
    ),
    "after a block": ("with appl.record():\n    say('a')", 0, 1),
    "in an answer's midst": ("print(next(iter(appl.run(say, 'a'))))", 0, 1),
    "beside a forked child": ("say('a'); os.fork() or os._exit(5)", 0, 1),
}
if not REFUSES:  # CPython 3.12.0 and 3.12.1 start no thread there, so no run can be opened
    ENDS["before a thread that makes the first call"] = (
        "threading.Timer(0.2, two_more).start()", 0, 2,
    )  # fmt: skip
TRACEBACKS = ("with an error", "by Ctrl-C")  # a call that nobody waits for is named by its line
CHILD = """
if __name__ == "__main__":
    str(say("parent"))
    context = multiprocessing.get_context({how!r})
    process = context.Process(target=child)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


COLD = ("with an error", "by Ctrl-C", "beside a thread that never ends")
"""These have a Python of their own; the others have a fork of one that has loaded the package."""


def ended(
    folder: Path, body: str, python: Path | str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """The script *body* after it has run in *folder*."""
    (folder / "script.py").write_text(HEAD + body + "\n", "utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("APPL_")}
    return subprocess.run(
        [python, "script.py"], cwd=folder, env={**env, "HOME": str(folder)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def traces(folder: Path) -> list[Trace]:
    home = folder / ".appl"
    return [Trace.open(path, home=home) for path in sorted((home / "runs").glob("*.trace"))]


@pytest.mark.parametrize("how", ENDS)
def test_a_script_ends(how: str, tmp_path: Path, warm: Path) -> None:
    body, code, calls = ENDS[how]
    done = ended(tmp_path, body, sys.executable if how in COLD else warm / "python")
    assert done.returncode == code, done.stderr
    assert "interpreter shutdown" not in done.stderr
    assert ("Traceback" in done.stderr) == (how in TRACEBACKS), done.stderr
    if calls is not None:
        assert [len(trace.calls) for trace in traces(tmp_path)] == [calls] * bool(calls)


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_a_child_of_a_script_has_a_run_of_its_own(how: str, tmp_path: Path) -> None:
    done = ended(tmp_path, CHILD.format(how=how))
    assert done.returncode == 0, done.stderr
    assert sorted(len(trace.calls) for trace in traces(tmp_path)) == [1, 1], done.stderr
    assert all(trace.state == "finished" for trace in traces(tmp_path))
