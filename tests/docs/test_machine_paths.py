"""No file of the repository tells where somebody's copy of it lay."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.tracing import records

ROOT = Path(__file__).parents[2]
A_MACHINE = re.compile(
    r"/(?:root|work/(?:main|trees|briefs|shared)|Users/[a-z]\w*|home/(?!golden\b|exceptions\b)[a-z]\w*"
    r"|private/var|tmp/pytest-of-\w+)/\w"
)
"""Folders of users and of working copies. ``golden`` is the user of the golden traces."""
EXAMPLES = {"/home/ann/", "/home/me/", "/home/user/", "/home/you/"}
"""Folders of nobody, in tests and documents."""


def files() -> list[Path]:
    """The files of the repository; all of a copy that has no history."""
    found = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode:
        pytest.fail("the files of the repository are known by git only")
    return [path for line in found.stdout.splitlines() if (path := ROOT / line).is_file()]


def texts(path: Path) -> Iterator[str]:
    """The texts of a file; of a trace its records, which are compressed."""
    if path.suffix == ".trace":
        yield repr(list(records(path)))
    else:
        yield path.read_bytes().decode("utf-8", "replace")


def test_no_file_has_a_path_of_a_machine() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files()
        if path != Path(__file__)
        for text in texts(path)
        for match in A_MACHINE.finditer(text)
        if not any(match[0].startswith(each) for each in EXAMPLES)
    }
    assert not found


@pytest.mark.parametrize(
    "text", ["File /root/x/appl.py", "/work/trees/one/a.py", "/Users/ann/x", "/home/ann2/x"]
)
def test_a_path_of_a_machine_is_known(text: str) -> None:
    assert A_MACHINE.search(text)
