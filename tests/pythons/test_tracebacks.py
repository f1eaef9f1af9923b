"""Scripts, pytest and IPython show the frames of the user; `APPL_TRACEBACK=full` shows all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
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
HOSTS = ("script", "thread", "pytest", "notebook")
THREAD = """\
import threading
from program import outer
thread = threading.Thread(target=outer, args=({kind!r},))
thread.start()
thread.join()
"""
SHELL = """\
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("colors", "nocolor")
shell.run_cell("from program import outer")
for kind in sys.argv[1:]:
    print("== ", kind)
    shell.run_cell(f"outer({kind!r})")
"""


def printed(folder: Path, command: list[str | Path], **environment: str) -> str:
    (folder / "program.py").write_text(PROGRAM, "utf-8")
    env = {**os.environ, "HOME": str(folder), "COLUMNS": "200", **environment}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def in_pytest(folder: Path, kinds: Iterable[str], **environment: str) -> dict[str, str]:
    """What pytest shows of each test that fails in one of the *kinds*."""
    tests = "".join(f"def test_{kind}():\n    outer({kind!r})\n" for kind in kinds)
    (folder / "test_it.py").write_text(f"from program import outer\n{tests}", "utf-8")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    told = printed(folder, [sys.executable, *words], **environment).partition("short test")[0]
    parts = re.split(r"^_{5,} test_(\w+) _{5,}$", told, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def in_a_notebook(folder: Path, kinds: Iterable[str], **environment: str) -> dict[str, str]:
    """What IPython shows of each cell that fails in one of the *kinds*."""
    (folder / "shell.py").write_text(SHELL, "utf-8")
    told = printed(folder, [sys.executable, "shell.py", *kinds], **environment)
    parts = re.split(r"^==  (\w+)$", told, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def shown_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """What a host with an own process for all kinds shows of each; it is started once."""

    @cache
    def of(host: str) -> dict[str, str]:
        shows = in_pytest if host == "pytest" else in_a_notebook
        return shows(tmp_path_factory.mktemp(host), ENDS)

    return of


def in_a_script(folder: Path, host: str, kind: str, python: Path, **environment: str) -> str:
    script = THREAD if host == "thread" else "from program import outer\nouter({kind!r})\n"
    (folder / "script.py").write_text(script.format(kind=kind), "utf-8")
    return printed(folder, [python, "script.py"], **environment)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("host", HOSTS)
def test_the_frames_of_the_user_are_shown(
    host: str, kind: str, tmp_path: Path, warm: Path, shown_by: Callable[[str], dict[str, str]]
) -> None:
    if host == "notebook":
        pytest.importorskip("IPython")
    if host in ("script", "thread"):
        told = in_a_script(tmp_path, host, kind, warm / "python")
    else:
        told = shown_by(host)[kind]
    assert ENDS[kind] in told
    assert "program.py" in told and "return inner(kind)" in told
    for ours in (
        "appl/runtime/function",
        "runtime/activation",
        "generate.py",
        "request_options.py",
    ):
        assert ours not in told, told


@pytest.mark.parametrize("host", HOSTS)
def test_all_frames_are_shown_on_demand(host: str, tmp_path: Path, warm: Path) -> None:
    if host == "notebook":
        pytest.importorskip("IPython")
    full = {"APPL_TRACEBACK": "full"}
    if host in ("script", "thread"):
        told = in_a_script(tmp_path, host, "option", warm / "python", **full)
    else:
        shows = in_pytest if host == "pytest" else in_a_notebook
        told = shows(tmp_path, ["option"], **full)["option"]
    assert "request_options.py" in told


BROKEN = """\
import appl
from appl.runtime.answers import request_options
request_options.named = None  # as a mistake of the package would be
appl.gen(messages=[appl.UserMessage("x")], model="embedded")
"""


def test_an_error_of_the_package_itself_keeps_its_frames(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(BROKEN, "utf-8")
    told = printed(tmp_path, [sys.executable, "script.py"])
    assert "object is not callable" in told and "request_options.py" in told
