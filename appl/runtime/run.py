"""A run: a backend, its instruments, and everything that was started in it.

Invariant: nothing that was started in a run outlives it, and no failure is lost that nobody looked
at.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import Token
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from greenlet import getcurrent

from appl import services
from appl.backend import Backend, PrefixCaching, Response
from appl.errors import ConfigError, RunClosed
from appl.prompt import Prompt, digest_of
from appl.runtime.answers.call import Call
from appl.runtime.answers.models import Model, Models
from appl.runtime.answers.samples import Caches, Samples
from appl.runtime.concurrency import left, structure
from appl.runtime.concurrency.fiber import Stack, hub_here, strand_here, watchdog
from appl.runtime.concurrency.idle_detection import idle_detection_for
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Promise
from appl.runtime.concurrency.scopes import Scopes, task_here
from appl.runtime.concurrency.serial import SerialWaits
from appl.runtime.concurrency.tasks import TaskScopes
from appl.runtime.event import Concealing, Event, Instrument, RunEnded, Warned, wants_chunks
from appl.runtime.frame import FRAME, Frame, ThreadFrame
from appl.runtime.prompts.recent import Recent
from appl.runtime.prompts.state import States
from appl.runtime.scheduling import (
    Account,
    Allowance,
    BackendEndpoint,
    BudgetLedger,
    ByPrefix,
    ByProgram,
    CallStatus,
    Dispatcher,
    Fifo,
    LegDispatcher,
    Order,
    Placing,
    Policy,
    Scheduler,
    Traffic,
)
from appl.runtime.scheduling.call_status import Endable, When
from appl.runtime.scheduling.remote_permits import Lender
from appl.runtime.world import Expected, Live, Moment, Shared, Stepping, World

if TYPE_CHECKING:
    from appl.runtime.tools.offers import ToolMemory


class Run:
    """Everything that one program does; as a context manager it ends with the block.

    ``gate`` is called on the I/O thread before each call starts: it may block, or raise to refuse;
    ``barrier`` before a tool with effects runs, on its thread: it returns when all that happened
    so far is recorded.
    ``models`` are the names that calls may ask, ``model`` the default where they are not given.
    ``places`` are further backends, by the names that ``models`` have for them; ``add_place`` adds
    one that is first used later.
    ``world`` decides what its programs are told from outside, and when; by default it is ``Live``.
    ``lender`` is asked for leave before each attempt, when limits are those of another process.
    ``ways`` are the ways to the backends by name, ``blueprint`` says how a run like this one is
    made in another process (``appl.engine.worker_process.RunFactory``).
    ``sequential`` waits for every call where it stands: the naive twin of the scheduler.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        instruments: Iterable[Instrument] = (),
        world: World | None = None,
        gate: Callable[[], None] | None = None,
        barrier: Callable[[], None] | None = None,
        model: str | None = None,
        models: Models | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        concurrency: int | None = None,
        salt: str = "",
        sequential: bool = False,
        order: Order | None = None,
        policy: Policy | None = None,
        traffic: Traffic | None = None,
        places: Mapping[str, BackendEndpoint] | None = None,
        lender: Lender | None = None,
    ) -> None:
        self.backend, self.profile = backend, backend.profile
        self.world: World = Live() if world is None else world
        self._expected = Expected(self.world)
        self.expect = self.world.expect
        self.answer: Callable[[Call, Callable[[Call], None]], None] = _straight
        self.begins: Callable[[Endable], None] = _unended
        self.steps: list[Callable[[bool], bool]] = []  # each is told when all programs wait
        self.hires = True  # processes for ``map``
        self.amend: Callable[[Call], None] | None = None
        self.models = models or Models(self.profile, Model(None, model))
        self.model = self.models.default.name or ""
        self.salt, self.sequential, self.gate = salt, sequential, gate
        self.barrier = barrier
        self.instruments = list(instruments)
        self.watched = bool(self.instruments)
        self.streams = any(map(wants_chunks, self.instruments))
        self.temperature, self.max_tokens, self.seed = temperature, max_tokens, seed
        everywhere = (backend, *(each.backend for each in (places or {}).values()))
        if any(each.profile.thread_bound for each in everywhere):
            io_thread().stop_lending()
        self.caches = Caches()
        self.policy = policy = policy or Policy()
        own = BackendEndpoint(backend, policy, traffic)
        self._concurrency = concurrency
        self.blueprint: object = None
        self.lender = lender
        self.ways: dict[str, Dispatcher] = {}
        self.open_place: Callable[[str], object] | None = None  # makes a backend at its first use
        self.holders: list[Callable[[], Iterable[CallStatus]]] = []  # in other processes
        self.scheduler: Scheduler | Placing
        self._own = self._way(self.models.backend if places else "", own, order)
        self.scheduler = self._own[0]
        for name, place in (places or {}).items():
            self.add_place(name, place)
        self.tell: Callable[[str], None] = _on_stderr
        self.tool_memory: ToolMemory | None = None
        self.states = States()
        self.recent = Recent()
        self.closed = False  # nothing can be started any more
        self.over = False  # and all has ended
        self.refusal = ""  # why nothing may be started, if so
        self._fault: Exception | None = None  # what kept outcomes from being released, if so
        self.on_over: Callable[[], None] | None = None
        self.on_late: Callable[[], None] | None = None  # called where something is refused as late
        self.began = time.monotonic()
        self.serial = SerialWaits()
        self._spared: Promise | None = None
        self.root = Frame(self, None, "", Prompt())
        self.root.account = Account(policy.budget) if policy.budget else None
        self.task = task_here()
        self.scopes = Scopes()
        self.suspended: dict[Frame, None] = {}  # of generators that have begun and not ended
        self.tasks = TaskScopes()
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._told: set[object] = set()
        self._token: Token[Frame | None] | None = None
        watchdog.runs.add(self)
        self.world.opens(self)
        if isinstance(backend, Stepping):
            self.steps.append(backend.on_idle)
        self.idle_detection = idle_detection_for(self)
        if isinstance(backend, Shared):
            backend.watched_by(self)

    def add_place(self, name: str, place: BackendEndpoint) -> None:
        """Have calls go to one more backend; from any thread, before a call names it."""
        if place.backend.profile.thread_bound:
            io_thread().stop_lending()
        placing = self._placing()
        placing.add(name, *self._way(name, place, None, placing.ledger))

    def follow_routes(self) -> None:
        """Send calls where their models' routes lead; without it the own backend answers all."""
        self.models.on_route = self._routed
        if self.models.routed:
            self._routed()

    def _routed(self) -> None:
        self._placing()

    def _placing(self) -> Placing:
        """The scheduler of a run with several backends; earlier calls stay with their own one."""
        if not isinstance(self.scheduler, Placing):
            self.scheduler = Placing({self.models.backend: self._own}, self.models)
        return self.scheduler

    def _way(
        self,
        name: str,
        place: BackendEndpoint,
        order: Order | None,
        ledger: BudgetLedger | None = None,
    ) -> tuple[Scheduler, LegDispatcher]:
        """A queue for the backend of *place*; all that *ledger* has count for one budget."""
        backend, policy = place.backend, place.policy
        limits = (backend.profile.concurrency, self._concurrency, policy.limits.concurrency)
        attempts = LegDispatcher(
            backend, policy, seed=self.seed,
            most=min((each for each in limits if each is not None), default=None),
            samples=Samples(backend, self.caches, self.look_soon, self.warn),
            traffic=place.traffic, ledger=ledger,
        )  # fmt: skip
        attempts.place, attempts.lender = name, self.lender
        self.ways[name] = attempts
        caching = _caching(backend, policy)
        order = order or _order(policy, caching is not None)
        whose = backend if place.traffic is None else place.traffic
        return Scheduler(attempts, order, caching, whose if policy.share else None), attempts

    # -- what happens

    def emit(self, event: Event) -> None:
        """Tell every instrument; one that raises is dropped, with a warning."""
        for instrument in self.instruments:
            try:
                instrument.on_event(event)
            except Exception as error:
                self.instruments = [each for each in self.instruments if each is not instrument]
                self.warn("", f"{type(instrument).__name__} failed and is dropped: {error!r}")

    def conceal(self, secrets: Mapping[str, str]) -> None:
        """Have instruments leave *secrets*, by name, out of what they keep from now on."""
        for instrument in self.instruments:
            if isinstance(instrument, Concealing):
                instrument.conceal(secrets)

    def warn(self, address: str, message: str) -> None:
        """Tell the user something, on stderr and as an event."""
        self.tell(_signed(message))
        self.emit(Warned(address, message, time.monotonic_ns()))

    def was_told(self, key: object) -> bool:
        """True if the user was told what *key* stands for."""
        return key in self._told

    def tell_once(self, key: object, message: str) -> None:
        """Tell the user something on stderr, once for each *key*."""
        if key not in self._told:
            self._told.add(key)
            self.tell(_signed(message))

    def observe(self, address: str, kind: str, live: Callable[[], Any]) -> Any:
        """The value that the program sees of the world at *address*."""
        return self.world.see(Moment(address, kind, self.next_observation(address)), live)

    def next_observation(self, address: str) -> int:
        """The ordinal of the next observation at *address*."""
        ordinal = self._seen.get(address, 0)
        self._seen[address] = ordinal + 1
        return ordinal

    def complete_fields(self, fields: dict[str, Any]) -> None:
        """Fill in the run's defaults for what a call leaves open."""
        if fields["temperature"] is None:
            fields["temperature"] = self.temperature
        if fields["max_tokens"] is None:
            fields["max_tokens"] = self.max_tokens
        fields["salt"] = self.salt

    def fail(self, error: Exception) -> None:
        """End the run with *error*, on the I/O loop: whoever hands outcomes over has raised it."""
        self._fault = self._fault or error
        self._expected.fail(error)
        for holding in self._held_here():
            cast(Call, holding.call).parted(error)

    def submit(self, call: Call) -> None:
        """Hand an issued call to the scheduler."""
        if not watchdog.on:
            watchdog.begin()
        if self.closed:  # since this thread looked
            io_thread().send(partial(call.parted, RunClosed(_OVER)))
            self.check_open()
        io_thread().send(partial(self.admit, call))

    def admit(self, call: Call) -> None:
        """Send *call* on its way; on the I/O loop."""
        self.begins(call)
        self.scheduler.admit(call)

    # -- for who looks on, and for who intervenes; on the I/O loop

    def holdings(self) -> list[CallStatus]:
        """Every call that is not answered yet, where it is held, and why.

        Of those that another process has, for ``map(engine=…)``, those whose prompts are complete.
        """
        return self._held_here() + [each for holder in self.holders for each in holder()]

    def _held_here(self) -> list[CallStatus]:
        """Every call of this process that is not answered yet."""
        found = list(self.scheduler.holdings())
        for call, why, ahead in self.world.held():
            found.append(CallStatus(call, "record", why, ahead=ahead))
        return found

    def end_from_outside(self, started: Endable) -> When:
        """End a call or a function as cancelled by somebody outside of the program.

        Raises ``ControlError`` when an earlier run has recorded how it ended.
        """
        ended: list[bool] = []
        moment = Moment(started.address, "cancelled")
        if not self.world.arrived(moment, lambda: ended.append(started.end_from_outside())):
            return "later"
        return "now" if any(ended) else "never"

    @property
    def paused(self) -> bool:
        """True if no attempt is begun at present."""
        return self.scheduler.paused

    def pause(self) -> None:
        """Begin no attempt from now on; what is on its way goes on."""
        if not self.scheduler.paused:
            self.scheduler.pause()
            if self.idle_detection is not None:  # somebody may move what stands still now
                self.idle_detection.timers += 1

    def resume(self) -> None:
        """Begin attempts again."""
        if self.scheduler.paused:
            if self.idle_detection is not None:
                self.idle_detection.timers -= 1
            self.scheduler.resume()
            self.look_soon()

    def allow(self, allowance: Allowance) -> None:
        """Have all calls keep to *allowance*, also those that wait; what was spent stays spent.

        In a run without a budget it counts from now on.
        """
        account = self.root.account
        if account is None:
            account = self.root.account = Account(allowance)
            self.scheduler.begin_budget(account)
        self.scheduler.allow(account, allowance)

    def cache(self, wanted: Any) -> str | None:
        """The name of the cache that ``cache=`` *wanted* means; who asks nobody reads none."""
        return self.caches.named(wanted)

    # -- for its world (``Programs``)

    def held_by(self, world: World) -> None:
        """Tell *world*, which may hold things back, when all programs wait."""
        self.expect, self.begins = self._expected.expect, self._may_end
        self.steps.append(world.idle)

    def answered_by(self, world: World, *, caches: bool = True) -> None:
        """Note that *world* may know the answers to calls, so that time does not count.

        What ``map`` has other processes do is done in this one. Without *caches* none is read.
        """
        self.answer, self.hires, self.caches.used = self._answer, False, caches
        watchdog.runs.discard(self)

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

    def look_soon(self) -> None:
        """Look whether all programs wait: something is held, or goes to the backend."""
        if self.idle_detection is not None:
            self.idle_detection.soon()

    @property
    def rests(self) -> bool:
        """True if no program can go on."""
        return self.over or (self.idle_detection is not None and self.idle_detection.rests)

    def moved(self) -> None:
        """Give programs that may still move their time again."""
        if self.idle_detection is not None:
            self.idle_detection.moved()

    def nobody_can_proceed(self, final: bool, patience_s: float) -> bool:
        """True if nobody will move by himself, as far as can be known; if not, look again soon."""
        detection = self.idle_detection
        return detection is None or detection.nobody_can_proceed(final, patience_s)

    def idle_for(self, seconds: float) -> bool:
        """True if nothing has happened for *seconds*; if not, look again soon."""
        return self.idle_detection is None or self.idle_detection.idle_for(seconds)

    def recalled(self, call: Call, response: Response, requests: int) -> None:
        """Tell caches and budgets that *call* gets a recorded answer."""
        self.scheduler.recall(call, response, requests)

    def check_open(self) -> None:
        """Refuse calls and functions after the end."""
        if self.closed:
            if self.on_late is not None:
                self.on_late()
            raise RunClosed(_OVER)
        if self.refusal:
            raise ConfigError(self.refusal)

    # -- scopes

    def scope(self, parent: Frame, content: str) -> Frame:
        """A scope for a task of the user's own, or for what it calls on a thread of its own."""
        kind = Frame if task_here() is not None else ThreadFrame
        with self._lock:
            address = parent.issue(_named_by(content))
            frame = kind(self, parent, address, parent.prompt.copy(), parent.voice)
            self.scopes.add(frame)
        FRAME.set(frame)
        return frame

    def next_scope(self, frame: ThreadFrame, content: str) -> None:
        """The thread of *frame* makes its next outermost call, named by *content*."""
        assert frame.parent is not None
        with self._lock:
            frame.address = frame.parent.issue(_named_by(content))
            frame.counts = {}

    # -- its end

    def __enter__(self) -> Run:
        _active.append(self)
        self.task = task_here()
        self._token = FRAME.set(self.root)
        self.tasks.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.finish(error)
        finally:
            self._leave()

    async def __aenter__(self) -> Run:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.afinish(error)
        finally:
            self._leave()

    def _leave(self) -> None:
        self.tasks.restore()
        if self in _active:
            _active.remove(self)
        if self._token is not None:
            FRAME.reset(self._token)
            self._token = None

    def finish(self, error: BaseException | None = None) -> None:
        """Wait for everything (after *error*: cancel it first); raise failures not looked at."""
        if self.closed:
            return
        raised: BaseException | None = error
        try:
            if error is not None:
                structure.cancel_all(self.started())
            self._drop_as_recorded()
            if self.idle_detection is not None:
                self.idle_detection.joins(hub_here())
            for awaited in self._last_started():
                with left.watched(awaited):
                    failure = structure.join(awaited)
            if error is None:
                self._raise(failure)
        except BaseException as late:
            raised = late
            raise
        finally:
            self._end(raised)

    async def afinish(self, error: BaseException | None = None) -> None:
        """:meth:`finish` in a coroutine."""
        if self.closed:
            return
        raised: BaseException | None = error
        try:
            if error is not None:
                structure.cancel_all(self.started())
            self._drop_as_recorded()
            for awaited in self._last_started():
                with left.watched(awaited):
                    failure = await structure.ajoin(awaited)
            if error is None:
                self._raise(failure)
        except BaseException as late:
            raised = late
            raise
        finally:
            self._end(raised)

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

    def started(self) -> list[Promise]:
        """The calls that the run has to wait for, in program order."""
        found = list(self.root.started)
        for frame in (*self.scopes, *self.suspended):
            found += frame.started
        return found

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

    def _drop_as_recorded(self) -> None:
        """Cancel what a generator left that was collected when this run was recorded.

        When it is collected is up to the collector; in a replay it may be there still.
        """
        for frame in self.suspended:
            left = [pending for pending in frame.started if self.world.dropped(pending.address)]
            structure.cancel_all(left)

    def _last_started(self) -> Iterator[list[Promise]]:
        """The calls to wait for at the end; then, with the run closed, those that came meanwhile.

        Other threads may start more while the first is waited for, without an end.
        """
        yield self._awaited()
        self.closed = True
        yield self._awaited()

    def _awaited(self) -> list[Promise]:
        return [pending for pending in self.started() if pending is not self._spared]

    def _end(self, error: BaseException | None) -> None:
        self.closed = True
        self.states.clear()
        spared = self._spared
        if spared is None or error is not None or not spared.subscribe(self._spared_ended):
            self._is_over(error)

    def _spared_ended(self, spared: Promise) -> None:
        self._is_over(None)

    def _is_over(self, error: BaseException | None) -> None:
        self.over = True
        self.caches.close()
        self.scheduler.end()
        if self.idle_detection is not None:
            self.idle_detection.ends()
        if self.watched:
            self.emit(RunEnded(_reason(error), error, time.monotonic_ns()))
        if self.on_over is not None:
            self.on_over()


