"""Scripts, pytest and IPython show the frames of the user; `APPL_TRACEBACK=full` shows all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import json
from appl import gen, ppl

@ppl
def inner(kind):
    f"Say {kind}."
    if kind == "own":
        raise ValueError("mine")
    if kind == "library":
        json.loads("{")
    if kind == "cause":
        try:
            gen(nonsense=1)
        except TypeError as error:
            raise ValueError("mine") from error
    return gen(nonsense=1)

@ppl
def outer(kind):
    return inner(kind)
"""
ENDS = {
    "own": "ValueError: mine",
    "library": "Expecting property name enclosed",
    "cause": "ValueError: mine",
    "option": "UnknownOption: gen() has no option 'nonsense'",
}
HOSTS = {
    "script": [sys.executable, "script.py"],
    "thread": [sys.executable, "thread.py"],
    "pytest": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
    "notebook": [sys.executable, "shell.py"],
}
SHELL = """\
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("colors", "nocolor")
shell.run_cell("from program import outer")
shell.run_cell("outer({kind!r})")
"""


def shown(folder: Path, host: str, kind: str, **environment: str) -> str:
    """What *host* shows where a program fails in the way *kind*."""
    (folder / "program.py").write_text(PROGRAM, "utf-8")
    (folder / "script.py").write_text(f"from program import outer\nouter({kind!r})\n", "utf-8")
    thread = (
        "import threading\nfrom program import outer\n"
        f"thread = threading.Thread(target=outer, args=({kind!r},))\nthread.start()\nthread.join()\n"
    )
    (folder / "thread.py").write_text(thread, "utf-8")
    test = f"from program import outer\ndef test_it():\n    outer({kind!r})\n"
    (folder / "test_it.py").write_text(test, "utf-8")
    (folder / "shell.py").write_text(SHELL.format(kind=kind), "utf-8")
    env = {**os.environ, "HOME": str(folder), "COLUMNS": "200", **environment}
    done = subprocess.run(
        HOSTS[host], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("host", HOSTS)
def test_the_frames_of_the_user_are_shown(host: str, kind: str, tmp_path: Path) -> None:
    if host == "notebook":
        pytest.importorskip("IPython")
    told = shown(tmp_path, host, kind)
    assert ENDS[kind] in told
    assert "program.py" in told and "return inner(kind)" in told
    for ours in (
        "appl/function",
        "runtime/activation",
        "generate.py",
        "request_options.py",
    ):
        assert ours not in told, told


@pytest.mark.parametrize("host", HOSTS)
def test_all_frames_are_shown_on_demand(host: str, tmp_path: Path) -> None:
    if host == "notebook":
        pytest.importorskip("IPython")
    assert "request_options.py" in shown(tmp_path, host, "option", APPL_TRACEBACK="full")


BROKEN = """\
import appl
from appl.runtime.answers import request_options
request_options.named = None  # as a mistake of the package would be
appl.gen(messages=[appl.UserMessage("x")], model="embedded")
"""


def test_an_error_of_the_package_itself_keeps_its_frames(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(BROKEN, "utf-8")
    done = subprocess.run(HOSTS["script"], cwd=tmp_path, capture_output=True, text=True)
    assert "object is not callable" in done.stderr and "request_options.py" in done.stderr
