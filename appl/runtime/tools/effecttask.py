"""A function that runs beside its program, with its start and its end in the record.

Invariant: exactly one end is recorded, before the program can see it; a replay gives the recorded
end in its turn, and the function does not run.
"""

from __future__ import annotations

import contextlib
import threading
import time
from asyncio import _get_running_loop
from collections.abc import Callable
from contextvars import Context
from typing import Any

from appl.errors import CallCancelled, DeadlockError, RunClosed, TraceError
from appl.prompt import Message
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.fiber import Fiber, Hub
from appl.runtime.concurrency.pending import Error, Outcome, Pending, Stop, Value
from appl.runtime.concurrency.task import Task, at_home, context_for, void
from appl.runtime.effects import postponed
from appl.runtime.event import Delivered, ToolEnded, ToolStarted
from appl.runtime.frame import Frame

THROUGH = (TraceError, DeadlockError, RunClosed, CallCancelled)
"""Errors of the runtime itself: they are not the result of the function."""
ENDING = threading.Lock()


class EffectTask(Task):
    """A function whose end a replay knows; subclasses say how it runs and what its end is."""

    __slots__ = ("_active", "_held", "_inner", "_over", "_recorded", "_rest")

    def __init__(self, frame: Frame, home: Hub) -> None:
        super().__init__(frame, home)
        self._over = False
        self._active = False
        self._recorded = False
        self._held = False
        self._inner: Callable[[], None] | None = None
        self._rest: Pending | None = None

    # -- what subclasses say

    def outcome_of(self, recorded: Message | BaseException) -> Outcome:
        """The outcome that was recorded as *recorded*."""
        raise NotImplementedError

    def message_of(self, value: Any) -> Message:
        """The message that *value* is recorded as."""
        raise NotImplementedError

    # -- its start

    def tell_start(
        self, name: str, arguments: str, effect: str, place: tuple[str | None, int | None]
    ) -> None:
        """Record that it begins, where anybody watches."""
        if self.run.watched:
            at = time.monotonic_ns()
            self.run.emit(ToolStarted(self.address, name, arguments, effect, *place, at))

    def answered(self, name: str, arguments: str, at_once: bool) -> bool:
        """Whether a record answers in place of the function."""
        answer = getattr(self.run.effects, "tool", None)
        if answer is None:
            return False
        self._recorded = True
        end = self.conclude if at_once else self.finish
        try:
            self._recorded = answer(
                self.address, name, arguments, at_once,
                lambda recorded: void(end(self.outcome_of(recorded))),
            )  # fmt: skip
        except TraceError as error:
            self.conclude(Error(error))
            return True
        return self._recorded

    def postponed(self, start: Callable[[Context], None]) -> bool:
        """Whether *start* is called later, when things may happen live."""
        context, loop = context_for(self.frame), _get_running_loop()

        def go() -> None:
            self._held = False
            if not self.done:
                start(context)

        def later() -> None:
            if loop is None:
                go()
            else:
                with contextlib.suppress(RuntimeError):  # it is closed: nobody waits any more
                    loop.call_soon_threadsafe(go)

        self._held = True  # before: it may be run at once, on the I/O loop
        if postponed(self.run.effects, later, self.address):
            return True
        self._held = False
        return False

    # -- its end

    def attempt(self, body: Callable[[], Any]) -> Outcome:
        outcome = super().attempt(body)
        if self._cancelled or self._over:
            structure.cancel_all(self.children or [])
        with ENDING:
            self._active, rest = False, self._rest
        if rest is not None:
            rest.children = self.children
            rest.finish(Value(None))
        return outcome

    def settle(self, outcome: Outcome) -> bool:
        with ENDING:
            if self._over:
                return False
            self._over = True
        self.closing()
        if self.run.watched:
            self.run.emit(self._ended(outcome))
        return super().settle(outcome)

    def closing(self) -> None:
        """Called once, just before the end is recorded."""

    def _ended(self, outcome: Outcome) -> ToolEnded:
        at = time.monotonic_ns()
        if isinstance(outcome, Error):
            return ToolEnded(self.address, None, outcome.error, at)
        return ToolEnded(self.address, self.message_of(outcome.value), None, at)

    def deliver(self) -> None:
        if self.run.watched and not self.delivered:
            self.run.emit(Delivered(self.address, time.monotonic_ns()))
        super().deliver()

    # -- its early end

    def cancel(self) -> None:
        self.looked = True
        if self._recorded:
            self._cancel_in_turn()
            return
        self._cancelled = True
        if self._held:
            self._cancel_in_turn()
            return
        stops = self.can_stop()
        self.abandon()
        if self._active and not stops:
            self._cancel_now()

    def _cancel_in_turn(self) -> None:
        on_cancel = getattr(self.run.memory, "on_cancel", None)
        if on_cancel is None or not on_cancel(self.address, self._cancel_now):
            self._cancel_now()

    def can_stop(self) -> bool:
        """Whether what runs can be stopped, so that its end can be waited for.

        A function on a worker thread can, where it waits in appl itself.
        """
        if self._inner is not None or self._aio is not None or type(self.strand) is Fiber:
            return True
        return self.strand is not None and self.strand.waits is not None

    def _cancel_now(self) -> None:
        self.finish(Error(CallCancelled(f"{self.address} was cancelled")))

    def abandon(self) -> None:
        """Stop what runs where it waits next; a function that never waits goes on unheard."""
        if (cancel := self._inner) is not None:
            with contextlib.suppress(RuntimeError):  # its loop has just ended
                cancel()
        elif self._aio is not None and isinstance(self.home, Hub):
            at_home(self.home, lambda: void(self._aio and self._aio.cancel()))
        elif (strand := self.strand) is not None:
            at_home(strand.hub, lambda: strand.throw(Stop()) if self._active else None)
