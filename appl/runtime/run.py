"""A run: a backend, its instruments, and everything that was started in it.

Invariant: nothing that was started in a run outlives it, and no failure is lost that nobody looked
at.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from appl.backend import Backend, Profile
from appl.errors import Awaited, ConfigError, RunClosed, RunWaiting
from appl.runtime import isolated
from appl.runtime.answers.call import Call
from appl.runtime.answers.models import Model, Models
from appl.runtime.concurrency import orphans, structure
from appl.runtime.concurrency.fiber import hub_here, watchdog
from appl.runtime.concurrency.log_records import wait_before_logging
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Promise
from appl.runtime.dispatch import Dispatch
from appl.runtime.event import Instrument, Observed, RunEnded
from appl.runtime.frame import open_runs
from appl.runtime.outside import Outside
from appl.runtime.reporter import Reporter
from appl.runtime.run_services import Entered, Services
from appl.runtime.scheduling.dispatcher import BackendEndpoint
from appl.runtime.scheduling.order import Order
from appl.runtime.scheduling.policy import Policy
from appl.runtime.scheduling.traffic import Traffic
from appl.runtime.scopetree import ScopeTree
from appl.runtime.world import WAITING, Live, Moment, World

if TYPE_CHECKING:
    from appl.runtime.concurrency.serial import SerialWaits, WaitedCall
    from appl.runtime.prompts.recent import Recent
    from appl.runtime.prompts.state import States
    from appl.runtime.scheduling.call_status import CallStatus
    from appl.runtime.tools.offers import ToolMemory


LONGEST_WAIT_S = 3600.0
"""A run ends as waiting rather than sit through a longer wait for a time."""


class Run:
    """Everything that one program does; as a context manager it ends with the block.

    ``models`` are the names that calls may ask, ``model`` the default where they are not given.
    ``places`` are further backends, by the names that ``models`` have for them.
    ``world`` decides what its programs are told from outside, and when; by default it is ``Live``.
    ``prepare`` is called before the first call is sent on its way, on the thread that makes it.
    ``longest_wait`` is how many seconds the process waits for a time while nothing else goes on.
    ``gate``, ``enter``, ``barrier``, ``sequential`` and the defaults of calls are those of
    ``Services``.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        instruments: Iterable[Instrument] = (),
        world: World | None = None,
        gate: Callable[[], None] | None = None,
        enter: Callable[[Entered], bool] | None = None,
        prepare: Callable[[], None] | None = None,
        barrier: Callable[[], None] | None = None,
        model: str | None = None,
        models: Models | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        sampling: Mapping[str, object] | None = None,
        seed: int | None = None,
        concurrency: int | None = None,
        salt: str = "",
        sequential: bool = False,
        order: Order | None = None,
        policy: Policy | None = None,
        traffic: Traffic | None = None,
        places: Mapping[str, BackendEndpoint] | None = None,
    ) -> None:
        models = models or Models(backend.profile, Model(None, model))
        self.services = Services(
            backend, gate, barrier, sequential, models.default.name or "",
            temperature, max_tokens, seed, salt, enter, sampling or {},
        )  # fmt: skip
        policy = policy or _USUAL
        self.reporter = Reporter(instruments)
        self.outside: Outside = Outside(self, Live() if world is None else world)
        self.dispatch = Dispatch(
            models,
            BackendEndpoint(backend, policy, traffic),
            order,
            seed=seed,
            concurrency=concurrency,
            look_soon=self.outside.look_soon,
            warn=self.reporter.warn,
        )
        for name, place in (places or {}).items():
            self.dispatch.add_place(name, place)
        self._prepare = prepare
        self.open_tool_memory: Callable[[], ToolMemory | None] = lambda: None
        self.longest_wait = LONGEST_WAIT_S
        self.nests = True  # a run that is opened inside is a scope of this one
        self.answered_by = ""  # while it is open, nobody but this one in the process is asked
        self.trace_path: Callable[[], Path | None] = lambda: None
        self.closed = False  # nothing can be started any more
        self.over: bool = False  # and all has ended
        self.refusal = ""  # why nothing may be started, if so
        self._fault: BaseException | None = None  # what kept outcomes from being released, if so
        self.waiting: RunWaiting | None = None  # it ends as waiting: nothing may be started
        self.on_over: Callable[[], None] | None = None
        self.on_late: Callable[[], None] | None = None  # called where something is refused as late
        self.began = time.monotonic()
        self._spared: Promise | None = None
        account = None
        if policy is not _USUAL and policy.budget:
            from appl.runtime.scheduling.accounts import Account  # few runs have a budget

            account = Account(policy.budget)
        self.tree = ScopeTree(self, account)
        self.outside.open(self, backend)
        for place in (places or {}).values():
            self.outside.ask_for_waits(self, place.backend)
        wait_before_logging()

    # Made at their first use, as most runs need none of them. Two threads that come first at once
    # get the same one.

    @cached_property
    def states(self) -> States:
        """The states of functions with ``ctx="resume"``."""
        from appl.runtime.prompts.state import States

        return cast(States, vars(self).setdefault("states", States()))

    @cached_property
    def recent(self) -> Recent:
        """The messages that were given to calls lately."""
        from appl.runtime.prompts.recent import Recent

        return cast(Recent, vars(self).setdefault("recent", Recent()))

    @cached_property
    def tool_memory(self) -> ToolMemory | None:
        """The tools of servers that the user has seen, if something keeps them."""
        return self.open_tool_memory()

    @cached_property
    def serial(self) -> SerialWaits:
        """The calls for which it has waited alone."""
        from appl.runtime.concurrency.serial import SerialWaits

        return cast(SerialWaits, vars(self).setdefault("serial", SerialWaits()))

    @property
    def profile(self) -> Profile:
        """The profile of the run's own backend."""
        return self.services.backend.profile

    @property
    def busy(self) -> bool:
        """True if a call is on its way to a backend."""
        return self.dispatch.scheduler.busy

    # -- its calls

    def fail(self, error: BaseException) -> None:
        """End the run with *error*, on the I/O loop: whoever hands outcomes over has raised it."""
        self._fault = self._fault or error
        self.outside.fail(error)
        for holding in self.holdings():
            cast(Call, holding.call).parted(error)

    def end_as_waiting(self, waits: Iterable[Awaited]) -> None:
        """End the run as waiting for *waits*, on the I/O loop: whoever waits gets ``RunWaiting``.

        Nothing new can be started, and what is under way has no end in the record: the run that
        goes on begins it again.
        """
        if self.waiting is None and not self.over:
            self.fail(self._waits_for(RunWaiting(waits)))

    def _waits_for(self, waiting: RunWaiting) -> RunWaiting:
        """Record what the run, which ends, waits for: nothing more is started."""
        number, value = 0, [list(entry) for entry in waiting.waits]
        while self.outside.world.recorded(Moment("", WAITING, number)) is not None:
            number += 1
        self.reporter.emit(Observed("", number, WAITING, value, time.monotonic_ns()))
        self.waiting, self.refusal = waiting, self.refusal or str(waiting)
        return waiting

    def submit(self, call: Call) -> None:
        """Hand an issued call to the scheduler."""
        if not watchdog.on:
            watchdog.begin()
        if self.closed:  # since this thread looked
            io_thread().send(partial(call.parted, RunClosed(_OVER)))
            self.check_open()
        if self._prepare is not None:
            prepare, self._prepare = self._prepare, None
            prepare()
        outside = self.outside
        admit = self.dispatch.scheduler.admit if outside.begins is None else self.admit
        io_thread().send(partial(admit, call))

    def admit(self, call: Call) -> None:
        """Send *call* on its way; on the I/O loop."""
        if self.outside.begins is not None:
            self.outside.begins(call)
        self.dispatch.scheduler.admit(call)

    def holdings(self) -> list[CallStatus]:
        """Every call that is not answered yet, where it is held, and why; on the I/O loop.

        Of those of workers, for ``map(engine=…)``, those whose prompts are complete.
        """
        from appl.runtime.scheduling.call_status import CallStatus
        from appl.runtime.scheduling.queue_status import statuses  # few runs are looked at

        held = list(statuses(self.dispatch.scheduler))
        for call, why, ahead in self.outside.world.held():
            held.append(CallStatus(call, "record", why, ahead=ahead))
        return held

    def waited_calls(self, most: int) -> list[WaitedCall]:
        """Calls of this process that are with a backend or on their way, *most* of them at most."""
        return list(islice(self.dispatch.scheduler.unanswered(), most))

    def check_open(self) -> None:
        """Refuse calls and functions after the end."""
        if self.waiting is not None:
            raise RunWaiting(self.waiting.waits)
        if self.closed:
            if self.on_late is not None:
                self.on_late()
            raise RunClosed(_OVER)
        if self.refusal:
            raise ConfigError(self.refusal)

    # -- its end

    def __enter__(self) -> Run:
        open_runs.append(self)
        if self.answered_by:
            isolated.begin(self.answered_by)
        self.tree.enter()
        self._join()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            self.finish(error)
        finally:
            self._leave()

    async def __aenter__(self) -> Run:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.afinish(error)
        finally:
            self._leave()

    def _join(self) -> None:
        """Have it known that the caller is a program of this run, also before its first call."""
        if (detection := self.outside.idle_detection) is not None:
            detection.joins(hub_here())

    def _leave(self) -> None:
        self.tree.leave()
        if self in open_runs:
            open_runs.remove(self)
            if self.answered_by:
                isolated.end()

    def finish(self, error: BaseException | None = None) -> None:
        """Wait for everything (after *error*: cancel it first); raise failures not looked at."""
        if self.closed:
            return
        with self._finishing(error):
            self._join()
            for awaited in self._last_started():
                with orphans.watched(awaited):
                    failure = structure.join(awaited)
            if error is None:
                self._raise(failure)

    async def afinish(self, error: BaseException | None = None) -> None:
        """:meth:`finish` in a coroutine."""
        if self.closed:
            return
        with self._finishing(error):
            for awaited in self._last_started():
                with orphans.watched(awaited):
                    failure = await structure.ajoin(awaited)
            if error is None:
                self._raise(failure)

    @contextlib.contextmanager
    def _finishing(self, error: BaseException | None) -> Iterator[None]:
        """The block in which everything is waited for; it ends the run, however it is left."""
        try:
            if isinstance(error, RunWaiting) and self.waiting is None:
                self._waits_for(error)  # as a run of its own does that was opened inside
            if error is not None:
                structure.cancel_all(self.tree.started())
            # What a generator left that was collected when this run was recorded is cancelled. When
            # it is collected is up to the collector; in a replay it may be there still.
            for frame in self.tree.suspended:
                dropped = self.outside.world.dropped
                structure.cancel_all([p for p in frame.started if dropped(p.address)])
            yield
        except BaseException as late:
            error = late
            raise
        finally:
            self._end(error)

    def _raise(self, failure: Promise | None) -> None:
        """Raise what broke the run, else the *failure* that nobody has looked at."""
        if self._fault is not None:
            raise self._fault
        if failure is not None:
            raise failure.seen()

    def close(self) -> None:
        """End a run that was not entered: as leaving its block does."""
        self.finish()
        self._leave()

    def spare(self, pending: Promise) -> None:
        """Do not wait for *pending* at the end: its stream was returned, and is read after it.

        Nothing more can be started then, but the run is over only when *pending* is.
        """
        self._spared = pending

    def abandon(self, seconds: float) -> None:
        """Cancel what was spared, and give it *seconds* to end."""
        spared, ended = self._spared, threading.Event()
        if spared is not None and spared.subscribe(lambda _: ended.set()):
            spared.cancel()
            ended.wait(seconds)

    def _last_started(self) -> Iterator[list[Promise]]:
        """The calls to wait for at the end; then, with the run closed, those that came meanwhile.

        Other threads may start more while the first is waited for, without an end.
        """
        yield self._awaited()
        self.closed = True
        yield self._awaited()

    def _awaited(self) -> list[Promise]:
        return [pending for pending in self.tree.started() if pending is not self._spared]

    def _end(self, error: BaseException | None) -> None:
        self.closed = True
        if "states" in vars(self):
            self.states.clear()
        spared = self._spared
        if (
            spared is None
            or error is not None
            or not spared.subscribe(lambda _: self._is_over(None))
        ):
            self._is_over(error)

    def _is_over(self, error: BaseException | None) -> None:
        self.over = True
        self.dispatch.end()
        if "serial" in vars(self):
            self.serial.end()
        if (detection := self.outside.idle_detection) is not None:
            detection.ends()
        if self.waiting is not None:
            reason, error = "waiting", None
        elif error is None:
            reason = "finished"
        elif isinstance(error, KeyboardInterrupt):
            reason = "interrupted"
        else:
            reason = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        self.reporter.emit(RunEnded(reason, error, time.monotonic_ns()))
        on_over, self.on_over = self.on_over, None
        if on_over is not None:
            on_over()


_USUAL = Policy()
_OVER = "this run is over: nothing can be started in it any more"
