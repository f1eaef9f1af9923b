"""The commands of README and the tutorial on a terminal: each shows what its page says.

What a program leaves on the screen is what the page shows, which is held against pipes elsewhere,
and for ``python file.py`` what the program leaves there where nothing is recorded.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import Block, agrees, blocks, commands
from tests.terminal.screen import ROOT, Screen, Shown
from tests.terminal.test_interrupts import LINE

PAGES = [*sorted((ROOT / "docs" / "tutorial").glob("*.md")), ROOT / "README.md"]
SETTINGS = {"APPL_BACKEND": "embedded"}
FEW = ("1-first-program", "4-agents")
PROGRAMS = ("appl run ", "python ")
"""The beginnings of commands that show a program's own text."""


class Reader(Screen):
    """A terminal on which somebody types what a page says."""

    def __init__(self, folder: Path, warm: Path) -> None:
        path = os.pathsep.join(map(str, (warm, Path(sys.executable).parent, os.environ["PATH"])))
        super().__init__(
            folder, {"APPL_CTL_DIR": str(warm), "NO_COLOR": "1", "PATH": path, **SETTINGS}
        )
        self.environment["PYTEST_PLUGINS"] = "appl.parts.pytest_plugin"
        shutil.copytree(ROOT / "examples", folder / "examples")

    def type(self, line: str, interrupted: bool = False, traced: bool = True) -> Shown:
        """What *line* shows, which Ctrl-C may end once it has some answers."""
        environment = {} if traced else {"APPL_TRACE": "false"}
        screen = Screen(self.folder, {**self.environment, **environment})
        return screen.run("bash", "-c", line, ctrl_c_on=b" done" if interrupted else None)

    def follow(self, block: Block) -> None:
        """Type the commands of *block*, and hold what they show against what it says."""
        for line, says in commands(block.text):
            if line.endswith("&") or line.startswith("appl ctl"):
                continue  # for two terminals
            interrupted = says.startswith("^C\n")
            shown = self.type(line.removesuffix(" 2>&1"), interrupted)
            assert shown.code in ((130,) if interrupted else (0, 1) if says else (0,)), shown.text
            assert "Traceback" not in shown.text, shown.text
            if line.startswith(PROGRAMS) and not interrupted:
                assert shown.code == 0, shown.text
                self.compare(line, says, shown, block.vary)

    def compare(self, line: str, says: str, shown: Shown, vary: bool) -> None:
        """Hold what a program shows against its page, and against the program by itself."""
        text = "\n".join("".join(cell[0] for cell in row) for row in shown.programs)
        own = "\n".join(each for each in says.splitlines() if not each.startswith("appl: "))
        assert agrees(own, text, vary), shown.text
        assert not LINE.search(shown.text), shown.text
        if line.startswith("python ") and not vary:
            assert shown.programs == self.type(line, traced=False).programs, shown.text


def follow(page: Path, folder: Path, warm: Path) -> None:
    reader = Reader(folder, warm)
    for block in blocks(page.read_text("utf-8")):
        if block.title is not None:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text, "utf-8")
        elif block.language == "console":
            reader.follow(block)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in FEW], ids=lambda p: p.stem)
def test_commands_show_what_the_page_says(page: Path, tmp_path: Path, warm: Path) -> None:
    follow(page, tmp_path, warm)


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in FEW], ids=lambda p: p.stem
)
def test_so_do_those_of_all_other_pages(page: Path, tmp_path: Path, warm: Path) -> None:
    follow(page, tmp_path, warm)
