"""A terminal with a screen, and programs that run on it.

The oracle of its tests is plain Python: what a program leaves on the screen under ``appl run`` is
what the same program leaves there as ``python program.py``. A terminal emulator of others (pyte)
says what that is.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyte

ROOT = Path(__file__).parents[2]
COLUMNS, ROWS = 100, 16
LONGEST_S = 60.0
CTRL_C = b"\x03"
"""The key, which the terminal makes a SIGINT of for the process group in its foreground."""
Cell = tuple[str, str, str, bool]
"""A character with its colours, and whether it is bold."""


@dataclass
class Shown:
    """What is on the screen at the end, what scrolled out of it included, and the exit code."""

    code: int
    cells: list[list[Cell]]
    raw: bytes
    rows: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = ["".join(cell[0] for cell in row).rstrip() for row in self.cells]
        while self.rows and not self.rows[-1]:
            self.rows.pop()
        self.cells = self.cells[: len(self.rows)]

    @property
    def programs(self) -> list[list[Cell]]:
        """The rows without what ``appl`` itself reports, and without blanks at their ends."""
        found, ours, full = list[list[Cell]](), False, False
        for row, cells in zip(self.rows, self.cells, strict=True):
            ours = row.startswith("appl: ") or (ours and full)
            full = len(row) == COLUMNS  # and goes on in the next one
            if not ours:
                found.append(_stripped(cells))
        return found

    @property
    def text(self) -> str:
        """All rows as one text."""
        return "\n".join(self.rows)


def _stripped(cells: list[Cell]) -> list[Cell]:
    while cells and cells[-1] == (" ", "default", "default", False):
        cells = cells[:-1]
    return cells


@dataclass
class Typing:
    """What a person does once *after* is on the screen: types *text*, or presses Ctrl-C."""

    after: str
    text: str = ""
    ctrl_c: bool = False


class Screen:
    """Runs programs in *folder*, with stdin, stdout and stderr on a terminal."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
        self.environment = {
            **kept, "HOME": str(folder), "TERM": "xterm", "PYTHONPATH": path,
            "XDG_STATE_HOME": str(folder / "state"), **(environment or {}),
        }  # fmt: skip

    def run(
        self,
        *words: str | Path,
        typing: Sequence[Typing] = (),
        ctrl_c_after: int | None = None,
        ctrl_c_on: bytes | None = None,
        only: str = "out err",
        own: bool = False,
    ) -> Shown:
        """Run a command; Ctrl-C comes when *ctrl_c_after* bytes were shown, or *ctrl_c_on* was.

        Of its outputs those in *only* are the terminal; the others go nowhere. With *own* the
        terminal is that of the command itself, else of the program that a warm one runs.
        """
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        _keep_output_at_ctrl_c(its)
        out, err = (its if name in only else subprocess.DEVNULL for name in ("out", "err"))
        process = subprocess.Popen(
            [str(word) for word in words],
            stdin=its, stdout=out, stderr=err, cwd=self.folder, env=self.environment,
            start_new_session=True, preexec_fn=_take_terminal if own else None,
        )  # fmt: skip
        os.close(its)
        try:
            raw = _watched(ours, list(typing), ctrl_c_after, ctrl_c_on)
            code = process.wait(LONGEST_S)
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        return Shown(code, cells_of(raw), raw)


def _take_terminal() -> None:
    # A shell ignores Ctrl-C for what it starts in the background, and the tests may be that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _keep_output_at_ctrl_c(terminal: int) -> None:
    """Have *terminal* keep at Ctrl-C what was written before, however fast we read."""
    attributes = termios.tcgetattr(terminal)
    attributes[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)


def _watched(
    ours: int,
    typing: list[Typing],
    ctrl_c_after: int | None,
    ctrl_c_on: bytes | None,
) -> bytes:
    """All that is shown up to the end, while a person types."""
    raw, seen, end = b"", 0, time.monotonic() + LONGEST_S
    while True:
        if ctrl_c_after is not None and len(raw) >= ctrl_c_after:
            os.write(ours, CTRL_C)
            ctrl_c_after = None
        if ctrl_c_on is not None and ctrl_c_on in raw:
            os.write(ours, CTRL_C)
            ctrl_c_on = None
        if typing and (at := raw.find(typing[0].after.encode(), seen)) >= 0:
            seen, act = at + len(typing[0].after), typing.pop(0)
            os.write(ours, CTRL_C if act.ctrl_c else act.text.encode())
        left = end - time.monotonic()
        assert left > 0 and select.select([ours], [], [], left)[0], f"it hangs after {raw!r}"
        try:
            more = os.read(ours, 1 << 16)
        except OSError:  # nobody has the other end any more
            return raw
        if not more:
            return raw
        raw += more


def cells_of(raw: bytes) -> list[list[Cell]]:
    """What a terminal shows of *raw*, from the first row on."""
    screen = pyte.HistoryScreen(COLUMNS, ROWS, history=10_000, ratio=0.5)
    pyte.ByteStream(screen).feed(raw)
    rows = [*screen.history.top, *(screen.buffer[row] for row in range(ROWS))]
    return [[_cell(row[column]) for column in range(COLUMNS)] for row in rows]


def _cell(found: pyte.screens.Char) -> Cell:
    return found.data, found.fg, found.bg, found.bold
