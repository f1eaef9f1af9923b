"""Ctrl-C at any moment: the program ends with 130, its trace is closed, and the screen is its own."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.tracing import Trace
from tests.terminal.programs import PROGRAMS
from tests.terminal.screen import Screen, Shown, Typing
from tests.terminal.test_screen import OUR_LINE, stage, typed

LINE = re.compile(r"\d+ s  (\d+ (running|waiting)|\d+ done)")
"""What a line of ours says."""
UNTIL_CTRL_C = "\n    while True:\n        time.sleep(0.05)"
"""A signal just before one long sleep would only be looked at behind it."""
INTERRUPTED = (130, -signal.SIGINT)
"""The code of ``appl run``, and what kills Python itself in its last moment: a shell shows 130."""
FEW = ("pieces with links, lists and slashed brackets", "a question", "a map that prints lines")


def interrupted(screen: Screen, warm: Path, name: str, moments: int) -> Iterator[Shown]:
    """The program *name*, after a Ctrl-C at each of some *moments*."""
    dice, words = random.Random(f"7 {name}"), (warm / "appl", "run", "prog.py", "--fresh")
    whole = screen.run(*words, typing=typed(PROGRAMS[name]))
    for _ in range(moments):
        after = dice.randrange(1, len(whole.raw))
        yield screen.run(*words, typing=typed(PROGRAMS[name]), ctrl_c_after=after)


def check(shown: Shown, folder: Path) -> None:
    """Hold what an interrupted program has left against what it should have left."""
    assert shown.code in (0, *INTERRUPTED), shown.text
    assert "Fatal" not in shown.text and "in atexit callback" not in shown.text, shown.text
    assert not [row for row in shown.rows if LINE.search(row)], shown.text
    if "interrupted" in shown.text:
        assert shown.code == 130, shown.text
    for path in (folder / ".appl" / "runs").glob("*.trace"):
        assert Trace.open(path).state != "crashed", shown.text


@pytest.mark.parametrize("name", FEW)
def test_ctrl_c_leaves_a_clean_screen_and_a_closed_trace(
    name: str, tmp_path: Path, warm: Path
) -> None:
    for shown in interrupted(stage(tmp_path, PROGRAMS[name]), warm, name, 2):
        check(shown, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_so_it_does_at_forty_moments(name: str, tmp_path: Path, warm: Path) -> None:
    for shown in interrupted(stage(tmp_path, PROGRAMS[name]), warm, name, 40):
        check(shown, tmp_path)


def test_ctrl_c_while_our_line_is_drawn_takes_it_away(tmp_path: Path, warm: Path) -> None:
    screen = stage(tmp_path, '    print(say("one"))' + UNTIL_CTRL_C)
    whole = screen.run(warm / "appl", "run", "prog.py", ctrl_c_on=OUR_LINE)
    assert whole.code == 130
    check(whole, tmp_path)


@pytest.mark.parametrize("words", [["appl", "run"], ["python"]])
def test_an_interrupted_program_says_how_to_go_on(
    words: list[str], tmp_path: Path, warm: Path
) -> None:
    body = '    print(say("one"))\n    print("asked", flush=True)'
    screen = stage(tmp_path, body + UNTIL_CTRL_C)
    command = warm / words[0], *words[1:], "prog.py"
    shown = screen.run(*command, typing=[Typing("asked", ctrl_c=True)])
    (path,) = (tmp_path / ".appl" / "runs").glob("*.trace")
    assert f"appl: `appl trace resume {path.stem}` goes on with it" in shown.rows, shown.text


def test_a_program_that_ended_says_nothing_of_the_kind(tmp_path: Path, warm: Path) -> None:
    shown = stage(tmp_path, '    print(say("one"))').run(warm / "python", "prog.py")
    assert shown.code == 0 and "resume" not in shown.text
