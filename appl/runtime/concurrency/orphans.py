"""Programs whose thread or event loop has ended before they were done: they are cancelled.

Such a program can never go on, because greenlets belong to their thread. asyncio does the same to
the tasks that are left when ``asyncio.run`` returns.

Invariant: a program whose thread and loop are alive is never touched.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from appl.runtime.concurrency.fiber import Hub, hub_here, run_on
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Promise
from appl.runtime.concurrency.structure import unfolded

if TYPE_CHECKING:
    from appl.runtime.concurrency.task import Task

_LOOK_S = 0.2


def end_orphans(started: list[Promise]) -> None:
    """Cancel each program of *started*, and below, that can never go on."""
    for task in list(_orphans_in(started)):
        task.end_if_orphaned()


def _orphans_in(started: list[Promise]) -> Iterator[Task]:
    for pending in unfolded(started):
        if pending.done:
            continue
        from appl.runtime.concurrency.task import Task  # most have ended when somebody looks

        if isinstance(pending, Task):
            if pending.is_orphaned():
                yield pending
            yield from _orphans_in(pending.unfinished())


@contextlib.contextmanager
def watched(started: list[Promise]) -> Iterator[None]:
    """Look again and again, during the block, whether each of *started* can still go on."""
    end_orphans(started)
    if all(pending.done for pending in unfolded(started)):
        yield
        return
    over = threading.Event()
    io_thread().send(partial(_look, started, hub_here(), over))
    try:
        yield
    finally:
        over.set()


def _look(started: list[Promise], hub: Hub, over: threading.Event) -> None:
    """Have what can never go on cancelled, and look again in a moment, until it is *over*."""
    if over.is_set():
        return
    # Looked for on the I/O loop, since the thread of *hub* may sleep in a wait for one of them.
    # Ended on that thread, to which its programs belong.
    if any(True for _ in _orphans_in(started)):
        run_on(hub, lambda: end_orphans(started))
    io_thread().loop.call_later(_LOOK_S, _look, started, hub, over)
