"""Programs that a person starts in a shell, with their child processes, and ends with Ctrl-C."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from appl.tracing import Trace
from tests.terminal.screen import Screen, Shown, Typing
from tests.terminal.test_questions import Asking
from tests.terminal.test_screen import stage

CHILDREN = {
    "a child": '    subprocess.run([sys.executable, "-IS", "-c", CHILD], stderr=subprocess.DEVNULL)',
    "children beside": """
    started = [
        subprocess.Popen([sys.executable, "-IS", "-c", CHILD], stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    str(say("two"))
    for each in started:
        each.wait()
""",
    "a child of a tool": """
    run = lambda: subprocess.run([sys.executable, "-IS", "-c", CHILD], stderr=subprocess.DEVNULL)
    str(call(run))
""",
}
BODY = """    import subprocess
    CHILD = '''
import signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
print("child begun", flush=True)
time.sleep(60)
'''
    print(say("one"))
"""
"""With Python's own handler, a signal just before the sleep would only be looked at behind it."""
COMMANDS = ("appl run", "python")
CTRL_C = Typing("child begun", ctrl_c=True)


def closed(folder: Path) -> bool:
    """True if the one trace in *folder* says that its run was interrupted."""
    (path,) = (folder / ".appl" / "runs").glob("*.trace")
    trace = Trace.open(path)
    return (trace.state, trace.reason) == ("finished", "interrupted")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", CHILDREN)
def test_ctrl_c_ends_a_program_and_its_children(
    name: str, command: str, tmp_path: Path, warm: Path
) -> None:
    first, *words = command.split()
    screen = stage(tmp_path, BODY + CHILDREN[name])
    shown = screen.run(warm / first, *words, "prog.py", typing=[CTRL_C])
    assert shown.code in (130, -2) and "Fatal" not in shown.text, shown.text
    assert closed(tmp_path), shown.text


def in_shell(screen: Screen, line: str, after: str) -> Shown:
    """What bash shows of *line*, which Ctrl-C ends once *after* is there, and then of its code."""
    typing = [
        Typing("$ ", f"{line}\n"),
        Typing(after, ctrl_c=True),
        Typing("$ ", "echo code $?\n"),
        Typing("$ ", "exit\n"),
    ]
    screen.environment["PS1"] = "$ "
    return screen.run("bash", "--norc", "--noprofile", "-i", typing=typing, own=True)


@pytest.mark.parametrize("command", ["-m appl run prog.py", "prog.py"])
def test_ctrl_c_in_a_shell_ends_real_processes(command: str, tmp_path: Path) -> None:
    screen = stage(tmp_path, BODY + CHILDREN["children beside"])
    shown = in_shell(screen, f"{sys.executable} {command}", "child begun")
    assert "code 130" in shown.rows and closed(tmp_path), shown.text


def test_a_question_that_ctrl_c_ended_is_asked_again(tmp_path: Path, warm: Path) -> None:
    asking = Asking(tmp_path, warm)
    line = f"{sys.executable} -m appl run prog.py --way tool"
    shown = in_shell(asking, line, "Well? ")
    assert "code 130" in shown.rows and closed(tmp_path), shown.text
    again = asking.ours("tool", Typing("Well? ", "y\n"))
    assert (again.code, asking.effects) == (0, 1), again.text


def test_ctrl_c_in_a_shell_ends_a_chat(tmp_path: Path) -> None:
    screen = Screen(tmp_path, {"APPL_BACKEND": "appl.testing:Echo"})
    shown = in_shell(screen, f"{sys.executable} -m appl chat", "> ")
    assert "code 130" in shown.rows, shown.text
