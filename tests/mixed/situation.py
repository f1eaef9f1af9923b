"""Describes what every thread, task and open run of this process waits for, when a program hangs."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from appl.runtime import hubs, io_thread
from appl.runtime.frame import open_runs

_DEEP = 12


def situation() -> str:
    """The stacks of all threads and tasks, and what every open run holds back."""
    return "\n".join([*_threads(), *_tasks(), *_runs()])


def _threads() -> Iterator[str]:
    frames = sys._current_frames()
    for thread in threading.enumerate():
        yield f"thread {thread.name}: {_stack(frames.get(thread.ident or 0))}"


def _stack(frame: FrameType | None) -> str:
    found = traceback.extract_stack(frame)[-_DEEP:] if frame is not None else []
    return " > ".join(f"{at.filename.rpartition('/')[2]}:{at.lineno} {at.name}" for at in found)


def _tasks() -> Iterator[str]:
    for loop in {hub.loop for hub in hubs() if hub.loop is not None} | {io_thread().loop}:
        for task in asyncio.all_tasks(loop):
            where = [f"{each.f_code.co_name}:{each.f_lineno}" for each in task.get_stack()]
            yield f"task {task.get_name()}: {' > '.join(where)}"


def _runs() -> Iterator[str]:
    io = io_thread()
    yield f"I/O loop: queue empty: {io.empty}"
    for hub in hubs():
        yield (
            f"hub of {hub.thread.name}, {hub.loop}: {hub.rest()}, asleep {hub.asleep}, {hub.turns} turns, "
            f"inbox {len(hub.inbox)}, ready {len(hub.ready)}, waits for "
            f"{[repr(strand.waits) for strand in hub.waiting()]}"
        )
    for run in open_runs:
        yield from _run(run)


def _run(run: Any) -> Iterator[str]:
    detection, world = run.outside.idle_detection, run.outside.world
    if detection is not None:
        yield (
            f"run: busy {run.busy}, {detection.timers} timers, {detection.starting} starting, "
            f"asked to look: {detection._is_scheduled}, {detection.waits} waits, {detection._spared} spared"
        )
    for name in ("_parked", "_waiting", "_held", "_running", "asked", "error", "_open"):
        if hasattr(world, name):
            yield f"{type(world).__name__}.{name}: {getattr(world, name)!r:.2000}"
    yield f"collections: {gc.get_stats()[2]['collections']} of all {gc.get_count()} objects"
