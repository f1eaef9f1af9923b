"""The seam between the programs of a run and its world.

Invariant: what a program is told from outside passes ``expect`` or ``observe``, whatever world it
is. A live run pays for nothing here: its hooks do nothing until a world asks for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary, ref

from appl.backend import Backend, Response, offers
from appl.base import services
from appl.errors import Awaited
from appl.runtime.answers.call import Call
from appl.runtime.concurrency.fiber import watchdog
from appl.runtime.concurrency.loop_thread import void
from appl.runtime.event import Instrument
from appl.runtime.world import AMOUNTS, Deferring, Expected, Live, Moment, Shared, Stepping, World

if TYPE_CHECKING:
    from appl.runtime.concurrency.idle_detection import IdleDetection, WatchedRun
    from appl.runtime.concurrency.watchdog import WaitedRun
    from appl.runtime.dispatch import Dispatch
    from appl.runtime.reporter import Reporter
    from appl.runtime.scheduling.call_status import Endable

    class OutsideRun(WatchedRun, WaitedRun, Protocol):
        """The run whose programs the world tells something."""

        dispatch: Dispatch
        reporter: Reporter

        def end_as_waiting(self, waits: Iterable[Awaited]) -> None:
            """End the run as waiting for *waits*."""


class Observer(Protocol):
    """An activation, a call or a tool that looks at the world from its address."""

    @property
    def address(self) -> str:
        """Where it stands in the program."""


class Outside:
    """Tells the programs of *run* what *world* says; the world asks it about them (``Programs``).

    ``answer`` sends a call that is ready to whoever answers it (its backend, where there is none),
    ``begins`` hears of every call and function that begins, if anybody does. ``steps`` are told
    when all programs wait, which ``idle_detection`` notices (None where nobody would be told).
    """

    def __init__(self, run: OutsideRun, world: World) -> None:
        # The run holds this, which does not hold it: a run that nobody needs any more is freed at
        # once, and does not wait for the garbage collector.
        self._run, self.world = ref(run), world
        self._reporter, self.emit = run.reporter, run.reporter.emit
        self._expected = Expected(world)
        self.expect, self.ends, self.leave = world.expect, world.ends, world.leave
        self.answer: Callable[[Call, Callable[[Call], None]], None] | None = None
        self.begins: Callable[[Endable], None] | None = None
        self.steps: list[Callable[[bool], bool]] = []
        self.amend: Callable[[Call], None] | None = None
        self.idle_detection: IdleDetection | None = None
        self.alarms: set[object] = set()  # that run: the programs will go on by themselves
        self._uses_caches = True
        self._latest_counts: WeakKeyDictionary[Observer, tuple[str, int]] = WeakKeyDictionary()
        self._looked: WeakKeyDictionary[Observer, tuple[str, int]] = WeakKeyDictionary()

    def open(self, run: OutsideRun, backend: Backend) -> None:
        """Begin; *backend* may answer one call after the other, each time all programs wait."""
        # First the world, which may add itself to the steps. Only then it is known whether anybody
        # hands something over when all programs wait: live nobody does, and no hub is watched.
        self.world.opens(self)
        run.dispatch.uses_caches = self._uses_caches
        # The watchdog compares durations. With answers from a record they say nothing of the user's
        # lines.
        if self.answer is None:
            watchdog.runs.add(run)
        if offers(backend, Stepping):
            self.steps.append(backend.on_idle)
        if self.steps:  # else nothing is held back until all programs wait
            self._detect_idleness(run)
        if offers(backend, Shared):
            backend.watched_by(self)
        self.ask_for_waits(run, backend)

    def _detect_idleness(self, run: OutsideRun) -> None:
        from appl.runtime.concurrency.idle_detection import IdleDetection

        steps = self.steps  # each hands something over if the one before has nothing
        self.idle_detection = IdleDetection(
            run, lambda final: any(step(final) for step in steps), self.world.due
        )

    def ask_for_waits(self, run: OutsideRun, backend: Backend) -> None:
        """Ask *backend*, if it may answer after this process, what it waits for."""
        if offers(backend, Deferring):
            services.waits().waits_of(run).sources.append(backend.away)

    def on_idle(self, run: OutsideRun, step: Callable[[bool], bool]) -> IdleDetection:
        """Have *step* called from now on when all programs wait and nobody else has something."""
        self.steps.append(step)
        if self.idle_detection is None:
            self._detect_idleness(run)
        assert self.idle_detection is not None
        return self.idle_detection

    @property
    def forgets(self) -> bool:
        """True if nothing is recorded, and all that programs are told happens by itself."""
        return self._reporter.watcher is None and type(self.world) is Live

    def fail(self, error: BaseException) -> None:
        """Have whoever expects something fail with *error*."""
        self._expected.fail(error)

    # -- for programs

    def observe(self, observer: Observer, kind: str, live: Callable[[], object]) -> object:
        """The observation of the program at the address of *observer*; *live* makes it anew."""
        ordinal = self.next_observation(observer, of_amounts=kind in AMOUNTS)
        return self.world.see(Moment(observer.address, kind, ordinal), live)

    def next_observation(self, observer: Observer, of_amounts: bool = False) -> int:
        """The ordinal of the next observation at the address of *observer*.

        Looks at amounts of budgets are counted alone: an edit that adds another observation would
        otherwise have each of them show what was seen at the one before. An ordinal is counted as
        long as *observer* is there: nobody else looks from that address.
        """
        counts = self._looked if of_amounts else self._latest_counts
        address, ordinal = counts.get(observer, ("", 0))
        if address != observer.address:  # a thread of the user's own has made its next call
            ordinal = 0
        counts[observer] = observer.address, ordinal + 1
        return ordinal

    # -- for the world (``Programs``)

    def held_by(self, world: World) -> None:
        """Tell *world*, which may hold things back, when all programs wait."""
        expected, self.begins = self._expected, self._may_end
        self.expect, self.ends, self.leave = expected.expect, expected.ends, expected.leave
        self.steps.append(world.idle)

    def answered_by(self, world: World, *, caches: bool = True) -> None:
        """Note that *world* may know the answers to calls, so that time does not count.

        Without *caches* none is read.
        """
        self.answer, self._uses_caches = self._answer, caches

    def report_to(self, instrument: Instrument) -> None:
        """Tell *instrument* what happens, before all others."""
        self._reporter.add_first(instrument)

    @property
    def over(self) -> bool:
        """True if the run is over."""
        run = self._run()
        return run is None or run.over

    @property
    def rests(self) -> bool:
        """True if no program can go on."""
        return self.over or (self.idle_detection is not None and self.idle_detection.rests)

    def end_as_waiting(self, waits: Iterable[Awaited]) -> None:
        """End the run as waiting for *waits*."""
        run = self._run()
        if run is not None:
            run.end_as_waiting(waits)

    def look_soon(self) -> None:
        """Look whether all programs wait: something is held, or goes to the backend."""
        if self.idle_detection is not None:
            self.idle_detection.soon()

    def moved(self) -> None:
        """Give programs that may still move their time again."""
        if self.idle_detection is not None:
            self.idle_detection.moved()

    def nobody_can_proceed(self, patience_s: float) -> bool:
        """True if nobody will move by himself, as far as can be known; if not, look again soon."""
        return self.idle_detection is None or self.idle_detection.nobody_can_proceed(patience_s)

    def idle_for(self, seconds: float) -> bool:
        """True if nothing has happened for *seconds*; if not, look again soon."""
        return self.idle_detection is None or self.idle_detection.idle_for(seconds)

    def recalled(self, call: Call, response: Response, requests: int) -> None:
        """Tell caches and budgets that *call* gets a recorded answer."""
        run = self._run()
        if run is not None:
            run.dispatch.scheduler.recall(call, response, requests)

    def charged(self, call: Call, response: Response, requests: int) -> None:
        """Charge a recorded answer to the budgets of the blocks around *call*."""
        run = self._run()
        if run is not None and call.account is not None:
            run.dispatch.scheduler.charge(call, response, requests)

    def refusal(self, call: Call) -> Exception | None:
        """The error with which budgets refuse *call* now; ``None`` if they let it be sent."""
        run = self._run()
        return None if run is None else run.dispatch.scheduler.refusal(call)

    # -- hooks of a world that holds

    def _answer(self, call: Call, go: Callable[[Call], None]) -> None:
        try:
            moment = Moment(call.address, "answer")
            self.expect(moment, call.told, partial(go, call), call)
        except Exception as error:
            call.failed(error)

    def _may_end(self, begun: Endable) -> None:
        """Ask the world whether somebody outside has ended what has *begun*."""
        call = begun if isinstance(begun, Call) else None
        ended = Moment(begun.address, "cancelled")
        self.expect(ended, lambda _: void(begun.end_from_outside()), _nothing, call)


def _nothing() -> None:
    """Do nothing: in a live run an end from outside takes effect by itself."""
