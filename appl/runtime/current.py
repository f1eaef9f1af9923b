"""The run and the frame that the caller is in.

Invariant: a program, a task and a thread of the user's own each are in one frame of one run, also
where several runs are open.
"""

from __future__ import annotations

import threading
from asyncio import _get_running_loop
from collections.abc import Callable
from typing import cast

from greenlet import getcurrent

from appl import services
from appl.runtime.concurrency.fiber import Stack, strand_here
from appl.runtime.concurrency.loop_thread import task_here
from appl.runtime.concurrency.promise import Promise
from appl.runtime.frame import FRAME, Frame, FrameRun, ThreadFrame

open_runs: list[FrameRun] = []
"""The runs whose blocks were entered and not left, in this order."""


def current() -> FrameRun:
    """The run that the caller is in: its own, the one that is open, else the process's."""
    frame = FRAME.get()
    if frame is not None:
        return frame.run
    return _around() or cast(FrameRun, services.sessions().process_run())


def _around() -> FrameRun | None:
    """The open run that the caller belongs to: the one of its thread, or the only one.

    Where several threads or tasks have runs open, as in a server, another thread is in none.
    """
    thread, task = threading.get_ident(), task_here()
    runs = list(open_runs)  # other threads open and close theirs meanwhile
    for run in reversed(runs):
        if run.tree.root.thread == thread and run.tree.task in (None, task):
            return run
    return runs[-1] if len({(run.tree.root.thread, run.tree.task) for run in runs}) == 1 else None


def here(content: Callable[[], str], call: bool = True) -> Frame:
    """The frame that the caller is in.

    *content* names the scope of an outermost *call* on a thread of the user's own, and that of a
    task that has none: threads of a pool take their work in any order.
    """
    frame = FRAME.get()
    if frame is None or frame.parent is None:
        frame = _outermost(frame, content)
    elif frame.thread != threading.get_ident():
        frame = frame.run.tree.scope(frame.run, frame, content())
    elif call and type(frame) is ThreadFrame and frame.counts:
        frame.run.tree.next_scope(frame, content())
    if (detection := frame.run.outside.idle_detection) is not None:
        detection.joins(strand_here().hub)
    return frame


def _outermost(frame: Frame | None, content: Callable[[], str]) -> Frame:
    run = frame.run if frame is not None else current()
    tree, task = run.tree, None
    if _get_running_loop() is not None:
        tree.scope_tasks()
        task = task_here()
    in_fiber = frame is not None and type(getcurrent()) is Stack
    if tree.root.thread == threading.get_ident() and (in_fiber or tree.task is task):
        return tree.root
    return tree.scope(run, tree.root, content())


def run_of(pending: Promise) -> FrameRun:
    """The run that *pending* belongs to."""
    run: FrameRun | None = getattr(pending, "run", None)
    return run if run is not None else current()
