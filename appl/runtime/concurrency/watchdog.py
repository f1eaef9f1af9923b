"""A watchdog that tells the user of lines that block their thread while other programs could go on.

The I/O thread looks at the threads of programs a few times a second, as long as a call is under way
or a thread runs; less often while nobody is there who could be kept from going on. A thread that
stands in the same line of the same program at two looks has been blocked in between. The user is
told of a line once, when it has blocked others for ``ENOUGH`` seconds in all. The watchdog also
notes for how long a run waits for one call alone (``serial``).

Invariant: it only looks. A program that keeps no other from going on is never reported, and neither
is computing that is over between two looks.
"""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import filterfalse
from operator import methodcaller
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Protocol

from appl.base.collecting import stack_of
from appl.runtime.concurrency.loop_thread import io_thread

if TYPE_CHECKING:
    import asyncio

    from appl.runtime.concurrency.fiber import Hub
    from appl.runtime.concurrency.serial import SerialWaits, WaitedCall
    from appl.runtime.reporter import Reporter
else:
    from appl.base import deferred_asyncio as asyncio

SAMPLE = 0.05
_SELDOM = 0.2  # between looks while no call is under way and no program could go on beside another
ENOUGH = 1.0
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


class Activation(Protocol):
    """An activation of a function, as far as the watchdog looks at it: a ``Frame``."""

    address: str
    generations: int

    @property
    def parent(self) -> Activation | None:
        """The one around it."""

    @property
    def run(self) -> ReportingRun:
        """The run that it belongs to."""


class ReportingRun(Protocol):
    """A run that tells the user something."""

    reporter: Reporter


@dataclass(slots=True)
class Standing:
    """The place of a thread at the last look: line and activation, and the time."""

    place: tuple[object, ...]
    at: float


@dataclass(slots=True)
class _Line:
    """The seconds for which a line has blocked others so far, and the most others at one time.

    ``streak`` counts the activations before ``last`` that stood there too, since the program was
    last told of an answer, at the turn ``turns`` of its hub.
    """

    seconds: float = 0.0
    others: int = 0
    is_reported: bool = False
    last: Activation | None = None
    turns: int = 0
    streak: int = 0

    def stands(self, activation: Activation, turns: int) -> None:
        """Note that *activation* blocks here.

        If the one before has asked a model, and no program has been told of an answer since, then
        this one needed nothing of the one before, and could have gone on beside it.
        """
        last = self.last
        if last is not activation:
            beside = last is not None and last.parent is activation.parent and last.generations
            self.streak = self.streak + 1 if beside and turns == self.turns else 0
        self.last, self.turns = activation, turns


class Watchdog:
    """Looks at the threads of *hubs* from the I/O thread; ``on`` while it does so."""

    def __init__(self, hubs: Callable[[], list[Hub]]) -> None:
        self._hubs = hubs
        self.runs: weakref.WeakSet[WaitedRun] = weakref.WeakSet()
        self._lines: dict[tuple[str, int], _Line] = {}
        self._before: weakref.WeakKeyDictionary[Hub, Standing] = weakref.WeakKeyDictionary()
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
            for line in self._lines.values():
                line.last = None  # which would keep its run
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
            self._before[hub] = Standing(place, now)
            if before is not None and before.place == place:
                self._blocked(hub, activation, user, now - before.at)
        # A call that came after a calm look was hardly waited for all the time since then.
        most = SAMPLE if self._calm else math.inf
        seconds, self._looked = min(now - (self._looked or now), most), now
        for run in runs:
            if run.over:  # it is forgotten, also while other runs keep this busy
                self.runs.discard(run)
                for line in self._lines.values():
                    if line.last is not None and line.last.run is run:
                        line.last = None
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

    def _blocked(
        self, hub: Hub, activation: Activation | None, user: FrameType, seconds: float
    ) -> None:
        """Count that *user* has blocked *hub* for *seconds*, if others could have gone on."""
        key = user.f_code.co_filename, user.f_lineno
        line = self._lines.setdefault(key, _Line())
        if line.is_reported:
            return
        if activation is not None:
            line.stands(activation, hub.turns)
        waiting = _ready(hub) if hub.fibers or hub.ready else []
        others = max(hub.due + len(waiting), line.streak)
        if not others:
            return
        line.seconds += seconds
        line.others = max(line.others, others)
        run = activation.run if activation is not None else _run_of(waiting)
        if line.seconds >= ENOUGH and run is not None:
            line.is_reported, line.last = True, None
            address = activation.address if activation is not None else ""
            from appl.runtime.concurrency.blocking_lines import warning  # few lines block

            run.reporter.warn(address, warning(user, line.seconds, line.others))


# -- who could go on


def _ready(hub: Hub) -> list[object]:
    """The programs of *hub* that could go on now."""
    fibers = [fiber for fiber in tuple(hub.fibers) if (w := fiber.waits) is not None and w.done]
    return [*fibers, *(strand for strand, _ in tuple(hub.ready))]


def _run_of(strands: Iterable[Any]) -> ReportingRun | None:
    """The run of one of the programs that wait."""
    for strand in strands:
        run: ReportingRun | None = getattr(strand.waits, "run", None)
        if run is not None:
            return run
    return None


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
