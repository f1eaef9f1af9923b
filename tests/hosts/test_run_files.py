"""A server gives each request a run of its own: what a process has read once is not read again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appl.backend import installed

PROGRAM = Path(__file__).with_name("run_files.py")
MOST = 20
CALLS = Path(__file__).with_name("run_calls.py")
MOST_RECORDED, MOST_UNRECORDED = 1190, 580
"""Python functions that are called from the opening of a run to its end: 1,120 and 530 on Python
3.11, fewer on later ones. Who makes a run cheaper lowers them."""


def test_runs_after_the_first_read_nothing_of_installed_packages_and_few_files(
    tmp_path: Path,
) -> None:
    ended = subprocess.run(
        [sys.executable, str(PROGRAM)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    first, *others = [
        [int(number) for number in line.split()] for line in ended.stdout.splitlines()
    ]
    assert first[1] > 0 and len(others) == 3
    assert all(described == 0 and files <= MOST for files, described in others), others


@pytest.mark.parametrize(
    ("manner", "most"), [("recorded", MOST_RECORDED), ("not", MOST_UNRECORDED)]
)
def test_a_run_of_one_call_takes_few_function_calls(manner: str, most: int, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(CALLS), manner],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    number, *often = ended.stdout.splitlines()
    assert most // 2 < int(number) <= most, "\n".join([number, *often])


def test_a_backend_that_is_installed_meanwhile_is_found_and_one_that_is_gone_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert "parrot" not in installed()
    package = tmp_path / "parrot-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot\nVersion: 1\n")
    declared = package / "entry_points.txt"
    declared.write_text("[appl.backends]\nparrot = parrot:Parrot\n")
    assert installed()["parrot"].value == "parrot:Parrot"
    declared.unlink()
    (package / "METADATA").unlink()
    package.rmdir()
    assert "parrot" not in installed()
