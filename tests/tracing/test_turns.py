"""While a run is recorded, threads that compute let others go on soon; then as they did before."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.tracing.format.turns import SWITCH_SECONDS, Turns
from appl.tracing.recording.writer import GROUP_SECONDS, WriterThread

USUAL = 0.005


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Python's own interval, whatever ran before."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL)
    yield
    sys.setswitchinterval(before)


def interval() -> float:
    return round(sys.getswitchinterval(), 6)


def test_the_interval_is_short_as_long_as_anybody_asks() -> None:
    turns, first, second = Turns(), object(), object()
    turns.hasten(first)
    turns.hasten(second)
    assert interval() == SWITCH_SECONDS
    turns.relax(first)
    turns.relax(first)
    assert interval() == SWITCH_SECONDS
    turns.relax(second)
    assert interval() == USUAL


def test_a_shorter_interval_of_the_program_is_left() -> None:
    turns = Turns()
    sys.setswitchinterval(1e-4)
    turns.hasten("who")
    assert interval() == 1e-4
    turns.relax("who")
    assert interval() == 1e-4


def test_what_the_program_sets_meanwhile_is_left_until_somebody_asks_again() -> None:
    turns = Turns()
    turns.hasten("first")
    sys.setswitchinterval(0.02)
    turns.relax("first")
    assert interval() == 0.02
    turns.hasten("second")
    assert interval() == SWITCH_SECONDS
    turns.relax("second")
    assert interval() == 0.02


RECORDING = """
import os, pathlib, sys
from appl.tracing.recording import Writer

def interval():
    return round(sys.getswitchinterval(), 6)

print(interval(), flush=True)
folder = pathlib.Path(sys.argv[1])
first, second = Writer(folder / "first.trace"), Writer(folder / "second.trace")
print(interval(), flush=True)
if not os.fork():
    print(interval(), flush=True)
    os._exit(0)
os.wait()
first.close()
print(interval(), flush=True)
try:
    Writer(folder / "first.trace")
except Exception:
    print("it is there")
second.close()
print(interval())
"""


def test_writers_ask_for_it_and_a_forked_child_has_none(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RECORDING, str(tmp_path)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    short, usual = str(SWITCH_SECONDS), str(USUAL)
    assert told[:-1] == [usual, short, usual, short, "it is there", usual]


def test_a_group_gathers_until_its_first_item_is_old() -> None:
    """The later the writer was woken the last time, the less it waits."""
    thread = WriterThread("")
    thread.since = 10.0
    assert thread.due() == pytest.approx(10.0 + GROUP_SECONDS)
    thread.late = 0.0005
    assert thread.due() == pytest.approx(10.0 + GROUP_SECONDS - 0.0015)


def test_a_group_whose_first_item_is_old_is_not_waited_for() -> None:
    thread = WriterThread("")
    thread.since = began = time.monotonic() - 3600.0
    thread.gather()
    assert (thread.since, thread.late, thread.hurry) == (began, 0.0, False)


def test_a_group_that_somebody_waits_for_is_not_gathered() -> None:
    thread = WriterThread("")
    thread.since = time.monotonic() + 3600.0
    thread.awake = True
    thread.wake(rush=True)
    thread.gather()  # which would last an hour
    assert not thread.hurry
