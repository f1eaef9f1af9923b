"""A function that runs beside its program, with its start and its end in the record.

Invariant: exactly one end is recorded, before the program can see it; a replay gives the recorded
end in its turn, and the function does not run.
"""

from __future__ import annotations

import contextlib
import time
from asyncio import _get_running_loop
from collections.abc import Callable
from contextvars import Context
from threading import get_ident
from typing import Any

from appl.base.threads import process_lock
from appl.errors import CallCancelled, DeadlockError, RunClosed, RunWaiting, TraceError
from appl.prompt import Message
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.fiber import Fiber, Hub
from appl.runtime.concurrency.loop_thread import void
from appl.runtime.concurrency.promise import Error, Outcome, Promise, Stop, Value
from appl.runtime.concurrency.task import Task, at_home, context_for
from appl.runtime.event import Delivered, ToolEnded, ToolStarted
from appl.runtime.frame import Frame
from appl.runtime.world import Moment, ToolRequest

THROUGH = (TraceError, DeadlockError, RunClosed, CallCancelled, RunWaiting)
"""Errors of the runtime itself: they are not the result of the function."""
ENDING = process_lock()


class EffectTask(Task):
    """A function whose end a replay knows; subclasses say how it runs and what its end is."""

    __slots__ = ("_active", "_held", "_inner", "_is_told", "_over", "_rest")

    def __init__(self, frame: Frame, home: Hub) -> None:
        super().__init__(frame, home)
        self._over = False
        self._is_told = False  # its start was recorded, so that its end is, too
        self._active = False
        self._held = False
        self._inner: Callable[[], None] | None = None
        self._rest: Promise | None = None

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
        self._is_told = True
        if (watcher := self.run.reporter.watcher) is not None:
            at = time.monotonic_ns()
            watcher.on_event(ToolStarted(self.address, name, arguments, effect, *place, at))

    def expect(
        self, name: str, arguments: str, at_once: bool, start: Callable[[Context], None],
        may_ask: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """Have *start* called, now or later, unless the world knows the end of the function."""
        self._held = True  # before: it may be begun at once, on the I/O loop
        moment, end = Moment(self.address, "tool"), self.conclude if at_once else self.finish
        about = ToolRequest(name, arguments, at_once, may_ask)
        live = self._live(start)
        try:
            self.run.outside.expect(
                moment, lambda news: void(end(self.outcome_of(news))), live, about
            )
        except TraceError as error:
            self.conclude(Error(error))

    def _live(self, start: Callable[[Context], None]) -> Callable[[], None]:
        """A function that begins the tool, from whatever thread it is called on."""
        context, loop, caller = context_for(self.frame), _get_running_loop(), get_ident()

        def go() -> None:
            self._held = False
            if not self.done:
                start(context)

        def live() -> None:
            if loop is None or get_ident() == caller:
                go()
                return
            with contextlib.suppress(RuntimeError):  # it is closed: nobody waits any more
                loop.call_soon_threadsafe(go)

        return live

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
        is_under_way = isinstance(outcome, Error) and self.run.waiting is not None
        is_recorded = self._is_told and not is_under_way
        if (watcher := self.run.reporter.watcher) is not None and is_recorded:
            watcher.on_event(self._ended(outcome))
        return super().settle(outcome)

    def closing(self) -> None:
        """Called once, just before the end is recorded."""

    def _ended(self, outcome: Outcome) -> ToolEnded:
        at = time.monotonic_ns()
        if isinstance(outcome, Error):
            return ToolEnded(self.address, None, outcome.error, at)
        return ToolEnded(self.address, self.message_of(outcome.value), None, at)

    def deliver(self) -> None:
        watcher = self.run.reporter.watcher
        is_recorded = self._is_told and self.run.waiting is None
        if watcher is not None and not self.delivered and is_recorded:
            watcher.on_event(Delivered(self.address, time.monotonic_ns()))
        super().deliver()

    # -- its early end

    def cancel(self) -> None:
        self.looked = True
        if self._held:
            self.run.outside.ends(Moment(self.address, "tool"), "cancelled", self._cancel_now)
            return
        self._cancelled = True
        stops = self.can_stop()
        self.abandon()
        if self._active and not stops:
            self._cancel_now()

    def can_stop(self) -> bool:
        """True if the running function can be stopped, so that its end can be waited for.

        A function on a worker thread can, where it waits in appl itself.
        """
        if self._inner is not None or self._aio is not None or type(self.strand) is Fiber:
            return True
        return self.strand is not None and self.strand.waits is not None

    def _cancel_now(self) -> None:
        self.finish(Error(CallCancelled(f"{self.address} was cancelled")))

    def abandon(self) -> None:
        """Stop the running function where it waits next; one that never waits goes on unheard."""
        if (cancel := self._inner) is not None:
            with contextlib.suppress(RuntimeError):  # its loop has just ended
                cancel()
        elif self._aio is not None and isinstance(self.home, Hub):
            at_home(self.home, lambda: void(self._aio and self._aio.cancel()))
        elif (strand := self.strand) is not None:
            at_home(strand.hub, lambda: strand.throw(Stop()) if self._active else None)
