"""``appl eval`` on a terminal: a table that fits, and nothing else that stays."""

from __future__ import annotations

from pathlib import Path

from tests.terminal.screen import Screen

from .conftest import PROGRAM, write_cases

WORDS = (
    "eval",
    "prog.py:answer",
    "cases.jsonl",
    "--score",
    "contains",
    "--against",
    "prog.py:older",
)


def screen(folder: Path) -> Screen:
    (folder / "prog.py").write_text(PROGRAM)
    write_cases(folder, 6)
    return Screen(folder, {"APPL_BACKEND": "appl.testing:Echo"})


def test_the_table_is_left_alone_on_the_screen(tmp_path: Path, warm: Path):
    shown = screen(tmp_path).run(warm / "appl", *WORDS)
    assert shown.code == 0, shown.text
    at = shown.rows.index("answer against older: 6 cases")
    head = "score answer older change 95% interval p better worse failed"
    assert shown.rows[at + 1].split() == head.split()
    assert shown.rows[at + 2].split()[:3] == ["contains", "0.000", "0.000"]
    assert not any(row.startswith("evaluate ") for row in shown.rows)


def test_a_quiet_one_shows_the_table_only(tmp_path: Path, warm: Path):
    shown = screen(tmp_path).run(warm / "appl", *WORDS, "--quiet")
    assert "evaluate" not in shown.raw.decode()
