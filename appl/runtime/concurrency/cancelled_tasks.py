"""The variables of cancelled tasks: they are let go of when the task has ended.

The error that ends a task holds its frames, and these its variables. Libraries keep such errors, in
a circle with the frames, until the garbage collector comes by; a call whose generation is among the
variables would be read to its end meanwhile.

Invariant: only frames of coroutines that a cancelled task was in are cleared, after its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from types import FrameType

from appl.runtime.concurrency.loop_thread import task_here


def clear_when_cancelled(frame: FrameType | None) -> None:
    """Clear *frame*, and the coroutines around it, when the task that is in them was cancelled."""
    task = task_here()
    if task is None:
        return
    frames: list[FrameType] = []
    while frame is not None and frame.f_code.co_flags & inspect.CO_COROUTINE:
        frames.append(frame)
        frame = frame.f_back
    # Each of them awaits the next one, so all have ended with the task. Where somebody else drives
    # a coroutine, or there is a generator among them, that is not known: it may go on.
    if frames and frames[-1] is getattr(task.get_coro(), "cr_frame", None):
        task.add_done_callback(lambda ended: _clear(ended, frames))


def _clear(ended: asyncio.Task[object], frames: list[FrameType]) -> None:
    if ended.cancelled():  # an ordinary error is shown with its variables
        for frame in frames:
            with contextlib.suppress(RuntimeError):
                frame.clear()
