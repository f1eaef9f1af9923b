"""Daemon threads that can start even at the end of a process.

CPython 3.12.0 and 3.12.1 refuse every new thread once the main module has ended, though a run is
closed only then. Code that has something to do at that time reserves threads while they can still
be started.

Invariant: other versions start no thread ahead of its work.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

REFUSES = (3, 12) <= sys.version_info[:3] < (3, 12, 2)
_RESERVED = 32


class _Spare(threading.Thread):
    """A started thread that waits for its work."""

    def __init__(self) -> None:
        super().__init__(name="appl-spare", daemon=True)
        self._work: Callable[[], None] = _nothing
        self._go = threading.Lock()
        self._go.acquire()
        self.start()

    def run(self) -> None:
        self._go.acquire()
        self._work()

    def begin(self, work: Callable[[], None], name: str) -> None:
        """Do *work* now, and end."""
        self._work, self.name = work, name
        self._go.release()


def _nothing() -> None:
    """Do nothing: this thread was not needed."""


_spares: list[_Spare] = []
os.register_at_fork(after_in_child=_spares.clear)  # the threads do not exist there


def start(work: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread that does *work*; use a reserved one if no new one may start."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        if not _spares:
            raise
        spare = _spares.pop()
        spare.begin(work, name)
        return spare
    return thread


def reserve() -> None:
    """Reserve threads for the end of the process, if this version of Python needs them."""
    while REFUSES and len(_spares) < _RESERVED:
        _spares.append(_Spare())
