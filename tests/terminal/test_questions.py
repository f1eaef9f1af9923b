"""A person who is asked: whoever asks, Ctrl-C ends it at once, and a resumed run asks again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.terminal.screen import Screen, Shown, Typing
from tests.terminal.test_interrupts import INTERRUPTED

PROGRAM = '''
import asyncio, sys
import appl
from appl import as_tool, call, gen, ppl

def asks():
    return {input}("Well? ")

@ppl
def fiber():
    "Hello"
    return {input}("Well? ")

@as_tool
def refund(amount: int) -> str:
    """Refund an amount."""
    {before}
    if {input}("Well? ") == "y":
        open("effects", "a").write("refunded\\n")
        return "done"
    return "no"

@ppl
def agent():
    "Refund 5"
    (answer := gen(tools=[refund]))
    return str(answer.run_tool_calls()[0].content)

async def coroutine():
    return {input}("Well? ")

WAYS = {{
    "main": asks,
    "call": lambda: str(call(asks)),
    "fiber": lambda: str(call(fiber)),
    "tool": agent,
    "coroutine": lambda: asyncio.run(coroutine()),
}}

def main(way):
    print("got", WAYS[way]())

if __name__ == "__main__":
    main(sys.argv[1])
'''
BACKEND = '''
from appl.testing import Fake, calling

class Calling(Fake):
    """Calls the tool until it has a result."""

    def __init__(self):
        super().__init__(lambda _: calling(("refund", {"amount": 5})))
'''
WAYS = ("main", "call", "fiber", "tool", "coroutine")
CTRL_C = Typing("Well? ", ctrl_c=True)
YES = Typing("Well? ", "y\n")


class Asking(Screen):
    """A terminal with the program, in which *ask* is the function that asks."""

    def __init__(self, folder: Path, warm: Path, ask: str = "appl.input", before: str = "") -> None:
        super().__init__(folder, {"APPL_BACKEND": "calls:Calling"})
        (folder / "calls.py").write_text(BACKEND)
        (folder / "prog.py").write_text(PROGRAM.format(input=ask, before=before or "pass"))
        self.warm = warm

    def ours(self, way: str, *typing: Typing) -> Shown:
        return self.run(self.warm / "appl", "run", "prog.py", "--way", way, typing=typing)

    def plain(self, way: str, *typing: Typing) -> Shown:
        return self.run(self.warm / "python", "prog.py", way, typing=typing)

    @property
    def effects(self) -> int:
        """How often the tool has had its effect."""
        file = self.folder / "effects"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.parametrize("ask", ["appl.input", "input"])
@pytest.mark.parametrize("way", WAYS)
def test_a_line_is_read_whoever_asks(way: str, ask: str, tmp_path: Path, warm: Path) -> None:
    shown = Asking(tmp_path, warm, ask).ours(way, YES)
    assert shown.code == 0 and "Well? y" in shown.rows
    assert f"got {'done' if way == 'tool' else 'y'}" in shown.rows


@pytest.mark.parametrize("ask", ["appl.input", "input"])
@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_a_question_at_once(way: str, ask: str, tmp_path: Path, warm: Path) -> None:
    shown = Asking(tmp_path, warm, ask).ours(way, CTRL_C)
    assert shown.code == 130 and "Fatal" not in shown.text, shown.text


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_it_in_a_plain_program(way: str, tmp_path: Path, warm: Path) -> None:
    shown = Asking(tmp_path, warm).plain(way, CTRL_C)
    assert shown.code in INTERRUPTED and "Fatal" not in shown.text, shown.text


@pytest.mark.parametrize("way", ["call", "tool"])
def test_so_it_does_where_a_worker_uses_pythons_input(way: str, tmp_path: Path, warm: Path) -> None:
    shown = Asking(tmp_path, warm, "input").plain(way, CTRL_C)
    assert shown.code in INTERRUPTED and "Fatal" not in shown.text, shown.text


def test_a_tool_that_only_asked_asks_again_in_the_resumed_run(tmp_path: Path, warm: Path) -> None:
    asking = Asking(tmp_path, warm)
    assert asking.ours("tool", CTRL_C).code == asking.ours("tool", CTRL_C).code == 130
    shown = asking.ours("tool", YES)
    assert (shown.code, asking.effects) == (0, 1) and "got done" in shown.rows
    assert "2 calls are there" in shown.text  # the model's call was not paid for again


@pytest.mark.parametrize(
    "before", ["open('effects', 'a').write('x\\n')", "list(open(n, 'a') for n in ['effects'])"]
)
def test_a_tool_that_did_something_before_it_asked_is_in_doubt(
    before: str, tmp_path: Path, warm: Path
) -> None:
    asking = Asking(tmp_path, warm, before=before)
    assert asking.ours("tool", CTRL_C).code == 130
    shown = asking.ours("tool")
    assert shown.code == 4 and "whether it has had its effect" in "".join(shown.rows), shown.text


@pytest.mark.parametrize("before", ["print('5 of', str(amount))", "amount = max(amount, 1)"])
def test_what_it_printed_before_is_no_effect(before: str, tmp_path: Path, warm: Path) -> None:
    asking = Asking(tmp_path, warm, before=before)
    assert asking.ours("tool", CTRL_C).code == 130
    assert asking.ours("tool", YES).code == 0 and asking.effects == 1


def test_lines_that_come_by_a_pipe_are_read_by_tools_and_the_program_in_turn(
    tmp_path: Path, warm: Path
) -> None:
    asking = Asking(tmp_path, warm)
    (tmp_path / "both.py").write_text(
        "import appl, sys\nfrom appl import call\n"
        "def main():\n"
        "    one = str(call(lambda: appl.input('1? ')))\n"
        "    two = appl.input('2? ')\n"
        "    three = str(call(lambda: appl.input('3? ')))\n"
        "    print([one, two, three, sys.stdin.readline()])\n"
    )
    done = subprocess.run(
        [warm / "appl", "run", "both.py"], cwd=tmp_path, env=asking.environment, text=True,
        input="a\nb\nc\nd\n", capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "1? 2? 3? ['a', 'b', 'c', 'd\\n']\n", done.stderr