def _order(policy: Policy, caching: bool) -> Order:
    """The order of *policy*; to go from prompt to prompt costs a server that is *caching* more."""
    if policy.order == "program":
        now = policy.clock.now if policy.clock is not None else time.monotonic
        return ByProgram(now, drain=64 if caching else 8)
    return ByPrefix() if policy.order == "prefix" else Fifo()


def _caching(backend: Backend, policy: Policy) -> PrefixCaching | None:
    """*backend*, if it is worth its while to send shared prefixes first."""
    wanted = (
        policy.warm and not backend.profile.shares_in_flight and isinstance(backend, PrefixCaching)
    )
    return cast("PrefixCaching | None", backend if wanted else None)


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "finished"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"


def void(_: object) -> None:
    """Nothing, for an action whose value is of no interest."""


def _straight(call: Call, go: Callable[[Call], None]) -> None:
    """Live, a call that is ready goes to its backend."""
    go(call)


def _unended(begun: Endable) -> None:
    """Do nothing: a live run knows nothing of ends from outside before they come."""


def _nothing() -> None:
    """Live, whoever ends a call from outside does so himself."""


def _on_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def _signed(message: str) -> str:
    """The line that shows *message* and says that it comes from here."""
    return printable(message if message.startswith("appl ctl: ") else f"appl: {message}")


