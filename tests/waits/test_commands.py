"""The commands for runs that wait: exit codes, answers, lists, and what is due."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import appl
from appl import gen, ppl

@ppl
def ask(question):
    f"{question}"
    return gen(max_tokens=3)

def main(days: int = 0):
    first = str(ask("one"))
    if days:
        appl.sleep(days=days)
    return appl.ask_person("Go on?", bool), first

if __name__ == "__main__":
    print(main())
"""


@dataclass
class Folder:
    """A folder with a program that waits."""

    path: Path

    def env(self) -> dict[str, str]:
        own = {"HOME": str(self.path), "XDG_STATE_HOME": str(self.path / "state")}
        return {**os.environ, **own, "APPL_CTL": "off", "APPL_BACKEND": "appl.testing:Echo"}

    def run(self, *words: str, python: bool = False) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *(words if python else ("-m", "appl", *words))]
        return subprocess.run(
            command,
            cwd=self.path,
            env=self.env(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def data(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "program.py").write_text(PROGRAM)
    return Folder(tmp_path)


def test_a_run_that_waits_exits_with_75_and_the_same_command_goes_on(folder: Folder) -> None:
    done = folder.run("run", "program.py")
    assert done.returncode == 75 and not done.stdout
    assert "question: Go on?" in done.stderr and "appl trace answer" in done.stderr
    assert folder.run("run", "program.py").returncode == 75
    assert folder.run("trace", "answer", "last", "nowhere=yes").returncode == 4
    listed = folder.data("trace", "answer", "last")["questions"]
    assert [each["question"] for each in listed] == ["Go on?"]
    answered = folder.data("trace", "answer", "last", f"{listed[0]['address']}=yes", "--by", "ann")
    assert answered["answered"] == [listed[0]["address"]]
    done = folder.run("run", "program.py")
    assert done.returncode == 0 and done.stdout.startswith("True\n")
    assert "Go on? -> answered true by ann" in folder.run("trace", "show").stdout
    assert len(folder.data("trace", "ls")) == 1


def test_a_waiting_run_says_so_as_json_and_in_lists(folder: Folder) -> None:
    waiting = folder.data("run", "program.py")
    assert waiting["exit_code"] == 75 and waiting["waiting"][0]["text"] == "Go on?"
    (row,) = folder.data("trace", "ls", "--waiting")
    assert row["state"] == "waiting" and row["waits"] == waiting["waiting"]
    assert folder.run("trace", "replay").returncode == 75


def test_a_changed_program_that_waits_goes_on_and_says_what_changed(folder: Folder) -> None:
    assert folder.run("run", "program.py").returncode == 75
    text = (folder.path / "program.py").read_text()
    (folder.path / "program.py").write_text(text.replace("Go on?", "Really?"))
    done = folder.run("run", "program.py")
    assert done.returncode == 75 and "Really?" in done.stderr and "program.py" in done.stderr
    assert len(folder.data("trace", "ls")) == 1
    refused = folder.run("trace", "resume", "last")
    assert refused.returncode not in (0, 75) and "--edited" in refused.stderr


def test_a_script_exits_with_75_too(folder: Folder) -> None:
    done = folder.run("program.py", python=True)
    assert done.returncode == 75 and "Traceback" not in done.stderr
    assert "question: Go on?" in done.stderr and "appl trace resume" in done.stderr
    (question,) = folder.data("trace", "answer", "last")["questions"]
    assert folder.run("trace", "answer", "last", f"{question['address']}=no").returncode == 0
    done = folder.run("trace", "resume", "last")
    assert done.returncode == 0 and done.stdout.startswith("(False,")


def test_what_is_due_goes_on_and_nothing_else_does(folder: Folder) -> None:
    assert folder.run("run", "program.py").returncode == 75
    assert folder.run("run", "program.py", "--days", "3").returncode == 75
    assert folder.data("trace", "resume", "--due")["resumed"] == []
    (asked,) = [row for row in folder.data("trace", "ls", "--waiting") if _asks(row)]
    address = asked["waits"][0]["address"]
    assert folder.run("trace", "answer", asked["name"], f"{address}=yes").returncode == 0
    (gone_on,) = folder.data("trace", "resume", "--due")["resumed"]
    assert gone_on["run"] == asked["name"] and gone_on["state"] == "finished"
    assert folder.run("trace", "resume", "--due", "last").returncode == 2


def _asks(row: dict[str, Any]) -> bool:
    return any(entry["kind"] == "question" for entry in row["waits"])


def test_at_a_terminal_the_question_is_asked_there(folder: Folder) -> None:
    pid, screen = pty.fork()
    if not pid:
        os.chdir(folder.path)
        os.execve(sys.executable, [sys.executable, "-m", "appl", "run", "program.py"], folder.env())
    shown, answers, until = b"", [b"perhaps\n", b"yes\n"], time.monotonic() + 60
    while time.monotonic() < until:
        if not select.select([screen], [], [], 1)[0]:
            continue
        try:
            piece = os.read(screen, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if answers and shown.rstrip().endswith(b"[yes or no]"):
            shown += b"\n"
            os.write(screen, answers.pop(0))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown.decode()
    assert b"write yes or no, got 'perhaps'" in shown and b"True\r\n" in shown
