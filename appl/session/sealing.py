"""Seals a process while a program is rehearsed: the program changes nothing outside of itself.

Invariant: whoever writes a file, starts a process or connects to a machine while it is sealed gets
``BrokenOff``, before that happens. Files that are open already can be written.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from appl.tracing.replaying.predictor import BrokenOff

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TOUCHING = {
    *("os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.link", "os.mkdir"),
    *("os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.spawn", "os.symlink"),
    *("os.system", "os.truncate", "os.utime", "socket.connect", "socket.sendmsg", "socket.sendto"),
    *("sqlite3.connect", "subprocess.Popen"),
}


class _Seal:
    """``closed`` while the process is sealed; ``touched`` is what the program tried to, or ""."""

    def __init__(self) -> None:
        self.closed, self.touched = False, ""
        self._hooked = False

    def close(self) -> None:
        """Seal the process. Python has no way to take a hook back."""
        if not self._hooked:
            sys.addaudithook(self._hook)
        self._hooked, self.closed, self.touched = True, True, ""

    def _hook(self, event: str, values: tuple[Any, ...]) -> None:
        if self.closed and (event in _TOUCHING or (event == "open" and _writes(*values))):
            self.touched = self.touched or f"what comes after {event} {values[0]!r:.60}"
            raise BrokenOff(self.touched)


_seal = _Seal()


@contextmanager
def sealed() -> Iterator[_Seal]:
    """Inside, a program is silent, reads no terminal, and changes nothing outside of itself."""
    stdin, cached = sys.stdin, sys.dont_write_bytecode
    sys.stdin, sys.dont_write_bytecode = io.StringIO(), True
    _seal.close()
    try:
        with ExitStack() as silent:
            silent.enter_context(redirect_stdout(io.StringIO()))
            silent.enter_context(redirect_stderr(io.StringIO()))
            yield _seal
    finally:
        _seal.closed = False
        sys.stdin, sys.dont_write_bytecode = stdin, cached


@contextmanager
def imported_anew() -> Iterator[None]:
    """Inside, modules of the user's own are imported anew; afterwards those of before are there."""
    before = _forget_modules()
    try:
        yield
    finally:
        _forget_modules()
        sys.modules |= before


def _writes(path: object, mode: str | None, flags: int) -> bool:
    """True if a file is opened for writing; descriptors are open already."""
    named = not isinstance(path, int) and os.fsdecode(str(path)) != os.devnull
    return named and (bool(flags & _WRITING) or not {*"wax+"}.isdisjoint(mode or ""))


def _forget_modules() -> dict[str, ModuleType]:
    """Forget the modules of the user's own, which may hold what an earlier rehearsal left."""
    every = tuple(sys.modules.items())
    own = {name: module for name, module in every if name != "__main__" and _is_own(module)}
    for name in own:
        del sys.modules[name]
    return own


def _is_own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or ""
    ours = (str(Path(__file__).parents[1]), sys.prefix, sys.base_prefix)
    return file.endswith(".py") and "site-packages" not in file and not file.startswith(ours)
