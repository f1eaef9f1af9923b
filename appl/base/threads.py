"""Daemon threads, used again or started at the end of a process, and locks of the whole process.

CPython 3.12.0 and 3.12.1 refuse every new thread once the main module has ended, though a run is
closed only then. Code that has something to do at that time reserves threads while they can still
be started.

Invariant: other versions start no thread ahead of its work. Work never waits for other work: it
gets a new thread if none is idle. A process is forked while no other thread imports a module.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from importlib import _bootstrap
from typing import Any


def process_lock(make: Callable[[], Any] = threading.Lock) -> Any:
    """A lock of the whole process, made by *make*, which is free in a forked child.

    A thread of the parent may hold it at the fork, as a worker thread that was just started may be
    the one that forks. It does not exist in the child, and nobody else would release the lock.
    """
    lock = make()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock


_LONGEST_IMPORT_S = 5.0
_not_awaited: set[str] = set()


def _wait_for_imports() -> None:
    """Return when no other thread imports a module.

    Python locks a module while a thread imports it. In a forked child that thread does not exist,
    nobody releases the lock, and whoever needs the module waits for ever. An import that takes
    more than ``_LONGEST_IMPORT_S`` is one in which a program runs: no fork waits for it again.
    """
    deadline = time.monotonic() + _LONGEST_IMPORT_S
    while True:
        # Who waits for the interpreter gets it first. This thread then has it for a moment
        # before Python looks for others: none can begin an import between the look and the fork.
        time.sleep(0.001)
        imports = _imports_elsewhere() - _not_awaited
        if not imports or time.monotonic() >= deadline:
            break
    _not_awaited.update(imports)


def _imports_elsewhere() -> set[str]:
    """The names of the modules that other threads have locked, because they import them."""
    locks = {name: lock() for name, lock in _module_locks.copy().items()}
    own = (None, threading.get_ident())
    return {name for name, lock in locks.items() if lock is not None and lock.owner not in own}


_module_locks: dict[str, Any] = getattr(_bootstrap, "_module_locks", {})
os.register_at_fork(before=_wait_for_imports)

REFUSES = (3, 12) <= sys.version_info[:3] < (3, 12, 2)
_RESERVED = 32

lasting_loops: weakref.WeakSet[object] = weakref.WeakSet()
"""The event loops that run until the process ends: connections may stay open between runs."""


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


class _Worker:
    """A thread that does one piece of work after another, and is idle in between."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._go = threading.Lock()
        self._go.acquire()
        start(self._run, "appl-worker")

    def begin(self, work: Callable[[], None]) -> None:
        """Do *work*; while idle."""
        self._work = work
        self._go.release()

    def _run(self) -> None:
        while True:
            self._work()
            self._work = _nothing  # which may hold much
            if len(_idle) >= _MOST_IDLE:
                return
            _idle.append(self)
            self._go.acquire()


_MOST_IDLE = 16
_idle: list[_Worker] = []
os.register_at_fork(after_in_child=_idle.clear)


def work(work: Callable[[], None]) -> None:
    """Have *work*, which raises nothing, done now by another thread.

    A thread that was used before costs a tenth of a new one.
    """
    try:
        worker = _idle.pop()
    except IndexError:
        _Worker(work)
    else:
        worker.begin(work)


def reserve() -> None:
    """Reserve threads for the end of the process, if this version of Python needs them."""
    while REFUSES and len(_spares) < _RESERVED:
        _spares.append(_Spare())
