"""What a program leaves on a terminal under ``appl run`` is what it leaves there by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.terminal.programs import BACKEND, HEAD, PROGRAMS, TAIL
from tests.terminal.screen import Screen, Shown, Typing

OUR_LINE = b"\x1b7"
"""What the drawing of a line of ours begins with."""


def stage(folder: Path, body: str) -> Screen:
    """A terminal in *folder*, with a program of *body*."""
    (folder / "said.py").write_text(BACKEND, "utf-8")
    (folder / "prog.py").write_text(f"{HEAD}\ndef main():\n{body}\n{TAIL}", "utf-8")
    return Screen(folder, {"APPL_BACKEND": "said:Saying", "PYTHONIOENCODING": "utf-8"})


def plainly(screen: Screen, python: str | Path, *words: str, **options: Any) -> Shown:
    """What the program leaves on the screen by itself, where nothing is recorded."""
    alone = Screen(screen.folder, {**screen.environment, "APPL_TRACE": "false"})
    return alone.run(python, *words, screen.folder / "prog.py", **options)


def typed(body: str) -> list[Typing]:
    """What is typed at each question of *body*."""
    found = re.findall(r'(?:input\(|print\(|return appl\.input\()"([^"]*\? (?:\[y/n\] )?)".*', body)
    answers = re.findall(r"# types (\w+)", body)
    return [Typing(question, f"{text}\n") for question, text in zip(found, answers, strict=False)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_screen_is_that_of_plain_python(name: str, tmp_path: Path, warm: Path) -> None:
    body = PROGRAMS[name]
    screen = stage(tmp_path, body)
    plain = plainly(screen, warm / "python", typing=typed(body))
    ours = screen.run(warm / "appl", "run", tmp_path / "prog.py", typing=typed(body))
    assert (plain.code, ours.code) == (0, 0), plain.text + ours.text
    assert ours.programs == plain.programs, ours.text


def test_our_line_is_drawn_below_what_the_program_has_written(tmp_path: Path, warm: Path) -> None:
    screen = stage(tmp_path, '    print(say("one"))\n    rest()\n    print("two")\n    rest()')
    shown = screen.run(warm / "appl", "run", tmp_path / "prog.py")
    drawn = shown.raw.split(OUR_LINE)
    assert len(drawn) > 2
    assert b"1 done" in shown.raw.partition(b"one\r\n")[2]


def test_a_bar_of_a_map_is_drawn_by_plain_python(tmp_path: Path, warm: Path) -> None:
    body = PROGRAMS["a map that prints lines"]
    shown = stage(tmp_path, body).run(warm / "python", "prog.py")
    assert OUR_LINE in shown.raw and b"item" in shown.raw
    assert [row for row in shown.rows if row.startswith("item")] == [f"item {n}" for n in range(4)]


@pytest.mark.parametrize("only", ["out", "err"])
def test_no_line_is_mixed_into_one_of_two_streams(only: str, tmp_path: Path, warm: Path) -> None:
    body = PROGRAMS["both streams in turn"]
    screen = stage(tmp_path, body)
    plain = plainly(screen, warm / "python", only=only)
    ours = screen.run(warm / "appl", "run", tmp_path / "prog.py", only=only)
    assert ours.programs == plain.programs
    assert (OUR_LINE in ours.raw) == (only == "err")


@pytest.mark.parametrize("python", ["-u"])
def test_unbuffered_streams_are_no_difference(python: str, tmp_path: Path, warm: Path) -> None:
    screen = stage(tmp_path, PROGRAMS["pieces with links, lists and slashed brackets"])
    plain = plainly(screen, sys.executable, python)
    ours = screen.run(sys.executable, python, "-m", "appl", "run", tmp_path / "prog.py")
    assert ours.programs == plain.programs and OUR_LINE in ours.raw


def test_a_bar_that_is_wanted_where_there_is_no_terminal_writes_nothing(
    tmp_path: Path, warm: Path
) -> None:
    screen = stage(tmp_path, "    map(say, ['a', 'b'], progress=True)\n    rest()")
    done = subprocess.run(
        [warm / "python", "prog.py"], cwd=tmp_path, env=screen.environment, capture_output=True
    )
    assert done.returncode == 0 and b"\x1b" not in done.stdout + done.stderr


def test_a_terminal_that_knows_no_sequences_gets_none(tmp_path: Path, warm: Path) -> None:
    screen = stage(tmp_path, '    print(say("one"))\n    rest()')
    screen.environment["TERM"] = "dumb"
    assert b"\x1b" not in screen.run(warm / "appl", "run", "prog.py").raw
