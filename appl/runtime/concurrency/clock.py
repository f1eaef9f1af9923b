"""Timers that a program can wait for, and what depends on time: ``done()`` and timeouts.

Invariant: no thread sleeps; timers are those of the I/O loop, or a replay's own moments. A moment
is recorded as it is delivered: among the deliveries it stands where it comes again in a replay.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING

from appl.errors import InvalidOption, RunWaiting
from appl.runtime.concurrency.fiber import arrive, strand_here, wait
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, Home, Outcome, Promise, Value
from appl.runtime.frame import Frame, FrameRun, run_of
from appl.runtime.world import Moment

if TYPE_CHECKING:
    from appl.runtime.outside import Observer

_DONE = Value(None)


class Signal(Promise):
    """Done as soon as one of several things happens."""

    __slots__ = ()

    def reached(self, _: Promise | None = None) -> None:
        """Note that one of them happened."""
        self.finish(_DONE)

    def suspicious(self) -> bool:
        return False


class _AtTime(Signal):
    """A moment to come; *callback* is called when it comes, before the program goes on."""

    __slots__ = ("_callback",)

    def __init__(self, address: str, home: Home, callback: Callable[[], None]) -> None:
        super().__init__(address, home)
        self._callback = callback

    def deliver(self) -> None:
        # first, and on this thread: what is seen is recorded at its place among all
        self._callback()
        super().deliver()


class TimedWait:
    """A wait of *observer* for a moment: *seconds* from now, or when *pending* is done if sooner.

    The run's world decides when the moment comes, and what is seen then; live it is *live()*. The
    program waits inside the block, whose end ends the wait.
    """

    def __init__(
        self,
        run: FrameRun,
        observer: Observer,
        kind: str,
        seconds: float,
        live: Callable[[], object],
        pending: Promise | None = None,
    ) -> None:
        self._run, self._live = run, live
        address = observer.address
        self._moment = Moment(address, kind, run.outside.next_observation(observer))
        self._has_exited = False
        self._alarm: Alarm | None = None
        self._observed: Outcome | None = None
        self.first = _AtTime(address, strand_here().hub, self._look)
        run.outside.expect(self._moment, self.first.reached, lambda: self._arm(seconds, pending))

    def _arm(self, seconds: float, pending: Promise | None) -> None:
        if self._has_exited:
            return
        self._alarm = Alarm(self._run, seconds, self.first.reached)
        if pending is not None and not pending.subscribe(self.first.reached):
            self.first.reached()

    def __enter__(self) -> Signal:
        return self.first

    def __exit__(self, *_: object) -> None:
        self._has_exited = True
        self._run.outside.leave(self._moment)
        if self._alarm is not None:
            self._alarm.off()  # it would keep what is waited for until its time

    def _look(self) -> None:
        """Look at the world as the moment is delivered, unless nobody waits for it any more."""
        if self._has_exited or self._observed is not None:
            return
        try:
            self._observed = Value(self._run.outside.world.see(self._moment, self._live))
        except (Exception, RunWaiting) as error:  # the program's, not the hub's
            self._observed = Error(error)

    def seen(self) -> object:
        """The value that was seen when the moment came. Raises the error of a replay, if any."""
        if isinstance(self._observed, Error):
            raise self._observed.raised()
        return self._observed.value if self._observed is not None else None


class Alarm:
    """Calls *act* on the I/O loop in *seconds*, unless it is turned off before."""

    def __init__(self, run: FrameRun, seconds: float, act: Callable[[], None]) -> None:
        self._detection, self._act = run.outside.idle_detection, act
        self._alarms = run.outside.alarms
        self._alarms.add(self)
        self._handle: TimerHandle | None = None
        self._gone = False
        # While a timer runs the run is not idle for good: it will move by itself. Counted before
        # the action is sent, so that nobody sees the run without both.
        if self._detection is not None:
            self._detection.timers += 1
        io = io_thread()
        io.send(lambda: setattr(self, "_handle", io.loop.call_later(max(seconds, 0.0), self._go)))

    def off(self) -> None:
        """Call nothing any more; on any thread."""
        # By the queue, which keeps the order: the timer was made by an action that was sent before.
        if not self._gone:
            io_thread().send(self._stop)

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._over()

    def _go(self) -> None:
        self._gone = True
        self._over()
        self._act()

    def _over(self) -> None:
        self._alarms.discard(self)
        if self._handle is not None and self._detection is not None:
            self._detection.timers -= 1
        self._handle = None


def seconds(where: str, value: object) -> float:
    """*value* as a time in seconds; ``InvalidOption`` about *where* when it is none."""
    if isinstance(value, bool) or not isinstance(value, Real) or value != value:
        raise InvalidOption(f"{where} is a number of seconds, got {value!r:.80}")
    return float(value)


def _nothing() -> None:
    """Nothing: the value that a sleeper sees."""


def expired(pending: Promise, timeout: float) -> bool:
    """Wait for *pending* at most *timeout* seconds; true if it is still not done."""

    def late() -> bool:
        return not pending.last().done  # at the delivery: answer and timer may come together

    moment = TimedWait(run_of(pending), pending, "timeout", timeout, late, pending)
    with moment as first:
        wait(first)
    return bool(moment.seen())


def sleep_now(frame: Frame, seconds: float) -> None:
    """Suspend the running program, which is in *frame*, for *seconds*."""
    moment = TimedWait(frame.run, frame, "sleep", seconds, _nothing)
    with moment as first:
        wait(first)
    moment.seen()


async def asleep(frame: Frame, seconds: float) -> None:
    """Suspend the running coroutine, which is in *frame*, for *seconds*."""
    moment = TimedWait(frame.run, frame, "sleep", seconds, _nothing)
    with moment as first:
        await arrive(first)
    moment.seen()
