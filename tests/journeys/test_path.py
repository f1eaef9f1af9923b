"""From an empty folder to a served program, with the built wheel and the commands of a page."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.snippets import blocks, run_page

from .place import ROOT
from .test_journeys import block

PAGE = ROOT / "docs" / "from-nothing.md"
MOST_COMMANDS = 8


def typed() -> list[str]:
    """The commands of the page, installation included."""
    found = [each for each in blocks(PAGE.read_text("utf-8")) if each.language in ("sh", "console")]
    return [
        line.removeprefix("$ ")
        for each in found
        for line in each.text.splitlines()
        if each.language == "sh" or line.startswith("$ ")
    ]


def test_every_command_prints_what_the_page_says(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run_page(PAGE, tmp_path / "empty", programs, sources=False) == []


def test_the_path_is_short_and_reaches_all_its_ends() -> None:
    commands = typed()
    assert len(commands) <= MOST_COMMANDS, commands
    ends = ["pip install", "appl run", "appl trace view", "appl trace export-test", "pytest",
            "appl serve", "curl"]  # fmt: skip
    steps = iter(commands)
    assert all(any(re.match(end, step) for step in steps) for end in ends), commands


def test_its_program_is_that_of_the_readme() -> None:
    (program,) = (each for each in blocks(PAGE.read_text("utf-8")) if each.title == "first.py")
    assert program.text == block("first.py")
