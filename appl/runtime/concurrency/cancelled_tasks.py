"""The variables of cancelled tasks: they are let go of when the task has ended.

The error that ends a task holds its frames, and these its variables. Libraries keep such errors, in
a circle with the frames, until the garbage collector comes by; a call whose generation is among the
variables would be read to its end meanwhile.

Invariant: only frames that a cancelled task was in, and that have ended with it, are cleared.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import traceback
from types import FrameType

from appl.runtime.concurrency.loop_thread import task_here

_AWAITING = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def clear_when_cancelled(frame: FrameType | None, error: BaseException | None = None) -> None:
    """Clear *frame* and the coroutines around it when their task has ended as cancelled.

    *error* is what the task is being cancelled with, where that is known.
    """
    task = task_here()
    if task is None:
        return
    frames: list[FrameType] = []
    while frame is not None and frame.f_code.co_flags & _AWAITING:
        frames.append(frame)
        frame = frame.f_back
    # Each of them awaits the next one. Where somebody else drives a coroutine, that may go on.
    if frames and frames[-1] is getattr(task.get_coro(), "cr_frame", None):
        task.add_done_callback(lambda ended: _clear(ended, frames, error))


def _clear(
    ended: asyncio.Task[object], frames: list[FrameType], error: BaseException | None
) -> None:
    if not ended.cancelled():  # an ordinary error is shown with its variables
        return
    # A coroutine has ended with its task. A generator has if the error went through it, and on to
    # who asked it for more; else it may only wait for its next reader.
    passed = [each for each, _ in traceback.walk_tb(error.__traceback__)] if error else []
    for inner, outer in zip(frames, [*frames[1:], None], strict=True):
        coroutine = inner.f_code.co_flags & inspect.CO_COROUTINE
        if coroutine or (outer in passed and inner in passed[passed.index(outer) :]):
            with contextlib.suppress(RuntimeError):
                inner.clear()
