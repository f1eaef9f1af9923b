"""``appl ctl`` beside ``appl run``: two processes, one socket."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appl.cli import main
from appl.parts.control import live_runs
from appl.tracing import Trace

from .live import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]

PROGRAM = '''\
import sys, threading
from appl import call, gen, ppl
from appl.errors import CallCancelled
from appl.testing import Held

class Told(Held):
    """Says which calls have come, on stdout; answers those that are named on stdin."""

    async def complete(self, request, emit=None):
        print("asked", request.address, flush=True)
        return await super().complete(request, emit)

def backend():
    made = Told(concurrency=2)
    def listen():
        for line in sys.stdin:
            made.release(*line.split())
    threading.Thread(target=listen, daemon=True).start()
    return made

@ppl
def ask(question):
    f"{question}"
    return gen()

def said(answer):
    try:
        return str(answer)
    except CallCancelled:
        return "cancelled"

def main():
    return [said(each) for each in [ask(c) for c in "abc"]]

@ppl
def again(first):
    f"after {first}"
    return gen()

def deep():
    first = ask("a")
    second = again(first)
    return [said(first), said(second)]
'''


class Other:
    """``appl run`` in a process of its own."""

    def __init__(self, folder: Path, *words: str, script: str = "", **environment: str) -> None:
        (folder / "prog.py").write_text(PROGRAM)
        path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
        self.process = subprocess.Popen(
            [sys.executable, *([script] if script else ["-m", "appl", "run", *words])],
            cwd=folder, env={**os.environ, "PYTHONPATH": path, **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def has(self, *addresses: str) -> None:
        """Return when all of *addresses* have come to its backend."""
        assert self.process.stdout is not None
        missing = set(addresses)
        while missing:
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            missing.discard(line.removeprefix("asked").strip())

    def release(self, *addresses: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(addresses) + "\n")
        self.process.stdin.flush()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Callable[..., Other]]:
    made: list[Other] = []

    def start(*words: str, **environment: str) -> Other:
        told = {"APPL_BACKEND": "prog:backend", "APPL_CTL": "on", **environment}
        made.append(Other(tmp_path, *words, **told))  # it can be reached at its first call
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


def ctl(*words: str) -> tuple[int, str, str]:
    """The command in this process: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["ctl", *words])
        except SystemExit as done:
            code = int(done.code or 0)
    return code, out.getvalue(), err.getvalue()


def data(*words: str) -> Any:
    code, out, err = ctl(*words, "--json")
    assert code == 0, err
    return json.loads(out)


A, B, C = (f"/ask.{i}/gen.0" for i in range(3))


def test_a_run_is_listed_shown_paused_cancelled_and_replayed(other: Any, tmp_path: Path) -> None:
    run = other("prog.py:main")
    run.has(A, B)
    (entry,) = data()
    assert entry["program"] == "prog" and entry["state"] == "running"
    assert entry["pid"] == run.process.pid
    assert ctl()[1].splitlines()[1].endswith("2 running, 1 in the queue, 0 waiting for parts")
    assert ctl("list")[1] == ctl()[1]
    paused = f"appl: {entry['run']}: paused; 2 calls on their way still\n"
    assert ctl("pause", "--run", entry["run"]) == (0, paused, "")
    code, out, _ = ctl("show", "prog")
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith(f"{entry['run']}: paused, began ")
    assert lines[2] == "held: 2 on their way (at most 2 at once)"
    assert (
        next(line for line in lines if line.startswith(A)).split("  ")[1]
        == f"{tmp_path}/prog.py:24"
    )
    assert next(line for line in lines if line.startswith(C)).endswith(
        "number 1 in the queue: the run is paused"
    )
    assert f"waits for {A}  {tmp_path}/prog.py:" in out
    assert ctl("cancel", A)[1] == f"appl: cancelled {A}\n"
    assert ctl("resume", str(run.process.pid))[1].endswith(": running\n")
    run.has(C)
    run.release(B, C)
    code, out, err = run.end()
    assert code == 0
    values = out.splitlines()
    assert values[0] == "cancelled" and len(values) == 3
    assert "appl ctl: paused" in err and f"appl ctl: {A} was cancelled" in err
    assert data() == []
    replayed = subprocess.run(
        [sys.executable, "-m", "appl", "trace", "replay"], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )  # fmt: skip
    assert replayed.stdout.splitlines() == values, replayed.stderr


