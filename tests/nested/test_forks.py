"""A forked child is free of what other threads of its parent held at the fork."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import threading
from collections.abc import Iterator
from typing import Any

import appl
from tests.cli.conftest import Project

from .conftest import Bill

LOCKS = (type(threading.Lock()), type(threading.RLock()))
WATCHED = ("appl.parts.control.server._later._lock", "appl.tracing.recording.writer._threads_lock")
"""Locks that a child gets anew only where a run has used them."""

FORKING = """\
import os
import threading

import appl
from tests.nested.programs import ask

def child():
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, str(ask("in the child")).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return os.read(reading, 99).decode()

def main():
    return [str(ask("here")), *(appl.call(child).result() for _ in range(40))]

def at_once():
    return [appl.call(child).result(), str(ask("here"))]
"""

IMPORTING = """\
import importlib
import os
import sys
import threading

import appl.base.threads

began, may_end = threading.Event(), threading.Event()

if __name__ == "__main__":
    sys.modules["importing"] = sys.modules[__name__]
    os.register_at_fork(before=may_end.set)  # hooks that were registered later come first
    threading.Thread(target=importlib.import_module, args=["half"]).start()
    began.wait()
    pid = os.fork()
    import half
    if pid == 0:
        os._exit(half.value)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
HALF = """\
import importing

importing.began.set()
importing.may_end.wait()
value = 7
"""


def locks() -> dict[str, Any]:
    """The locks of modules of the package, and of the objects in them, by name."""
    found: dict[str, Any] = {}
    for module in sorted(name for name in [*sys.modules] if name.partition(".")[0] == "appl"):
        for name, value in list(vars(sys.modules[module]).items()):
            found.update(_locks_in(f"{module}.{name}", value))
    once = {id(lock): name for name, lock in found.items() if name not in WATCHED}
    return {name: found[name] for name in once.values()}


def _locks_in(name: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, LOCKS):
        yield name, value
    elif type(value).__module__.partition(".")[0] == "appl" and not isinstance(value, type):
        for attribute, inner in getattr(value, "__dict__", {}).items():
            if isinstance(inner, LOCKS):
                yield f"{name}.{attribute}", inner


def test_a_child_holds_no_lock_of_another_thread() -> None:
    for found in pkgutil.walk_packages(appl.__path__, "appl."):
        if found.name.startswith(("appl.runtime", "appl.session", "appl.tracing", "appl.compiler")):
            importlib.import_module(found.name)
    held = threading.Event(), threading.Event()
    thread = threading.Thread(target=_hold, args=(list(locks().values()), *held))
    thread.start()
    held[0].wait()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        left = [name for name, lock in locks().items() if not lock.acquire(blocking=False)]
        os.write(writing, repr(left).encode())
        os._exit(0)
    held[1].set()
    thread.join()
    os.waitpid(pid, 0)
    assert os.read(reading, 10_000) == b"[]"


def _hold(every: list[Any], held: threading.Event, free: threading.Event) -> None:
    mine = [lock for lock in every if lock.acquire(blocking=False)]
    held.set()
    free.wait()
    for lock in mine:
        lock.release()


def test_a_child_that_a_worker_thread_forks_can_ask(project: Project, bill: Bill) -> None:
    project.write("forking.py", FORKING)
    done = project.python("-m", "appl", "run", "forking.py:main", "--json")
    assert done.code == 0, done.err
    assert len(done.data["value"]) == 41 == bill()


def test_a_child_that_is_forked_before_anything_is_asked_can_ask(
    project: Project, bill: Bill
) -> None:
    project.write("forking.py", FORKING)
    words = ("-m", "appl", "run", "forking.py:at_once", "--json")
    for _ in range(3):  # while other threads load what the run needs
        done = project.python(*words, cold=True)
        assert done.code == 0 and all(done.data["value"]), done.err
    assert bill() == 3 * 2


def test_a_child_can_import_what_another_thread_was_importing(project: Project) -> None:
    project.write("half.py", HALF)
    done = project.python(str(project.write("forks.py", IMPORTING)))
    assert (done.code, done.out) == (0, "7\n"), done.err
