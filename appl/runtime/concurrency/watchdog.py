"""A watchdog that tells the user of lines that block their thread while other programs could go on.

The I/O thread looks at the threads of programs a few times a second, as long as a call is under way
or a thread runs; less often while nobody is there who could be kept from going on. A thread that
stands in the same line of the same program at two looks has been blocked in between. Lines that
block others are counted by ``BlockingTimes``. The watchdog also notes for how long a run waits for
one call alone (``serial``).

Invariant: it only looks. A program that keeps no other from going on is never reported, and neither
is computing that is over between two looks.
"""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Callable
from itertools import filterfalse
from operator import methodcaller
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Protocol

from appl.base.collecting import stack_of
from appl.runtime.concurrency.loop_thread import io_thread

if TYPE_CHECKING:
    import asyncio

    from appl.runtime.concurrency.blocking_times import Activation, BlockingTimes
    from appl.runtime.concurrency.fiber import Hub
    from appl.runtime.concurrency.serial import SerialWaits, WaitedCall
    from appl.runtime.reporter import Reporter
else:
    from appl.base import deferred_asyncio as asyncio

SAMPLE = 0.05
_SELDOM = 0.2  # between looks while no call is under way and no program could go on beside another
_IDLE_S = 5.0  # after so long without anybody who runs, nobody looks any more
ENTRIES: set[CodeType] = set()
"""Code that runs the body of a prompt function, with its activation in the local ``frame``."""
_OURS = str(Path(__file__).parents[2])
_INNER = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<lambda>")


class WaitedRun(Protocol):
    """A run whose time counts, as far as the watchdog looks at it."""

    reporter: Reporter

    @property
    def serial(self) -> SerialWaits:
        """The calls for which it has waited alone."""

    @property
    def over(self) -> bool:
        """True if it is over."""

    def waited_calls(self, most: int) -> list[WaitedCall]:
        """Calls that are not answered yet, *most* of them at most."""


class Watchdog:
    """Looks at the threads of *hubs* from the I/O thread; ``on`` while it does so."""

    def __init__(self, hubs: Callable[[], list[Hub]]) -> None:
        self._hubs = hubs
        self.runs: weakref.WeakSet[WaitedRun] = weakref.WeakSet()
        self._times: BlockingTimes | None = None  # once a line has blocked its thread
        # The place of each thread at the last look, by activation and line, and the time.
        self._before: weakref.WeakKeyDictionary[Hub, tuple[object, float]] = (
            weakref.WeakKeyDictionary()
        )
        self._ran = 0.0  # the time of the last look at which anything was under way
        self._calm = False
        self._looked: float | None = None
        self.on = False

    def begin(self) -> None:
        """Look from now on, until nothing moves for some seconds; from any thread."""
        # Set here and not on the loop: each start of a fiber looks at it, and must not begin again.
        self.on, self._calm, self._ran, self._looked = True, False, time.monotonic(), None
        io_thread().send(self._later)

    def _later(self) -> None:
        seconds = _SELDOM if self._calm else SAMPLE
        asyncio.get_running_loop().call_later(seconds, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        if self.look(now):
            self._ran = now
        if now - self._ran > _IDLE_S:
            self.on = False
            if self._times is not None:
                self._times.forget()
        else:
            self._later()

    def look(self, now: float) -> bool:
        """Look at every thread, at the time *now* in seconds; true if anything is under way."""
        runs, busy, waited, beside = tuple(self.runs), False, False, False
        # The threads run on meanwhile: one look is a sample, and a finding needs two equal ones.
        for hub in self._running() if runs else ():
            beside |= bool(hub.fibers or hub.ready or hub.inbox)
            activation, user = _standing(stack_of(hub.thread.ident))
            before = self._before.pop(hub, None)
            if user is None or (activation is None and hub.loop is not None):
                continue
            busy = True  # it runs code of the user's
            owner = activation.address if activation is not None else id(user)
            # With the turn: a line that is at the same place after a delivery let others go on.
            place = (owner, user.f_code, user.f_lineno, hub.turns)
            self._before[hub] = place, now
            if before is not None and before[0] == place:
                if self._times is None:
                    from appl.runtime.concurrency.blocking_times import BlockingTimes  # few block

                    self._times = BlockingTimes()
                self._times.note(hub, activation, user, now - before[1])
        # A call that came after a calm look was hardly waited for all the time since then.
        most = SAMPLE if self._calm else math.inf
        seconds, self._looked = min(now - (self._looked or now), most), now
        for run in runs:
            if run.over:  # it is forgotten, also while other runs keep this busy
                self.runs.discard(run)
                if self._times is not None:
                    self._times.forget(run)
            elif calls := run.waited_calls(2):
                waited = True
                if len(calls) == 1 and not busy:
                    run.serial.note(calls[0], seconds)
        self._calm = not (waited or beside)
        return busy or waited

    def _running(self) -> list[Hub]:
        """The hubs that do not rest; one whose thread is in a loop leaves that to the loop's."""
        hubs = self._hubs()
        running = list(filterfalse(methodcaller("rest"), hubs))
        if not running or len(hubs) == 1:  # mostly
            return running
        in_loops = {hub.thread for hub in hubs if hub.runs()}
        return [hub for hub in running if hub.loop or hub.thread not in in_loops]


# -- where a thread stands


def _standing(stack: list[FrameType]) -> tuple[Activation | None, FrameType | None]:
    """The innermost activation on a stack, and the frame of its own code.

    Without an activation, the innermost frame that is neither of appl nor of a library.
    """
    for index, frame in enumerate(stack):
        if frame.f_code in ENTRIES and index:
            activation = frame.f_locals.get("frame")
            return activation, _innermost(stack[:index])
    return None, next(filter(is_users, stack), None)


def _innermost(inner: list[FrameType]) -> FrameType:
    """The frame of the body of an activation, or of a comprehension in it."""
    frame = inner.pop()
    while inner and inner[-1].f_code.co_name in _INNER:
        if inner[-1].f_code.co_filename != frame.f_code.co_filename:
            break
        frame = inner.pop()
    return frame


@functools.cache
def _libraries() -> tuple[str, ...]:
    import sysconfig  # only a program that blocks is looked at

    return tuple(
        {*(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    )


def is_users(frame: FrameType) -> bool:
    """True if *frame* is of code that is neither ours nor a library's."""
    file = frame.f_code.co_filename
    return not (file.startswith(("<frozen", _OURS)) or file.startswith(_libraries()))
