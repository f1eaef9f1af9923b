"""Waits that were cancelled: a call is cancelled with the last of those who could read it.

The error that ends a task holds its frames, and these its variables. Libraries keep such errors, in
a circle with the frames, until the garbage collector comes by; a call whose generation is among the
variables would be read to its end meanwhile. So these are let go of when the task has ended.

Invariant: only frames that a cancelled task was in, and that have ended with it, are cleared.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import weakref
from types import FrameType
from typing import TYPE_CHECKING

from appl.runtime.concurrency.loop_thread import task_here
from appl.runtime.concurrency.promise import Promise

if TYPE_CHECKING:
    import asyncio

_COROUTINE = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE  # asyncio's own, before 3.12
_AWAITING = _COROUTINE | inspect.CO_ASYNC_GENERATOR


def note_abandoned_wait(pending: Promise, error: BaseException) -> None:
    """Note that *error* ended a wait for *pending*, in the calling function."""
    if not (isinstance(error, Exception) or pending.done):  # a time limit, or a cancellation
        unread(pending)
        clear_when_cancelled(sys._getframe(1), error)


def unread(pending: Promise) -> None:
    """Cancel *pending*, for which nobody waits any more, as soon as nobody holds its future."""
    proxy = pending.proxy() if pending.proxy is not None else None
    if pending.holder is not None or pending.done:
        return  # a prompt needs it, or there is nothing to cancel
    if proxy is None:
        pending.cancel()
    else:
        pending.proxy = weakref.ref(proxy, lambda _: pending.cancel())


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
    coro = task.get_coro()
    if frames and frames[-1] is getattr(coro, "cr_frame", getattr(coro, "gi_frame", None)):
        task.add_done_callback(lambda ended: _clear(ended, frames, error))


def _clear(
    ended: asyncio.Task[object], frames: list[FrameType], error: BaseException | None
) -> None:
    if not ended.cancelled():  # an ordinary error is shown with its variables
        return
    # A coroutine has ended with its task. A generator has if the error went through it, and on to
    # who asked it for more; else it may only wait for its next reader.
    import traceback  # a cancelled task needs it

    passed = [frame for frame, _ in traceback.walk_tb(error.__traceback__)] if error else []
    for inner, outer in zip(frames, [*frames[1:], None], strict=True):
        coroutine = inner.f_code.co_flags & _COROUTINE
        if coroutine or (outer in passed and inner in passed[passed.index(outer) :]):
            with contextlib.suppress(RuntimeError):
                inner.clear()