def test_the_queue_goes_on_when_more_may_be_sent_at_once(other: Any) -> None:
    run = other("prog.py:main", "--concurrency", "1")
    run.has(A)
    more = ctl("set", "concurrency", "5")[1]
    assert more == "appl: held: at most 2 at once, as many as it takes\n"
    run.has(B)
    run.release(A, B, C)
    assert run.end()[0] == 0


def test_a_raised_budget_lets_the_run_go_on(other: Any, tmp_path: Path) -> None:
    (tmp_path / "appl.toml").write_text("[budget]\ncalls = 1\n")
    run = other("prog.py:main")
    run.has(A)
    eventually(
        lambda: data("show")["counts"] == {"worker": 2, "queue": 1, "prompt": 0, "record": 0}
    )
    assert "budget of calls: 0 of 1 spent, 1 reserved" in ctl("show")[1]
    assert ctl("set", "budget", "calls=3", "cost=none")[1] == "appl: budget: calls 3\n"
    run.has(B)
    run.release(A, B, C)
    code, out, err = run.end()
    assert "appl ctl: budget: calls 3, no limit of cost" in err
    assert code == 0 and len([line for line in out.splitlines() if "asked" not in line]) == 3


def test_watching_goes_on_until_the_run_is_over(other: Any) -> None:
    run = other("prog.py:main")
    run.has(A, B)
    path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    watching = subprocess.Popen(
        [sys.executable, "-m", "appl", "ctl", "show", "--watch", "--json"],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["counts"]["worker"] == 2
    run.release(A, B, C)
    assert run.end()[0] == 0
    rest, _ = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 0
    assert all(json.loads(line)["run"] for line in rest.splitlines())


@pytest.mark.parametrize("waiting", [A, C], ids=["with the backend", "in the queue"])
def test_a_run_that_goes_on_after_a_crash_keeps_what_was_cancelled(
    other: Any, tmp_path: Path, waiting: str
) -> None:
    (tmp_path / "appl.toml").write_text('durability = "process"\n')
    run = other("prog.py:main")
    run.has(A, B)
    ctl("cancel", waiting)
    if waiting == A:
        run.has(C)
    run.release(B)
    eventually(lambda: B not in {each["call"] for each in data("show")["calls"]})
    (path,) = (tmp_path / ".appl" / "runs").glob("*.trace")
    eventually(lambda: Trace.open(path).by_address[B].outcome == "answered")
    run.process.kill()
    run.end()
    left = C if waiting == A else A
    again = other("prog.py:main")
    again.has(left)
    again.release(left)
    code, out, err = again.end()
    values = [line for line in out.splitlines() if not line.startswith("asked")]
    assert code == 0, err
    assert values["abc".index("a" if waiting == A else "c")] == "cancelled"
    assert values.count("cancelled") == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_nothing_is_left_of_a_run_that_was_broken_off(other: Any, home: Path, sent: int) -> None:
    run = other("prog.py:main")
    run.has(A, B)
    assert len(live_runs()) == 1
    run.process.send_signal(sent)
    run.end()
    left = list((home / "appl").iterdir())
    assert bool(left) is (sent == signal.SIGKILL)
    assert ctl()[1] == "no run is live\n"
    assert list((home / "appl").iterdir()) == []


def test_a_stopped_process_is_told_as_such(other: Any) -> None:
    run = other("prog.py:main")
    run.has(A, B)
    run.process.send_signal(signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, run.process.pid, os.WSTOPPED | os.WNOWAIT)  # all of its threads stand
        assert "does not answer within" in ctl()[1]
    finally:
        run.process.send_signal(signal.SIGCONT)
    assert data()[0]["state"] == "running"


def test_the_setting_keeps_a_run_to_itself(other: Any, home: Path) -> None:
    run = other("prog.py:main", APPL_CTL="off")
    run.has(A, B)
    assert data() == []
    assert not (home / "appl").exists()


def test_what_waits_for_what(other: Any) -> None:
    run = other("prog.py:deep")
    run.has(A)
    found = eventually(lambda: (v := data("show"))["counts"]["prompt"] and v)
    by_call = {each["call"]: each for each in found["calls"]}
    later = by_call["/again.0/gen.0"]
    assert later["parts"] == [A] and later["line"] == 38
    (program,) = found["programs"]
    assert program["for"] == A and program["function"] == "said"
    run.release(A, "/again.0/gen.0")
    assert run.end()[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show"], "no run is live"),
        (["show", "x"], "no run is live"),
        (["cancel", "/x"], "no run is live"),
        (["pause"], "no run is live"),
        (
            ["set", "concurrency", "many"],
            "write appl ctl set concurrency N, a number from 1 on, got 'many'",
        ),
        (["set", "budget", "call=5"], "write calls=N, tokens=N or cost=X"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(words: list[str], message: str) -> None:
    code, out, err = ctl(*words)
    assert code in (1, 2) and out == ""
    assert err.startswith("appl: ") and message in err and "Traceback" not in err
    failed = ctl(*words, "--json")
    assert json.loads(failed[1])["error"]["message"] in err


def test_an_unknown_run_and_call_are_told_with_the_nearest(other: Any) -> None:
    run = other("prog.py:main")
    run.has(A, B)
    (entry,) = data()
    word = entry["run"].partition("-")[2]
    code, _, err = ctl("show", f"{word}x")
    assert code == 1 and f"no live run is '{word}x'; did you mean '{word}'" in err
    code, _, err = ctl("cancel", "/ask.9/gen.0")
    assert code == 1 and "did you mean '/ask." in err


def test_a_script_can_be_reached_too(other: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("from prog import main\nprint(main())\n")
    run = other("prog.py:main", script="script.py")
    run.has(A, B)
    (entry,) = data()
    assert entry["program"] == "script"
    assert Trace.open(Path(entry["trace"])).state == "running"
    run.release(A, B, C)
    assert run.end()[0] == 0


def test_what_a_run_says_reaches_no_terminal_raw(other: Any, tmp_path: Path) -> None:
    run = other("prog.py:main")
    run.has(A, B)
    (live,) = live_runs()
    from appl.cli.ctl import view_lines

    evil = "\x1b]0;owned\x07\x1b[2J"
    view = data("show", "--content")
    view["run"] = view["calls"][0]["file"] = view["programs"][0]["name"] = evil
    view["calls"][0] |= {"call": evil, "prompt": evil, "error": {"type": evil, "message": evil}}
    view["backends"][0]["backend"] = evil
    shown = "\n".join(view_lines(view))
    assert "\x1b" not in shown and "\x07" not in shown
    assert live.name


def test_on_a_terminal_it_is_redrawn_in_place(other: Any) -> None:
    run = other("prog.py:main")
    run.has(A, B)
    path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    watching = subprocess.Popen(
        [sys.executable, "-m", "appl", "ctl", "show", "--watch"],
        env={**os.environ, "PYTHONPATH": path, "TERM": "xterm"}, stdout=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"waits for" not in seen:
        seen += os.read(mine, 65_536)
    run.release(A, B, C)
    assert run.end()[0] == 0
    with contextlib.suppress(OSError):  # the terminal is gone with its last program
        while piece := os.read(mine, 65_536):
            seen += piece
    assert watching.wait(PATIENCE_S) == 0
    os.close(mine)
    assert b"\x1b[" in seen and A.encode() in seen


@pytest.mark.long
def test_what_answers_is_imported_when_somebody_asks(other: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys\nfrom prog import main\nmain()\nprint([*sys.modules])\n"
    )
    run = other("prog.py:main", script="script.py")
    run.has(A, B)
    run.release(A, B, C)
    imported = run.end()[1]
    assert "'appl.parts.control.server'" in imported
    assert "'appl.parts.control.requests'" not in imported
    assert "'appl.parts.control.view'" not in imported