def printable(text: str) -> str:
    """*text* without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_OVER = "this run is over: nothing can be started in it any more"
_active: list[Run] = []


def current() -> Run:
    """The run that the caller is in: its own, the one that is open, else the process's."""
    frame = FRAME.get()
    if frame is not None:
        return frame.run
    return _around() or cast(Run, services.sessions().process_run())


def _around() -> Run | None:
    """The open run that the caller belongs to: the one of its thread, or the only one.

    Where several threads or tasks have runs open, as in a server, another thread is in none.
    """
    thread, task = threading.get_ident(), task_here()
    runs = list(_active)  # other threads open and close theirs meanwhile
    for run in reversed(runs):
        if run.root.thread == thread and run.task in (None, task):
            return run
    return runs[-1] if len({(run.root.thread, run.task) for run in runs}) == 1 else None


def here(content: Callable[[], str], call: bool = True) -> Frame:
    """The frame that the caller is in.

    *content* names the scope of an outermost *call* on a thread of the user's own, and that of a
    task that has none: threads of a pool take their work in any order.
    """
    frame = FRAME.get()
    if frame is None or frame.parent is None:
        frame = _outermost(frame, content)
    elif frame.thread != threading.get_ident():
        frame = frame.run.scope(frame, content())
    elif call and type(frame) is ThreadFrame and frame.counts:
        frame.run.next_scope(frame, content())
    if frame.run.idle_detection is not None:
        frame.run.idle_detection.joins(strand_here().hub)
    return frame


def _named_by(content: str) -> str:
    return "~" + digest_of(content)[:4].hex()


def _outermost(frame: Frame | None, content: Callable[[], str]) -> Frame:
    run = frame.run if frame is not None else current()
    run.tasks.install()
    in_fiber = frame is not None and type(getcurrent()) is Stack
    if run.root.thread == threading.get_ident() and (in_fiber or run.task is task_here()):
        return run.root
    return run.scope(run.root, content())


def run_of(pending: Promise) -> Run:
    """The run that *pending* belongs to."""
    run = getattr(pending, "run", None)
    return run if isinstance(run, Run) else current()
