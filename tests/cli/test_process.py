"""Plain ``python file.py``: recorded from its first call, ended when the process ends."""

from __future__ import annotations

import signal

import pytest

from appl.tracing import Trace

from .conftest import Project

ECHO = {"APPL_BACKEND": "appl.testing:Echo"}


def test_a_failure_that_nobody_looked_at_makes_the_exit_code_1(project: Project) -> None:
    project.write(
        "failing.py",
        "from appl.errors import BackendError\nfrom appl.testing import Scripted\n"
        "def backend(): return Scripted(lambda request: BackendError('no luck'))\n",
    )
    project.write(
        "script.py",
        "import atexit\nfrom prog import ask\natexit.register(print, 'atexit ran')\n"
        "ask('x')\nprint('end')\n",
    )
    done = project.python("script.py", APPL_BACKEND="failing:backend")
    assert done.code == 1
    assert done.out == "end\natexit ran\n"
    assert "BackendError: no luck" in done.err
    assert "in call /ask.0/gen.0" in done.err
    trace = Trace.open(project.traces[0])
    assert (trace.state, trace.reason) == ("finished", "failed")


def test_calls_in_flight_are_waited_for_at_the_end(project: Project) -> None:
    project.write("script.py", "from prog import ask\nfor c in 'abc': ask(c)\n")
    assert project.python("script.py", **ECHO).code == 0
    trace = Trace.open(project.traces[0])
    assert [call.outcome for call in trace.calls] == ["answered"] * 3
    assert trace.reason == "finished"


def test_an_exception_ends_the_run_as_failed(project: Project) -> None:
    project.write("script.py", "from prog import ask\nprint(ask('x'))\nraise KeyError('mine')\n")
    done = project.python("script.py", **ECHO)
    assert done.code == 1
    assert done.err.rstrip().endswith("KeyError: 'mine'")
    assert Trace.open(project.traces[0]).reason == "failed"


def test_sys_exit_keeps_its_code(project: Project) -> None:
    project.write("script.py", "import sys\nfrom prog import ask\nask('x')\nsys.exit(7)\n")
    assert project.python("script.py", **ECHO).code == 7
    assert Trace.open(project.traces[0]).reason == "finished"


def test_the_trace_can_be_switched_off(project: Project) -> None:
    project.write("script.py", "from prog import ask\nprint(ask('x'))\n")
    done = project.python("script.py", APPL_TRACE="off", **ECHO)
    assert done.code == 0
    assert done.err == ""
    assert not (project.folder / ".appl").exists()


def test_home_can_be_moved(project: Project) -> None:
    project.write("script.py", "from prog import ask\nprint(ask('x'))\n")
    project.python("script.py", APPL_HOME="elsewhere", **ECHO)
    assert len(list((project.folder / "elsewhere" / "runs").glob("*.trace"))) == 1


def test_a_trace_that_cannot_be_written_stops_the_first_call(project: Project) -> None:
    project.write("blocked", "a file where a folder should be")
    project.write("script.py", "from prog import ask\nprint(ask('x'))\n")
    done = project.python("script.py", APPL_HOME="blocked", **ECHO)
    assert done.code == 1
    assert "TraceWriteError" in done.err
    assert done.out == ""
    warned = project.python("script.py", APPL_HOME="blocked", APPL_ON_TRACE_ERROR="warn", **ECHO)
    assert warned.code == 0
    assert "goes on unrecorded" in warned.err


def test_a_forked_child_writes_nothing(project: Project) -> None:
    project.write(
        "script.py",
        "import os\nfrom prog import ask\nprint(ask('x'), flush=True)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\nprint(ask('y'))\n",
    )
    done = project.python("script.py", **ECHO)
    assert done.code == 0, done.err
    trace = Trace.open(project.traces[0])
    assert [call.outcome for call in trace.calls] == ["answered"] * 2


def test_a_thread_without_scope_belongs_to_the_run(project: Project) -> None:
    project.write(
        "script.py",
        "import threading\nfrom prog import ask\nask('main')\n"
        "t = threading.Thread(target=lambda: print(ask('thread')))\nt.start(); t.join()\n",
    )
    assert project.python("script.py", **ECHO).code == 0
    assert len(Trace.open(project.traces[0]).calls) == 2


