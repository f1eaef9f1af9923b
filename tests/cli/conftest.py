"""A folder of its own for each test, with one program in it, and the command inside this process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appl.cli import main

ROOT = Path(__file__).parents[2]

PROGRAM = """\
from appl import AIRole, gen, ppl

@ppl
def ask(question: str = "What?"):
    f"{question}"
    return gen()

@ppl
def pair(first: str, second: str = "two"):
    f"{first}"
    with AIRole():
        (a := gen())
    f"{second}"
    return [a, gen()]

async def later(question: str):
    return await ask(question)

def many(n: int = 3):
    return [ask(str(i)) for i in range(n)]

def lines(n: int = 2):
    for i in range(n):
        yield ask(str(i))

def boom():
    ask("before")
    return 1 / 0

def table():
    return {"answer": ask("table")}

def nothing():
    print("printed")

def ignored():
    ask.__wrapped__
    gen(messages=[{"role": "user", "content": "x"}], model="nobody")
"""


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass
class Project:
    """A folder with ``prog.py``, and the command line in it; answers come from ``Echo``.

    Processes are forks of a Python that has loaded the package, unless they are to be killed.
    """

    folder: Path
    programs: Path = Path(sys.executable).parent

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def appl(self, *words: str) -> Result:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(list(words))
            except SystemExit as done:
                code = int(done.code or 0)
        return Result(code, out.getvalue(), err.getvalue())

    def run(self, function: str, *words: str) -> Result:
        return self.appl("run", f"prog.py:{function}", *words, "--backend", "appl.testing:Echo")

    def python(self, *words: str, cold: bool = False, **environment: str) -> Result:
        done = self.process(*words, cold=cold, **environment)
        out, err = done.communicate(timeout=60)
        return Result(done.returncode, out, err)

    def process(self, *words: str, cold: bool = False, **environment: str) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
        return subprocess.Popen(
            [sys.executable if cold else self.programs / "python", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def traces(self) -> list[Path]:
        return sorted((self.folder / ".appl" / "runs").glob("*.trace"))


@pytest.fixture
def project(tmp_path: Path, warm: Path) -> Iterator[Project]:
    """The folder of the test, as working directory, with a program."""
    with contextlib.chdir(tmp_path):
        made = Project(tmp_path, warm)
        made.write("prog.py", PROGRAM)
        yield made
