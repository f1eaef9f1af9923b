"""How the stacks of other threads are looked at."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appl.base import collecting

STARTS_THREADS = Path(__file__).with_name("starts_threads.py")


def test_threads_can_start_while_stacks_are_looked_at_and_garbage_is_due() -> None:
    """CPython before 3.11.9 stands still for ever there; so it runs in a process of its own."""
    ended = subprocess.run([sys.executable, STARTS_THREADS], timeout=60, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def test_the_collector_is_as_it_was_when_the_last_that_paused_it_has_finished() -> None:
    with collecting.no_collection():
        collecting.stack_of(None)
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_the_program_switched_off_stays_off() -> None:
    gc.disable()
    try:
        collecting.stack_of(None)
        assert not gc.isenabled()
    finally:
        gc.enable()


@contextmanager
def another_thread() -> Iterator[threading.Thread]:
    """A thread that waits in ``inner``, which ``outer`` has called."""
    waits, over = threading.Event(), threading.Event()

    def inner() -> None:
        waits.set()
        over.wait()

    def outer() -> None:
        inner()

    thread = threading.Thread(target=outer)
    thread.start()
    assert waits.wait(60)
    yield thread
    over.set()
    thread.join()


def test_a_stack_is_that_of_another_thread_innermost_first() -> None:
    with another_thread() as thread:
        stack = collecting.stack_of(thread.ident)
        names = [frame.f_code.co_name for frame in stack]
    assert names.index("inner") + 1 == names.index("outer") < names.index("run")
    assert names[-1] == "_bootstrap" and collecting.stack_of(thread.ident) == []
    assert collecting.stack_of(threading.get_ident()) == []
