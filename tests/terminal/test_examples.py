"""The examples, the chat and the commands of the tutorial on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terminal.screen import ROOT, Screen, Shown, Typing
from tests.terminal.test_interrupts import check

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
FEW = ("chatbot", "hello", "extraction")
SETTINGS = {"APPL_SEED": "7", "APPL_BACKEND": "embedded"}


def both(screen: Screen, warm: Path, example: str) -> tuple[Shown, Shown]:
    """What the example leaves on the screen by itself, and under ``appl run``."""
    file = ROOT / "examples" / f"{example}.py"
    alone = Screen(screen.folder, {**screen.environment, "APPL_TRACE": "false"})
    return alone.run(warm / "python", file), screen.run(warm / "appl", "run", file)


def compare(screen: Screen, warm: Path, example: str) -> None:
    plain, ours = both(screen, warm, example)
    assert (plain.code, ours.code) == (0, 0), ours.text
    assert ours.programs == plain.programs, ours.text


@pytest.mark.parametrize("example", FEW)
def test_an_example_looks_as_it_does_by_itself(example: str, tmp_path: Path, warm: Path) -> None:
    compare(Screen(tmp_path, SETTINGS), warm, example)


@pytest.mark.long
@pytest.mark.parametrize("example", [name for name in EXAMPLES if name not in FEW])
def test_so_do_all_others(example: str, tmp_path: Path, warm: Path) -> None:
    compare(Screen(tmp_path, SETTINGS), warm, example)


def test_a_chat_shows_what_was_typed_and_the_answers(tmp_path: Path, warm: Path) -> None:
    typing = [Typing("> ", "Who are you?\n"), Typing("> ", "/quit\n")]
    shown = Screen(tmp_path, SETTINGS).run(warm / "appl", "chat", typing=typing)
    assert shown.code == 0 and "> Who are you?" in shown.text, shown.text


@pytest.mark.parametrize("typing", [[], [Typing("> ", "Hello\n")]])
def test_ctrl_c_ends_a_chat(typing: list[Typing], tmp_path: Path, warm: Path) -> None:
    shown = Screen(tmp_path, SETTINGS).run(
        warm / "appl", "chat", typing=[*typing, Typing("> ", ctrl_c=True)]
    )
    assert shown.code == 130, shown.text
    check(shown, tmp_path)
