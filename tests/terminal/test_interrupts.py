"""Ctrl-C at any moment: the program ends with 130, its trace is closed, and the screen is its own."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from appl.tracing.reading.trace import Trace
from tests.terminal.programs import PROGRAMS
from tests.terminal.screen import Screen, Shown
from tests.terminal.test_screen import OUR_LINE, stage, typed

LINE = re.compile(r"^\d+ s  (\d+ (running|waiting)|\d+ done)")
"""What a line of ours says."""
FEW = ("pieces with links, lists and slashed brackets", "a question", "a map that prints lines")


def interrupted(screen: Screen, warm: Path, name: str, dice: random.Random) -> Shown:
    """The program *name* after a Ctrl-C at some moment; of one in twenty that is its end."""
    whole = screen.run(warm / "appl", "run", "prog.py", "--fresh", typing=typed(PROGRAMS[name]))
    after = dice.randrange(1, len(whole.raw))
    return screen.run(
        *(warm / "appl", "run", "prog.py", "--fresh"),
        typing=typed(PROGRAMS[name]),
        ctrl_c_after=after,
    )


def check(shown: Shown, folder: Path) -> None:
    """Hold what an interrupted program has left against what it should have left."""
    assert shown.code in (0, 130), shown.text
    assert "Fatal" not in shown.text and "Exception ignored" not in shown.text, shown.text
    assert not [row for row in shown.rows if LINE.match(row)], shown.text
    if "interrupted" in shown.text:
        assert shown.code == 130
    for path in (folder / ".appl" / "runs").glob("*.trace"):
        assert Trace.open(path).state != "crashed", shown.text


@pytest.mark.parametrize("name", FEW)
def test_ctrl_c_leaves_a_clean_screen_and_a_closed_trace(
    name: str, tmp_path: Path, warm: Path
) -> None:
    screen, dice = stage(tmp_path, PROGRAMS[name]), random.Random(f"7 {name}")
    for _ in range(2):
        check(interrupted(screen, warm, name, dice), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_so_it_does_at_forty_moments(name: str, tmp_path: Path, warm: Path) -> None:
    screen, dice = stage(tmp_path, PROGRAMS[name]), random.Random(name)
    for _ in range(40):
        check(interrupted(screen, warm, name, dice), tmp_path)


def test_ctrl_c_while_our_line_is_drawn_takes_it_away(tmp_path: Path, warm: Path) -> None:
    screen = stage(tmp_path, '    print(say("one"))\n    time.sleep(60)')
    whole = screen.run(warm / "appl", "run", "prog.py", ctrl_c_on=OUR_LINE)
    assert whole.code == 130
    check(whole, tmp_path)
