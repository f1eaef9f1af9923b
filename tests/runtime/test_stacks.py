"""How the stacks of other threads are looked at."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

from appl import collecting

STARTS_THREADS = Path(__file__).with_name("starts_threads.py")


def test_threads_can_start_while_stacks_are_looked_at_and_garbage_is_due() -> None:
    """CPython before 3.11.9 stands still for ever there; so it runs in a process of its own."""
    ended = subprocess.run([sys.executable, STARTS_THREADS], timeout=60, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def test_the_collector_is_as_it_was_when_the_last_that_paused_it_has_finished() -> None:
    with collecting.no_collection():
        collecting.stacks()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_the_program_switched_off_stays_off() -> None:
    gc.disable()
    try:
        collecting.stacks()
        assert not gc.isenabled()
    finally:
        gc.enable()
