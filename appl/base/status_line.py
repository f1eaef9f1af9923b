"""Lines of ours at the bottom of the terminal, below what the program writes.

Invariant: what the program writes reaches the terminal byte for byte. Our lines are gone before it
does, and are drawn again only where the program's last line has ended and nobody reads from the
terminal. The cursor, its colours and what is above stay as the program left them.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, Protocol

_TICK_S = 0.125
_PAUSE_S = 0.1
"""Seconds without output after which lines are drawn: what follows a flush at once is one piece."""
_SAVE, _RESTORE, _PLAIN = "\x1b7", "\x1b8", "\x1b[0m"
_WRITES = ("write", "flush")
_READS = ("read", "read1", "readinto", "readline", "readlines")


class StatusLine(Protocol):
    """Something to show: what ``rich`` can print."""

    def shown(self) -> object:
        """The lines to show now; called on any thread."""


class Terminal:
    """The terminal behind stderr, and the lines that are shown on it for a while.

    The methods of the process's own streams are covered while a line is shown: whoever has kept one
    of these streams, a handler of ``logging`` or a program that prints bytes, writes to it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lines: list[StatusLine] = []
        self._drawn = 0  # rows of ours that are on the screen
        self._covered: list[tuple[Any, str]] = []
        self._held: list[str] = []
        self._readers = 0
        self._unflushed: set[int] = set()
        self._at_start = True  # of a line
        self._wrote = 0.0
        self._descriptor = 2
        self._stop = threading.Event()

    # -- the lines

    def show(self, line: StatusLine) -> None:
        """Show *line* below the lines that are shown already, if stderr is a terminal."""
        with self._lock:
            self._lines.append(line)
            if len(self._lines) == 1:
                self._begin()

    def hide(self, line: StatusLine) -> None:
        """Show *line* no more."""
        with self._lock:
            if line not in self._lines:
                return
            self._erase()
            self._lines.remove(line)
            if self._lines:
                return
            self._end()
        self._let_go()

    def print(self, renderable: object) -> None:
        """Print what ``rich`` can print, above the lines, on a line of its own."""
        self._write("".join(f"{row}\n" for row in self._rows([renderable])))

    def say(self, line: str) -> None:
        """Print *line* above the lines; where the program is in a line of its own, after that."""
        with self._lock:
            self._held.append(line)
            may_go = self._at_start or not self._lines
        if may_go:
            self._let_go()

    def _let_go(self) -> None:
        """Print what was held back."""
        with self._lock:
            held, self._held = self._held, []
        if held:
            self._write("".join(f"{line}\n" for line in held))

    def _write(self, text: str) -> None:
        # Without our lock: the stream may be the program's own, and take a lock of its own, which
        # another thread may hold while it writes to the terminal and waits for ours.
        sys.stderr.write(text if self._at_start else f"\n{text}")
        sys.stderr.flush()

    def refresh(self) -> None:
        """Draw the lines anew, if nothing is in their way."""
        # Rendered before the lock is taken, for which a program that prints may wait.
        rows = self._rows([line.shown() for line in tuple(self._lines)])
        with self._lock:
            if not (self._lines and self._is_free()):
                return
            if not self._held:
                self._draw(rows)
        self._let_go()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A block in which somebody may type: no line is drawn."""
        with self._lock:
            self._readers += 1
            self._erase()
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                # The terminal has echoed the Enter that ended the typed line.
                self._at_start, self._wrote = True, time.monotonic()

    @cached_property
    def _console(self) -> Any:
        # It only renders: with stderr as its file it would flush what the program has not.
        from rich.console import Console as console  # only a live display needs it

        return console(file=io.StringIO(), force_terminal=True, highlight=False)

    @property
    def width(self) -> int:
        """The number of columns."""
        width: int = self._console.width
        with contextlib.suppress(OSError):
            width = min(width, os.get_terminal_size(self._descriptor).columns or width)
        return width

    # -- the program's streams

    def _begin(self) -> None:
        self._stop = threading.Event()
        self._drawn, self._wrote, self._at_start = 0, 0.0, True
        with contextlib.suppress(AttributeError, OSError, ValueError):
            assert sys.__stderr__ is not None
            self._descriptor = sys.__stderr__.fileno()
        if not os.isatty(self._descriptor) or os.environ.get("TERM") in ("dumb", "unknown"):
            return
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream is not None and _same_terminal(stream, self._descriptor):
                self._cover(getattr(stream, "buffer", None), _WRITES, self._writing)
        if sys.__stdin__ is not None and _same_terminal(sys.__stdin__, self._descriptor):
            self._cover(getattr(sys.__stdin__, "buffer", None), _READS, self._read)
        threading.Thread(target=self._run, args=[self._stop], name="appl-line", daemon=True).start()

    def _end(self) -> None:
        self._stop.set()
        for stream, name in self._covered:
            with contextlib.suppress(AttributeError):
                delattr(stream, name)
        self._covered.clear()
        self._unflushed.clear()

    def _cover(self, stream: Any, names: tuple[str, ...], by: Callable[..., Any]) -> None:
        # An attribute of the object comes before the method of its type, also for ``print`` and for
        # the text layer above these bytes. The object itself stays the one that the program knows.
        for name in names:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(stream, name, partial(by, stream, name, getattr(stream, name)))
                self._covered.append((stream, name))

    def _writing(self, stream: Any, name: str, method: Callable[..., Any], *args: Any) -> Any:
        with self._lock:
            self._erase()
            self._wrote = time.monotonic()
            if name == "flush":
                value = method(*args)
                self._unflushed.discard(id(stream))
                return value
            # A Ctrl-C may break this off after the write: then it is not known where the cursor is,
            # and nothing is drawn until the next line has ended.
            at_start, self._at_start = self._at_start, False
            if isinstance(stream, io.BufferedIOBase):
                self._unflushed.add(id(stream))
            value = method(*args)
            data = memoryview(args[0]).cast("B") if args else b""
            self._at_start = data[-1] == 10 if len(data) else at_start
            return value

    def _read(self, stream: Any, name: str, method: Callable[..., Any], *args: Any) -> Any:
        with self.reading():  # without the lock: others may write meanwhile
            return method(*args)

    # -- the screen

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(_TICK_S):
            with contextlib.suppress(OSError):
                self.refresh()

    def _is_free(self) -> bool:
        """True if the cursor stands at the beginning of an empty line that nobody types into."""
        if self._readers or self._unflushed or not self._at_start:
            return False
        if not self._drawn and time.monotonic() - self._wrote < _PAUSE_S:
            return False
        try:
            flags = termios.tcgetattr(self._descriptor)[3]
        except termios.error:
            return True
        # Else the terminal is in the hands of a line editor, an editor, or a password's.
        return bool(flags & termios.ICANON and flags & termios.ECHO)

    def _rows(self, renderables: list[object]) -> list[str]:
        """*renderables* as rows that fit the terminal."""
        console = self._console
        with console.capture() as captured:
            for renderable in renderables:
                # A row that is full would leave the cursor between two rows.
                console.print(renderable, width=max(self.width - 1, 1))
        return str(captured.get()).splitlines()

    def _draw(self, rows: list[str]) -> None:
        room = ""
        if len(rows) > max(self._drawn, 1):
            room = "\n" * (len(rows) - 1) + f"\x1b[{len(rows) - 1}A"
        rest = "\x1b[J" if len(rows) > 1 or self._drawn > 1 else ""
        text = "\r\n".join(f"{row}\x1b[K" for row in rows)
        # The cursor goes back to where the program writes next, with the program's colours.
        self._put(f"{room}{_SAVE}{_PLAIN}{text}{rest}{_RESTORE}")
        self._drawn = len(rows)

    def _erase(self) -> None:
        if self._drawn:
            wipe = "\x1b[K" if self._drawn == 1 else "\x1b[J"
            self._drawn = 0
            with contextlib.suppress(OSError):
                self._put(f"{_SAVE}{_PLAIN}{wipe}{_RESTORE}")

    def _put(self, text: str) -> None:
        encoding = getattr(sys.__stderr__, "encoding", None) or "utf-8"
        data = text.encode(encoding, "replace")
        while data:
            data = data[os.write(self._descriptor, data) :]

    def in_child(self) -> None:
        """Show nothing in a forked child: the lines are its parent's."""
        self._lock = threading.RLock()
        self._lines.clear()
        self._drawn = 0
        self._end()


def _same_terminal(stream: Any, descriptor: int) -> bool:
    try:
        one, other = os.fstat(stream.fileno()), os.fstat(descriptor)
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISCHR(one.st_mode) and one.st_rdev == other.st_rdev


terminal = Terminal()
os.register_at_fork(after_in_child=terminal.in_child)
