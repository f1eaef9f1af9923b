"""What a newcomer is told: the line, what was got, what to write, and nothing of our own code."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import appl
from appl.cli import main
from appl.compiler.lint import check_text

from .table import SLIPS, Slip

ROOT = Path(__file__).parents[2]
OURS = (str(ROOT / "appl"), str(ROOT / "backends"), "/appl/runtime/", "/appl/cli/")


@pytest.fixture
def told(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """All that the user of a slip sees on the terminal, in a folder with that program alone."""
    slip: Slip = request.param
    for variable in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(variable)
    for name, value in slip.environment.items():
        monkeypatch.setenv(name, value)
    for name, text in {"slip.py": slip.program, **slip.files}.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    if slip.words[0] == "python":
        return _in_a_process(slip)
    path = list(sys.path)
    try:
        return _in_this_process(slip)
    finally:
        sys.path[:] = path
        sys.modules.pop("slip", None)
        appl.init(temperature=None)  # what the late settings of a slip set


def _in_this_process(slip: Slip) -> str:
    seen = io.StringIO()
    both = contextlib.redirect_stdout(seen), contextlib.redirect_stderr(seen)
    with both[0], both[1], contextlib.suppress(SystemExit):
        main(list(slip.words))
    return seen.getvalue()


def _in_a_process(slip: Slip) -> str:
    environment = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    done = subprocess.run(
        [sys.executable, *slip.words[1:]],
        input=slip.program if "-" in slip.words else None, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": environment}, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("told", SLIPS, ids=[slip.name for slip in SLIPS], indirect=True)
def test_a_slip_is_told_at_its_line_with_what_to_write(
    told: str, request: pytest.FixtureRequest
) -> None:
    slip: Slip = request.node.callspec.params["told"]
    for words in slip.says:
        assert words in told, told
    if slip.line is not None:
        assert slip.names_its_line(told), told
    assert not any(ours in told for ours in OURS), told


def test_there_are_sixty_slips_and_each_says_what_is_to_be_told() -> None:
    assert len(SLIPS) >= 60
    assert len({slip.name for slip in SLIPS}) == len(SLIPS)
    assert all(slip.says for slip in SLIPS)


@pytest.mark.parametrize(
    "slip", [each for each in SLIPS if each.rules], ids=lambda slip: str(slip.name)
)
def test_what_the_source_shows_is_found_before_the_run(slip: Slip) -> None:
    found = {each.rule for each in check_text("slip.py", slip.program)}
    assert set(slip.rules) <= found
