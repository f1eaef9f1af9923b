"""Hubs and fibers: synchronous programs that wait side by side on the thread that called them.

Invariant: a hub delivers one outcome at a time, and the next only when no program of its thread can
go on; so what the programs see depends on the order of deliveries and on nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
import weakref
from asyncio import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable
from contextvars import Context
from types import FrameType
from typing import cast

from greenlet import GreenletExit, getcurrent, greenlet

from appl.runtime.concurrency.deadlock import blocked_loop, bound_to, deadlock, find_cycle
from appl.runtime.concurrency.ending import Ending
from appl.runtime.concurrency.loop_thread import io_thread, release
from appl.runtime.concurrency.pending import Deliverable, Pending, Stop
from appl.runtime.concurrency.watchdog import Watchdog

EAGER_DEPTH = 4
SLICE = 0.05
GLANCE, FOREVER = 0.1, -1.0
HOPS = 100


class Strand:
    """A synchronous program that can be parked: a fiber, or what called into its hub's thread."""

    __slots__ = ("_cancelled", "greenlet", "hub", "waits")

    def __init__(self, hub: Hub, own: greenlet) -> None:
        self.hub, self.greenlet = hub, own
        self.waits: Pending | None = None
        self._cancelled: BaseException | None = None

    def wake(self, pending: Pending) -> None:
        """Go on if *pending* is what is waited for; a stale wake-up is ignored."""
        if self.waits is pending:
            self.resume()

    def resume(self, error: BaseException | None = None) -> None:
        """Put this strand among the ready ones, with *error* to raise where it waits."""
        self.waits = None
        self.hub.ready.append((self, error))
        self.hub.poke()

    def throw(self, error: BaseException) -> None:
        """Raise *error* where this strand waits, or at its next wait; on the hub's own thread."""
        if self.waits is not None:
            self.resume(error)
        else:
            self._cancelled = error

    def park(self) -> None:
        """Let the hub run others until this strand is resumed, or raise what was thrown into it."""
        error, self._cancelled = self._cancelled, None
        if error is not None:
            self.waits = None
            raise error
        loop = _get_running_loop()
        if loop is not None:
            _set_running_loop(None)
        try:
            error = self._leave()
        finally:
            self.waits = None
            if loop is not None:
                _set_running_loop(loop)
        if error is not None:
            raise error

    def _leave(self) -> BaseException | None:
        return cast("BaseException | None", self.hub.greenlet.switch())


class Stack(greenlet):  # type: ignore[misc] # greenlet has no types
    """The greenlet of a fiber, which it names."""

    fiber: Fiber


class Fiber(Strand):
    """A program with a stack of its own, started by its hub or, when shallow, on the spot.

    *broken_off* is called by the hub after a Ctrl-C: *body* may have been left anywhere.
    ``context`` is that of the program until it is over.
    """

    __slots__ = ("_back", "_body", "_broken_off", "context")

    def __init__(
        self,
        hub: Hub,
        body: Callable[[], None],
        context: Context,
        broken_off: Callable[[], None],
    ) -> None:
        stack = Stack(self._run, hub.greenlet)
        super().__init__(hub, stack)
        stack.fiber = self
        stack.gr_context = context
        self.context: Context | None = context
        self._body: Callable[[], None] | None = body
        self._broken_off = broken_off
        self._back: greenlet | None = None

    def lost(self) -> bool:
        """Whether a Ctrl-C has kept this from starting, or ended it before its body ran."""
        if self._body is None:
            return bool(self.greenlet.dead)
        return all(strand is not self for strand, _ in self.hub.ready)

    def start(self) -> None:
        """Run at once up to the first wait if few starts are nested, else from the hub's queue."""
        hub = self.hub
        hub.fibers.add(self)
        if not watchdog.on:
            watchdog.begin()
        if hub.depth >= EAGER_DEPTH or getcurrent() is hub.greenlet:
            hub.ready.append((self, None))
            hub.poke()
        else:
            self._start_now(hub)

    def _start_now(self, hub: Hub) -> None:
        loop = _get_running_loop()
        hub.depth += 1
        self._back = self.greenlet.parent = getcurrent()
        try:
            self.greenlet.switch(None)
        finally:
            hub.depth -= 1
            if loop is not None:
                _set_running_loop(loop)
        hub.check_interrupt()

    def _leave(self) -> BaseException | None:
        back, self._back = self._back, None
        if back is None:
            return cast("BaseException | None", self.hub.greenlet.switch())
        self.greenlet.parent = self.hub.greenlet
        return cast("BaseException | None", back.switch())

    def _run(self, error: BaseException | None) -> None:
        try:
            body, self._body = self._body, None
            assert body is not None
            body()
        except (KeyboardInterrupt, SystemExit) as stop:
            self.hub.interrupt(stop)
            self.hub.post(_Action(self._broken_off))
        finally:
            self.waits = None  # a Ctrl-C may have come when a wait had begun and nothing waited
            self.hub.fibers.discard(self)
            self.context = None
            del self.greenlet.fiber, self._broken_off  # no cycles: nothing is left to be collected


