"""Waits of a run's programs for something outside of the process, and the end of the run for them.

Invariant: the run ends as waiting on the I/O loop, when all programs wait, no call is under way but
those that are away, no timer runs, and nobody in this process will answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, cast
from weakref import ref

from appl.errors import Awaited, RunError, RunWaiting
from appl.runtime.concurrency.fiber import Hub, hub_here, hubs, run_on, strand_here
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, Promise, Value
from appl.runtime.concurrency.task import Task
from appl.runtime.waiting import wall_clock
from appl.runtime.world import Moment

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.concurrency.idle_detection import IdleDetection
    from appl.runtime.frame import FrameRun
    from appl.runtime.outside import Observer, Outside
    from appl.runtime.run import Run

LOOK_S = 0.03


class Wait(Promise):
    """A wait of *observer* for something outside, which the run's world may know.

    ``entry`` says what for. *live* is called when it is not recorded, and has :meth:`come` called
    when it has come. The program is told what was seen then, which is recorded as *kind*. While
    ``attended()`` is true, somebody in this process will end it, and the run does not.
    """

    __slots__ = ("_given", "_live", "_seen", "attended", "entry", "moment", "run")

    def __init__(
        self,
        run: FrameRun,
        observer: Observer,
        kind: str,
        ordinal: int,
        entry: Awaited,
        live: Callable[[Wait], None],
    ) -> None:
        super().__init__(observer.address, strand_here().hub)
        self.run, self.entry, self._live = run, entry, live
        self.moment = Moment(observer.address, kind, ordinal)
        self.attended: Callable[[], bool] = lambda: False  # nobody in this process will end it
        self._given: object = None
        self._seen: object = None

    def begin(self) -> None:
        """Expect it of the world."""
        self.run.check_open()
        if self.run.services.gate is not None:  # a run that goes on later has a trace
            self.run.services.gate()
        waits_of(self.run)  # now: the world may open this on the I/O loop, which is no program's
        self.run.outside.expect(self.moment, self._told, self._open)

    def _open(self) -> None:
        if not self.done:
            waits_of(self.run).add(self)
            self._live(self)

    def _told(self, news: object) -> None:
        self.finish(Error(news) if isinstance(news, BaseException) else _COME)

    def come(self, value: object) -> bool:
        """Have the program told *value*; false if it was told something before. From any thread."""
        self._given = value  # first: the program may look at once
        waits_of(self.run).drop(self)
        return self.finish(_COME)

    def left(self) -> None:
        """Nobody waits for it any more."""
        self.run.outside.leave(self.moment)
        waits_of(self.run).drop(self)

    def deliver(self) -> None:
        # What is seen is recorded as it is delivered, at its place among all deliveries, and before
        # the program goes on.
        if isinstance(self.outcome, Value) and not self.delivered:
            try:
                self._seen = self.run.outside.world.see(self.moment, lambda: self._given)
            except (Exception, RunWaiting) as error:  # the program's, not the hub's
                self.outcome = Error(error)
        super().deliver()

    def value(self) -> object:
        """The value that the program got. Raises ``RunWaiting``, or the error of a replay."""
        if isinstance(self.outcome, Error):
            raise self.seen()
        return self._seen

    def suspicious(self) -> bool:
        return False


_COME = Value(None)


class Asker(Protocol):
    """Asks somebody in this process, once all programs wait."""

    def ask(self, waits: list[Wait]) -> bool:
        """Ask for the next of *waits*; false if nobody can be asked. On the I/O loop."""


class Waits:
    """The open waits of a run.

    ``sources`` tell what backends wait for, ``askers`` may ask somebody in this process.
    """

    def __init__(self, run: Run) -> None:
        self._run = ref(run)
        self.open: dict[Moment, Wait] = {}
        self.sources: list[Callable[[], Iterable[Awaited]]] = []
        self.askers: list[Asker] = []
        self._followed: set[str] = set()
        outside: Outside = run.outside
        self._watch(outside.on_idle(run, self.idle))

    def _watch(self, detection: IdleDetection) -> None:
        """Have idleness looked for on every hub where a program of the run may be.

        The run was not watched before. A thread says by itself when it sleeps; the hub of a loop
        has to look first, on its own thread: until then the run does not rest.
        """
        io, here = io_thread(), None if io_thread().on_loop() else hub_here()
        for hub in hubs():
            if hub.loop is io.loop:
                continue
            if hub is here or hub.loop is None:
                detection.joins(hub)
                continue
            if not hub.runs():
                continue
            detection.starting += 1

            def join(hub: Hub = hub) -> None:
                detection.joins(hub)
                detection.starting -= 1

            run_on(hub, join)
        detection.soon()

    def add(self, wait: Wait) -> None:
        """Note that *wait* is open; from any thread."""
        self.open[wait.moment] = wait
        self._look_soon()

    def drop(self, wait: Wait) -> None:
        """Note that *wait* is over."""
        self.open.pop(wait.moment, None)

    def _look_soon(self) -> None:
        run = self._run()
        if run is not None:
            run.outside.look_soon()

    # -- when all programs wait, on the I/O loop

    def idle(self, final: bool = True) -> bool:
        """All programs wait: have somebody asked, or end the run; true if something happens."""
        run = self._run()
        if run is None or run.waiting is not None or not final:
            return False
        entries = self.entries()
        if not entries or not self._nothing_goes_on(run, entries):
            return False
        attended = [wait for wait in tuple(self.open.values()) if wait.attended()]
        if attended:  # by a host, or by the clock soon
            due = [wait.entry.due for wait in attended if wait.entry.kind == "time"]
            return len(due) == len(attended) and wall_clock.clock.skip_to(min(filter(None, due)))
        if any(asker.ask(list(self.open.values())) for asker in self.askers):
            return False
        self._end(run, entries)
        return True

    def entries(self) -> list[Awaited]:
        """The open waits of the run, in the order of addresses."""
        entries = [wait.entry for wait in tuple(self.open.values())]
        entries += [entry for source in self.sources for entry in source()]
        return sorted(entries, key=lambda entry: entry.address)

    def _nothing_goes_on(self, run: Run, entries: list[Awaited]) -> bool:
        if run.outside.alarms:  # each has the run looked at when it is over
            return False
        away = {entry.address for entry in entries}
        under_way: list[Call] = []  # with a backend, or they may go there by themselves
        for holding in run.holdings():
            call = cast("Call", holding.call)
            # With its request made it goes there as soon as the beginning of the run is on disk.
            has_prompt = holding.stage != "prompt" or call.request is not None
            if has_prompt and call.outcome is None and call.address not in away:
                under_way.append(call)
        for call in under_way:
            self._follow(call)
        if any(task.is_starting for task in _tasks(run)):
            io_thread().loop.call_later(LOOK_S, self._look_soon)
            return False
        detection = run.outside.idle_detection
        if detection is not None and detection.is_stale:
            # A function was not seen at rest, as its thread had no hub yet, and has begun since.
            self._look_soon()
            return False
        return not under_way

    def _follow(self, call: Call) -> None:
        """Look again when *call* has ended: perhaps no program waits for it."""
        if call.address not in self._followed:
            self._followed.add(call.address)
            if not call.subscribe(lambda _: self._look_soon()):
                self._look_soon()

    def _end(self, run: Run, entries: list[Awaited]) -> None:
        if run.trace_path() is None:
            error = RunError(
                f"the program waits for something outside, {_in_words(entries)}, and nobody in "
                "this process will answer; this run is not recorded, so it cannot end now and go "
                "on later: record it, or give appl.on_question(f)"
            )
            run.fail(error)
            self._fail(error)
            return
        run.end_as_waiting(entries)
        assert run.waiting is not None
        self._fail(run.waiting)

    def _fail(self, error: BaseException) -> None:
        for wait in tuple(self.open.values()):
            self.drop(wait)
            wait.finish(Error(error))


def _in_words(entries: list[Awaited]) -> str:
    return "; ".join(f"{entry.text} ({entry.address})" for entry in entries[:3])


def _tasks(run: Run) -> Iterator[Task]:
    """The unfinished functions that were started in *run*."""
    todo = list(run.tree.started())
    while todo:
        pending = todo.pop()
        todo += pending.children or ()
        if isinstance(pending, Task) and not pending.done:
            yield pending
            todo += pending.frame.started


def waits_of(run: FrameRun) -> Waits:
    """The open waits of *run*; they are looked after from the first call on."""
    waits = vars(run).get("waits")
    if waits is None:
        waits = vars(run).setdefault("waits", Waits(cast("Run", run)))
    return cast(Waits, waits)