NEVER = (
    "import asyncio\nfrom appl.testing import Instant\n"
    "class Never(Instant):\n"
    "    async def complete(self, request, emit=None):\n"
    "        print('asked', flush=True)\n"
    "        await asyncio.sleep(3600)\n"
)


def test_ctrl_c_ends_a_script_and_closes_its_trace(project: Project) -> None:
    project.write("never.py", NEVER)
    project.write("script.py", "from prog import ask\nstr(ask('x'))\n")
    running = project.process("script.py", cold=True, APPL_BACKEND="never:Never")
    assert running.stdout is not None
    assert running.stdout.readline() == "asked\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode in (130, -signal.SIGINT), err
    trace = Trace.open(project.traces[-1])
    assert (trace.state, trace.reason) == ("finished", "interrupted"), err


INTERRUPTED = """
import os, signal, sys, threading, time
from prog import ask

def is_in(name, frame):
    return frame is not None and (frame.f_code.co_name == name or is_in(name, frame.f_back))

def interrupt():
    main = threading.main_thread().ident  # which has no frame while it goes from fiber to fiber
    while not is_in({place!r}, sys._current_frames().get(main)):
        time.sleep(0)
    os.kill(os.getpid(), signal.SIGINT)

ask("x")
threading.Thread(target=interrupt, daemon={daemon}).start()
"""


@pytest.mark.parametrize(
    ("place", "daemon", "backend"),
    [("_sleep", True, "never:Never"), ("join_threads", False, "appl.testing:Echo")],
    ids=["while the end waits for an answer", "while it waits for a thread of the user"],
)
def test_ctrl_c_at_the_end_of_a_script_closes_its_trace(
    project: Project, place: str, daemon: bool, backend: str
) -> None:
    project.write("never.py", NEVER)
    project.write("script.py", INTERRUPTED.format(place=place, daemon=daemon))
    ended = project.python("script.py", APPL_BACKEND=backend)
    assert ended.code in (130, -signal.SIGINT), ended.err
    trace = Trace.open(project.traces[-1])
    assert (trace.state, trace.reason) == ("finished", "interrupted"), ended.err


def test_ctrl_c_before_python_lets_a_run_end_closes_its_trace(project: Project) -> None:
    project.write("never.py", NEVER)
    project.write(
        "script.py",
        "import atexit, threading\nfrom prog import ask\natexit.register(print, 'atexit ran')\n"
        "def broken_off(): raise KeyboardInterrupt\n"
        "ask('x')\nthreading._register_atexit(broken_off)\n",  # called before ours
    )
    ended = project.python("script.py", APPL_BACKEND="never:Never")
    assert ended.out.splitlines()[-1] == "atexit ran"
    assert "KeyboardInterrupt" in ended.err
    trace = Trace.open(project.traces[-1])
    assert (trace.state, trace.reason) == ("finished", "interrupted"), ended.err


def test_a_killed_script_leaves_a_readable_trace(project: Project) -> None:
    project.write("never.py", NEVER)
    project.write("script.py", "from prog import ask\nstr(ask('x'))\n")
    running = project.process("script.py", cold=True, APPL_BACKEND="never:Never")
    assert running.stdout is not None
    assert running.stdout.readline() == "asked\n"
    running.kill()
    running.communicate()
    assert Trace.open(project.traces[0]).state == "crashed"
    assert project.appl("trace", "show").code == 0


def test_a_trace_that_is_being_written_is_shown_as_running(project: Project) -> None:
    project.write("never.py", NEVER)
    project.write("script.py", "from prog import ask\nstr(ask('x'))\n")
    running = project.process("script.py", APPL_BACKEND="never:Never")
    assert running.stdout is not None
    assert running.stdout.readline() == "asked\n"
    try:
        assert "running" in project.appl("trace", "ls").out
    finally:
        running.kill()
        running.communicate()