class Hub:
    """What runs the programs of one thread, or of one asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop
        self.inbox: deque[Deliverable] = deque()
        self.ready: deque[tuple[Strand, BaseException | None]] = deque()
        self.fibers: set[Fiber] = set()
        self.asleep = False
        self.depth = 0
        self.turns = 0
        self.due = 0  # programs that will be started as soon as the running one waits
        self.suspects: list[Strand] = []
        self.on_sleep: list[Callable[[], None]] = []
        self.blocking: Callable[[bool], None] | None = None
        self.thread = threading.current_thread()
        self._bell = threading.Lock()
        self._bell.acquire()
        # a signal just before the main thread sleeps does not wake it: Python looks when it wakes
        self._patience = GLANCE if self.thread is threading.main_thread() else FOREVER
        self._outer: Strand | None = None
        self._interrupt: BaseException | None = None
        self._stepper: greenlet | None = None
        self._scheduled = False
        self._resting = False
        self._hops = 0
        self._over = False
        self.stopped = False
        self.greenlet = greenlet(_stack_of)
        self.greenlet.switch(weakref.ref(self))

    # -- from any thread

    def post(self, item: Deliverable) -> None:
        """Put *item* into the inbox, to be taken out when this thread next waits."""
        self.inbox.append(item)

    def ring(self) -> None:
        """See that what was posted is taken out soon."""
        if self.asleep:
            self.asleep = False
            if self.loop is None:
                io_thread().wake(self._bell)
            else:
                release(self._bell)
        elif self.loop is not None and not self._scheduled:
            self._scheduled = True
            self._resting = False
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                self.loop.call_soon_threadsafe(self._step)
        elif not watchdog.on:
            watchdog.begin()

    def tell(self, item: Deliverable) -> None:
        """Post *item* and ring."""
        self.inbox.append(item)
        self.ring()

    # -- on the hub's thread

    def poke(self) -> None:
        """Have a loop's hub take a step soon; a thread's hub runs at the next wait anyway."""
        if self.loop is not None and not self._scheduled and self._stepper is None:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: see ``step_once_more``
                self.loop.call_soon(self._step)

    # -- whether anything moves here, for those who watch (``on_sleep``)

    def stirs(self) -> None:
        """A program is active here; the watchers are told when all of them wait again."""
        self._resting = False
        self.poke()
        if self.loop is not None and _here.hub is not None:
            _here.hub.leaves()  # the thread is in the loop now

    def leaves(self) -> None:
        """The hub's thread has nothing more to do."""
        self._resting = True

    def rests(self) -> bool:
        """Whether every program here waits; from any thread."""
        return self._resting or self.asleep

    def alive(self) -> bool:
        """Whether programs of this hub can still go on."""
        return self.thread.is_alive() and not (self.loop is not None and self.loop.is_closed())

    def sleeps(self, frame: FrameType) -> bool:
        """Whether its thread, which is at *frame*, waits in a lock until somebody rings."""
        return self.asleep and self.loop is None and frame.f_code is Hub._sleep.__code__

    def has_timers(self) -> bool:
        """Whether the loop has timers that may move something."""
        return bool(getattr(self.loop, "_scheduled", None))

    def next_timer(self) -> float:
        """In how many seconds the loop's next timer is due; from any thread."""
        due = (
            timer.when()
            for timer in tuple(getattr(self.loop, "_scheduled", ()))
            if not timer.cancelled()
        )
        return min(due, default=math.inf) - (self.loop.time() if self.loop is not None else 0.0)

    def waiting(self) -> list[Strand]:
        """The strands that wait here; from any thread, as of about now."""
        outer = self._outer
        outside = [outer] if outer is not None and outer.waits is not None else []
        return [*outside, *(fiber for fiber in tuple(self.fibers) if fiber.waits is not None)]

    def strand(self) -> Strand:
        """The strand that is running."""
        me = getcurrent()
        if type(me) is Stack:
            return me.fiber
        if self._outer is None or self._outer.greenlet is not me:
            self._outer = Strand(self, me)
        return self._outer

    def interrupt(self, error: BaseException) -> None:
        """Have *error* (a ``KeyboardInterrupt``) raised in the outermost program."""
        self._interrupt = error

    def check_interrupt(self) -> None:
        """Raise the interruption of a fiber in the program that started it."""
        error, self._interrupt = self._interrupt, None
        if error is not None:
            raise error

    def take_turns(self) -> None:
        """Run and deliver until the loop has to go on and no fiber stands on this stack."""
        self._over = False
        while not self._over:
            try:
                while not self._over:
                    self._turn()
            except GreenletExit:  # the hub is collected
                raise
            except BaseException as error:  # Ctrl-C while nobody's code ran
                self._interrupt = error

    def _turn(self) -> None:
        if _ending.by is not None and _ending.by is not self.thread:
            _ending.rest(self)
        elif self._interrupt is not None:
            self._raise_outside()
        elif self.ready:
            strand, error = self.ready[0]
            del self.ready[0]  # by a statement: after a call a Ctrl-C might come, and lose it
            if self.loop is not None:
                _set_running_loop(self.loop if self._stepper is not None else None)
            strand.greenlet.switch(error)
        elif not self.inbox:
            self._idle()
        elif self._stepper is not None and not self._settled():
            self._yield_to_loop(again=True)
        else:
            self.turns += 1
            self.inbox[0].deliver()
            del self.inbox[0]  # now: what a Ctrl-C breaks off is delivered again

    def _raise_outside(self) -> None:
        error, self._interrupt = self._interrupt, None
        assert error is not None
        if self._stepper is not None:
            stepper, self._stepper = self._stepper, None
            stepper.throw(error)
            return
        outer = self._outer
        if outer is not None:
            outer.waits = None
            self.ready = deque(entry for entry in self.ready if entry[0] is not outer)
            outer.greenlet.switch(error)

    def _settled(self) -> bool:
        """Whether the loop has nothing left to run before the next delivery.

        A program that polls with ``sleep(0)`` never settles: it is not waited for for ever. A loop
        that is about to stop leaves the next word to who stops it.
        """
        if getattr(self.loop, "_stopping", False):
            return False
        if not getattr(self.loop, "_ready", None) or self._hops > HOPS:
            self._hops = 0
            return True
        self._hops += 1
        return False

    def _yield_to_loop(self, again: bool) -> None:
        stepper, self._stepper = self._stepper, None
        assert stepper is not None and self.loop is not None
        if again and not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._step)
        if self.fibers:
            stepper.switch()
        else:
            self.greenlet.parent, self._over = stepper, True

    def _idle(self) -> None:
        if self.suspects:
            self._look_for_deadlock()
            if self.ready:
                return
        if self._stepper is None:
            self._sleep()
        elif not self.on_sleep or self._resting:
            self._yield_to_loop(again=False)
        elif not self._settled():
            self._yield_to_loop(again=True)
        else:
            self._resting = True
            for tell in self.on_sleep:
                tell()
            self._yield_to_loop(again=False)

    def _sleep(self) -> None:
        self.asleep = True
        if self.inbox:
            self.asleep = False
            return
        for tell in self.on_sleep:
            tell()
        if self.blocking is not None:
            self.blocking(True)
        try:
            if self.loop is None:
                io_thread().run_while_asleep(self)
                while not self._bell.acquire(timeout=self._patience):
                    continue
            else:
                io_thread().recall()
                if not self._bell.acquire(timeout=SLICE):
                    self._check_cancelled()
        finally:
            self.asleep = False
            if self.blocking is not None:
                self.blocking(False)

    def _check_cancelled(self) -> None:
        """Under a running loop: has the task that waits been cancelled meanwhile?"""
        outer = self._outer
        if outer is None or outer.waits is None:
            return
        task = asyncio.current_task(self.loop)
        if task is not None and task.cancelling():
            outer.resume(asyncio.CancelledError())

    def _look_for_deadlock(self) -> None:
        suspects, self.suspects = self.suspects, []
        for strand in suspects:
            if strand.waits is not None:
                error = self._deadlock(strand, strand.waits)
                if error is not None:
                    strand.resume(error)

    def _deadlock(self, strand: Strand, waits: Pending) -> BaseException | None:
        cycle = find_cycle(waits)
        if cycle is not None:
            return deadlock(cycle)
        if self.loop is None or self._stepper is not None or strand is not self._outer:
            return None
        bound = bound_to(waits, self)
        return blocked_loop(bound) if bound is not None else None

    def _step(self) -> None:
        """One callback of the loop: run what is ready, deliver what has come."""
        self._scheduled = False
        if self._stepper is not None or self.asleep:
            return
        if self.inbox or self.ready:
            self._resting = False
        self._stepper = getcurrent()
        try:
            self.greenlet.switch()
        finally:
            self._stepper = None
            _set_running_loop(self.loop)

    def step_once_more(self) -> None:
        """Run what is ready though the loop is closed; on its thread, outside of every loop."""
        self.inbox.clear()  # nobody is told anything any more
        try:
            self._step()
        finally:
            _set_running_loop(None)


