"""Programs as APPL's tutorial and README teach them, unchanged: what they print, what is asked.

Each file in ``programs/`` is a script; ``printed/`` holds what it prints, and under a line of
dashes the prompts that it sends, by address.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl import record
from appl.testing import Scripted, running
from appl.tracing import Trace

from .answers import FEATURES, SCRIPTS, loud

FOLDER = Path(__file__).parent
PROGRAMS = sorted(file.stem for file in (FOLDER / "programs").glob("*.py"))
TYPED = "hi\nexit\nyo\nhm\nexit\n"
ARGUMENTS = {"command_line": ["--name", "Bo"]}
NEEDS_MORE = {"image_prompt", "parallel_tools", "react", "several_servers", "tool_call"} | {
    "virtual_tool"
}
"""What the small model cannot do: see images, choose tools, be another model."""


def printed(name: str) -> str:
    """What the program prints, run as a script."""
    out = io.StringIO()
    with started(name), warnings.catch_warnings(), contextlib.redirect_stdout(out):
        warnings.simplefilter("ignore", DeprecationWarning)
        runpy.run_path(str(FOLDER / "programs" / f"{name}.py"), run_name="__main__")
    return out.getvalue()


@contextlib.contextmanager
def started(name: str) -> Iterator[None]:
    """Arguments and input of a script, as a shell gives them."""
    before = sys.argv, sys.stdin
    sys.argv, sys.stdin = [name, *ARGUMENTS.get(name, [])], io.StringIO(TYPED)
    try:
        yield
    finally:
        sys.argv, sys.stdin = before


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "several_servers"])
@pytest.mark.parametrize("sequential", [False, True])
def test_a_published_program_runs_unchanged(name: str, sequential: bool) -> None:
    script = SCRIPTS.get(name, loud)
    with running(Scripted(script, features=FEATURES), sequential=sequential) as seen:
        said = printed(name)
    prompts = "\n".join(f"{a}\n{text}" for a, text in sorted(seen.prompts.items()))
    expected = (FOLDER / "printed" / f"{name}.txt").read_text("utf-8")
    assert f"{said}{'-' * 20}\n{prompts}\n" == expected


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NEEDS_MORE])
def test_it_runs_on_the_embedded_model(name: str) -> None:
    with record(trace=False, backend="embedded", max_tokens=40, seed=1):
        assert printed(name).strip()


def test_servers_are_names_for_models(tmp_path: Path, warm: Path) -> None:
    program = FOLDER / "programs" / "several_servers.py"
    root = FOLDER.parents[1]
    done = subprocess.run(
        [warm / "python", str(program)],
        cwd=tmp_path,
        env={
            "PYTHONPATH": f"{root}:{root / 'backends'}",
            "APPL_BACKEND": "tests.compat.answers:Loud",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "ONE PLUS TWO?\nTHREE PLUS FOUR?\n", done.stderr
    (file,) = (tmp_path / ".appl" / "runs").glob("*.trace")
    assert [(call.model, call.sampling) for call in Trace.open(file).calls] == [
        ("model-a", '{"temperature":0.0}')
    ] * 2


def test_every_program_is_compared() -> None:
    compared = {file.stem for file in (FOLDER / "printed").glob("*.txt")}
    assert compared == {*PROGRAMS} - {"several_servers"}
