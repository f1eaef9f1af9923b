"""Timers of a program's own event loop: that they strike is a moment of the record.

``asyncio.sleep``, ``wait_for``, ``timeout`` and ``wait(timeout=…)`` set them. A strike goes through
the hub's inbox, among the answers: at that place it is recorded, and comes again in a replay.

Invariant: a timer that is cancelled in time leaves nothing in the record, and never strikes in a
replay.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from appl.runtime.concurrency.fiber import hub_here, run_on
from appl.runtime.event import Observed
from appl.runtime.frame import FRAME, Frame
from appl.runtime.world import LOOP_LIMIT, LOOP_TIMER, Moment

_WAKES_LIMITED = ("_release_waiter", "_on_timeout")
"""asyncio's callbacks that end a wait; every other timer is one that somebody waits for."""
_counts: WeakKeyDictionary[Frame, dict[tuple[str, str], int]] = WeakKeyDictionary()


class ScopedTimer(asyncio.TimerHandle):
    """A timer that was set in *frame*; the world of its run decides when it strikes."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
        set_live: Callable[..., asyncio.TimerHandle],
        frame: Frame,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._set_live, self._frame, self._of = set_live, frame, loop
        self._live: asyncio.TimerHandle | None = None
        self._struck, self._delay = False, when - loop.time()
        self._hub = hub_here()
        name, module = getattr(callback, "__name__", ""), getattr(callback, "__module__", "")
        is_limit = name in _WAKES_LIMITED and (module or "").partition(".")[0] == "asyncio"
        kind = LOOP_LIMIT if is_limit else LOOP_TIMER
        counts = _counts.setdefault(frame, {})
        ordinal = counts.get((frame.address, kind), 0)
        counts[frame.address, kind] = ordinal + 1
        self._at = Moment(frame.address, kind, ordinal)
        outside = frame.run.outside
        # On this thread, where the loop runs: a live timer is set before the program goes on. What
        # is live later begins on the I/O loop.
        outside.expect(self._at, lambda _: self._expire(), self._begin)

    def _begin(self) -> None:
        if self._hub is hub_here():
            self._arm()
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._of.call_soon_threadsafe(self._arm)

    def _arm(self) -> None:
        """Set the live timer, whose time begins now; on the loop's thread."""
        if not self._cancelled and not self._struck:
            self._live = self._set_live(self._of.time() + self._delay, self._expire)

    def _expire(self) -> None:
        run_on(self._hub, self._strike)

    def _strike(self) -> None:
        """On the loop's thread: note that the time is up, and call who set the timer."""
        # Cancelled while the strike was on its way: then it has not happened. A rerun may have two
        # strikes on their way, a recorded one and a live one.
        if self._cancelled or self._struck:
            return
        self._struck = True
        moment, run = self._at, self._frame.run
        if not run.closed:
            at = time.monotonic_ns()
            run.reporter.emit(Observed(moment.address, moment.ordinal, moment.kind, None, at))
        self._run()

    def cancel(self) -> None:
        """Set it off, unless it has struck."""
        if not self._cancelled:
            if self._live is not None:
                self._live.cancel()
            if not self._struck:
                self._frame.run.outside.leave(self._at)
        super().cancel()


class _LoopOfAdopted:
    """The loop as the handle of an adopted timer sees it: who cancels the handle cancels it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timer: ScopedTimer) -> None:
        self._loop: Any = loop
        self._timer = timer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timer.cancel()
        self._loop._timer_handle_cancelled(handle)


def adopt(loop: asyncio.AbstractEventLoop, set_live: Callable[..., asyncio.TimerHandle]) -> None:
    """Make the timers of *loop* that were set inside runs before their first call moments of them.

    Earlier the loop was nobody's; timers of no run, as a server's own, stay the loop's. Who has set
    one holds its handle: that does nothing any more when its time is up.
    """
    inside: Any = loop
    due = [handle for handle in inside._ready if isinstance(handle, asyncio.TimerHandle)]
    handles: list[Any] = [*due, *sorted(inside._scheduled, key=lambda handle: handle.when())]
    for handle in handles:
        frame = None if handle.cancelled() else handle._context.get(FRAME)
        if frame is None or frame.run.closed or frame.run.outside.forgets:
            continue
        about = handle.when(), handle._callback, handle._args, loop, handle._context
        handle._callback, handle._args = _nothing, ()
        handle._loop = _LoopOfAdopted(loop, ScopedTimer(*about, set_live, frame))


def _nothing() -> None:
    """Do nothing: the timer strikes elsewhere."""