def _stack_of(ref: weakref.ref[Hub]) -> None:
    """The stack of a hub, which does not keep it: who forgets a loop forgets its hub."""
    while True:
        getcurrent().parent.switch()
        hub = ref()
        if hub is None:
            return
        hub.take_turns()
        del hub


class _Here(threading.local):
    hub: Hub | None = None


_hubs: weakref.WeakSet[Hub] = weakref.WeakSet()


def hubs() -> list[Hub]:
    """Every hub whose thread and loop are alive; for who looks on."""
    while True:
        try:
            return [hub for hub in tuple(_hubs) if hub.alive()]
        except RuntimeError:  # another thread has just made one
            continue


watchdog = Watchdog(hubs)
_ending = Ending(hubs, Stop, (Fiber._run.__code__, _stack_of.__code__))
_here = _Here()
os.register_at_fork(after_in_child=lambda: setattr(watchdog, "on", False))
_ATTRIBUTE = "_appl_hub"  # of a loop: no weak dictionary lets go of a key that its value refers to


def hub_here() -> Hub:
    """The hub of the running loop, else of this thread."""
    loop = _get_running_loop()
    if loop is None:
        hub = _here.hub
        if hub is None:
            hub = _here.hub = Hub()
            _hubs.add(hub)
        return hub
    found: Hub | None = getattr(loop, _ATTRIBUTE, None)
    if found is None:
        found = Hub(loop)
        _hubs.add(found)
        setattr(loop, _ATTRIBUTE, found)
    return found


