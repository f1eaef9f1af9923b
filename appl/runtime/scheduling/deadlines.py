"""Deadlines of an attempt: first token, between tokens, total; the task is cancelled past one.

Invariant: a cancellation from elsewhere stays one. It works like ``asyncio.timeout``, but with an
injected clock, and its error names the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from appl.backend import Chunk, Emit, Response
from appl.errors import BackendTimeout
from appl.runtime.scheduling.policy import Deadlines
from appl.runtime.scheduling.timers import Clock, Timer


class Deadline:
    """``with Deadline(clock) as late:`` ends the block with ``BackendTimeout`` past what is set."""

    __slots__ = ("_before", "_clock", "_name", "_passed", "_seconds", "_task", "_timer")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None
        self._name, self._seconds = "", 0.0
        self._passed = False

    def set(self, name: str, seconds: float | None) -> None:
        """From now on it is *seconds* until *name* passes; with ``None`` nothing passes."""
        if self._passed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._name, self._seconds = name, seconds
            self._timer = self._clock.at(self._clock.now() + seconds, self._strike)

    def _strike(self) -> None:
        self._passed, self._timer = True, None  # before the cancellation, which ends the block
        self._task.cancel()

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._before = task, task.cancelling()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.set("", None)
        if not self._passed:
            return
        end_late(self._task, self._before, error, self._text(), self._name)

    def _text(self) -> str:
        if self._name == "total":
            return f"no answer within {self._seconds} s"
        if self._name == "connect":
            return f"the backend was not connected with within {self._seconds} s"
        what = "first token" if self._name == "first token" else "next token"
        return f"no {what} within {self._seconds} s"


def end_late(
    task: asyncio.Task[object], before: int, error: BaseException | None, text: str, deadline: str
) -> None:
    """Take back the one cancellation of a deadline that has passed, and raise ``BackendTimeout``.

    The task was cancelled *before* times. If more than these remain, somebody else has cancelled
    it, too, and that is not turned into a timeout.
    """
    elsewhere = task.uncancel() > before
    if isinstance(error, asyncio.CancelledError) and not elsewhere:
        raise BackendTimeout(text, deadline=deadline) from error


async def in_time(
    clock: Clock, seconds: float, asking: Callable[[], Awaitable[Response]]
) -> Response:
    """The answer of *asking*, if it comes within *seconds*. Raises ``BackendTimeout``."""
    with Deadline(clock) as late:
        late.set("total", seconds)
        return await asking()


async def watched(
    clock: Clock,
    deadlines: Deadlines,
    asking: Callable[[Emit], Awaitable[Response]],
    emit: Emit | None,
) -> Response:
    """The answer of *asking*, whose tokens have *deadlines*. Raises ``BackendTimeout``."""
    with Deadline(clock) as late:
        late.set("first token", deadlines.first_token_s)

        def emitted(chunk: Chunk) -> None:
            late.set("between tokens", deadlines.between_tokens_s)
            if emit is not None:
                emit(chunk)

        return await asking(emitted)