class _Wake:
    """Tells a strand of another hub than the one where the outcome is at home."""

    __slots__ = ("pending", "strand")

    def __init__(self, strand: Strand, pending: Pending) -> None:
        self.strand, self.pending = strand, pending

    def deliver(self) -> None:
        self.strand.wake(self.pending)


def strand_here() -> Strand:
    """The synchronous program that is running."""
    me = getcurrent()
    return me.fiber if type(me) is Stack else hub_here().strand()


def in_coroutine() -> bool:
    """Whether the caller is code of the running loop, which must not be blocked."""
    return _get_running_loop() is not None and type(getcurrent()) is not Stack


def wait(pending: Pending) -> None:
    """Suspend the running program until *pending* has its outcome, delivered to its hub."""
    strand = strand_here()
    hub = strand.hub
    if pending.home is hub:
        if pending.delivered:
            return
        pending.await_with(strand)
    else:
        pending.end_if_left()
        if not pending.subscribe(lambda done: hub.tell(_Wake(strand, done))):
            return
    strand.waits = pending
    if pending.suspicious():
        hub.suspects.append(strand)
    strand.park()


class _Arrived:
    """Completes the asyncio future of a task that awaits *pending*."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def wake(self, pending: Pending) -> None:
        self.deliver()

    def deliver(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


async def arrive(pending: Pending) -> None:
    """Wait like :func:`wait`, in a coroutine: the loop goes on."""
    hub = hub_here()
    if pending.delivered if pending.home is hub else pending.done:
        return
    io_thread().recall()
    arrived = _Arrived(future := asyncio.get_running_loop().create_future())
    if pending.home is hub:
        pending.await_with(arrived)
        if hub.inbox:
            hub.poke()
    else:
        pending.end_if_left()
        if not pending.subscribe(lambda _: hub.tell(arrived)):
            return
    await future


class _Action:
    __slots__ = ("deliver",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.deliver = action


def run_on(hub: Hub, action: Callable[[], None]) -> None:
    """Have *action* called on the hub's thread, from any thread."""
    hub.tell(_Action(action))


def rest_if_daemon() -> None:
    """Never return on a daemon thread: the process ends, and Python stops these threads anyway."""
    if threading.current_thread().daemon:
        _ending.rest(hub_here())
