"""Hubs and fibers: synchronous programs that wait side by side on the thread that called them.

Invariant: a hub delivers one outcome at a time, and the next only when no program of its thread can
go on; so what the programs see depends on the order of deliveries and on nothing else.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Literal

from greenlet import GreenletExit, getcurrent, greenlet

from appl.errors import RunError
from appl.runtime.concurrency.ending import Ending
from appl.runtime.concurrency.loop_thread import io_thread, release
from appl.runtime.concurrency.promise import Deliverable, Promise, Stop
from appl.runtime.concurrency.watchdog import Watchdog

if TYPE_CHECKING:
    import asyncio
else:
    from appl.base import deferred_asyncio as asyncio

EAGER_DEPTH = 4
SLICE = 0.05
GLANCE = 0.1
LOOK_S = 1.0
HOPS = 100
Rest = Literal["quiet", "timed"]
"""The kinds of waits of a hub's programs: for others, or also for timers of their loop."""


def _cancellations(loop: asyncio.AbstractEventLoop) -> int:
    """The number of cancellations of the current task of *loop* that were not taken back."""
    task = asyncio.current_task(loop)
    return 0 if task is None else task.cancelling()


class Strand:
    """A synchronous program that can be parked: a fiber, or what called into its hub's thread.

    A fiber that was started on the spot goes ``back`` to its starter at its first wait.
    """

    __slots__ = ("_cancelled", "back", "cancellations", "greenlet", "hub", "waits")

    def __init__(self, hub: Hub, own: greenlet) -> None:
        self.hub, self.greenlet = hub, own
        self.waits: Promise | None = None
        self._cancelled: BaseException | None = None
        self.back: greenlet | None = None
        self.cancellations = 0  # of its task when its wait began; a task group may leave some

    def wake(self, pending: Promise, error: BaseException | None = None) -> None:
        """Put this among the ready if *pending* is waited for, with *error* to raise there.

        A stale wake-up is ignored.
        """
        # A strand that an error has thrown out of a wait is still among the waiters there. It may
        # wait for something else by now, and must not go on when the old wait ends.
        if self.waits is not pending:
            return
        self.waits = None  # so that no second wake-up puts it into the queue twice
        hub = self.hub
        hub.ready.append((self, error))
        if hub.loop is not None:
            hub.poke()

    def throw(self, error: BaseException) -> None:
        """Raise *error* where this strand waits, or at its next wait; on the hub's own thread."""
        if self.waits is not None:
            self.wake(self.waits, error)
        else:
            self._cancelled = error

    def park(self) -> None:
        """Let the hub run others until this strand is resumed, or raise what was thrown into it."""
        error, self._cancelled = self._cancelled, None
        if error is not None:
            self.waits = None
            try:
                raise error
            finally:
                del error  # as below
        # asyncio keeps one running loop for each thread. The strands that run while this one waits
        # are no code of its loop, and must not take it for theirs.
        loop = asyncio._get_running_loop()
        if loop is not None:
            self.cancellations = _cancellations(loop)
            asyncio._set_running_loop(None)
        back, self.back = self.back, None
        try:
            # From the second wait on the starter of a fiber may be anywhere, and the hub is who
            # goes on; so it is for a program that is no fiber.
            if back is None:
                error = self.hub.greenlet.switch()
            else:
                self.greenlet.parent = self.hub.greenlet
                error = back.switch()
        finally:
            self.waits = None
            if loop is not None:
                asyncio._set_running_loop(loop)
        if error is not None:
            try:
                raise error
            finally:
                # This frame is in the traceback of the error. If it held the error, too, the
                # variables of the program would stay until the garbage collector comes by, and
                # with them calls that are to end when nobody holds their generations.
                del error


class Stack(greenlet):  # type: ignore[misc] # greenlet has no types
    """The greenlet of a fiber, which it names."""

    fiber: Fiber


class Fiber(Strand):
    """A program with a stack of its own, started by its hub or, when shallow, on the spot.

    *broken_off* is called by the hub after a Ctrl-C: *body* may have been left anywhere.
    ``context`` is that of the program until it is over.
    """

    __slots__ = ("_body", "_broken_off", "context")

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

    def lost(self) -> bool:
        """True if a Ctrl-C has kept this from starting, or ended it before its body ran."""
        if self._body is None:
            return bool(self.greenlet.dead)
        return all(strand is not self for strand, _ in self.hub.ready)

    def start(self) -> None:
        """Run at once up to the first wait if few starts are nested, else from the hub's queue."""
        hub = self.hub
        hub.fibers.add(self)
        if not watchdog.on:
            watchdog.begin()
        # A fiber that starts a fiber that starts a fiber stands on the C stack of all of them.
        # Beyond a small depth they start from the hub's queue, or the interpreter would crash.
        if hub.depth >= EAGER_DEPTH or getcurrent() is hub.greenlet:
            hub.ready.append((self, None))
            hub.poke()
            return
        loop = asyncio._get_running_loop()
        hub.depth += 1
        # At its first wait, or its end, the fiber returns here, to the program that started it,
        # and not to the hub: so a program starts all its fibers before the first of them goes on.
        self.back = self.greenlet.parent = getcurrent()
        try:
            self.greenlet.switch(None)
        finally:
            hub.depth -= 1
            if loop is not None:
                asyncio._set_running_loop(loop)
        # An interruption of the fiber is raised in the program that started it.
        error, hub._interrupt = hub._interrupt, None
        if error is not None:
            raise error

    def _run(self, error: BaseException | None) -> None:
        try:
            body, self._body = self._body, None
            assert body is not None
            body()
        except (KeyboardInterrupt, SystemExit) as stop:
            # It must not leave through the greenlet's parent, which may be any program. The hub
            # raises it in the outermost one. As *body* may have ended without an outcome, those
            # who wait for it are told by *broken_off*.
            self.hub._interrupt = stop
            self.hub.inbox.append(_Action(self._broken_off))
        finally:
            self.waits = None  # a Ctrl-C may have come when a wait had begun and nothing waited
            self.hub.fibers.discard(self)
            self.context = None
            del self.greenlet.fiber, self._broken_off  # no cycles: nothing is left to be collected


class Hub:
    """Runs the programs of one thread, or of one asyncio loop, one at a time.

    A thread's hub has a greenlet of its own, and sleeps in a lock when nothing can go on. A loop's
    hub is run by a callback of the loop (``_step``) and returns to it instead of sleeping.
    ``_runner`` is the greenlet of the loop while a step runs, ``_scheduled`` is true while a step
    is to come, ``_hops`` counts the rounds for which the hub has let the loop settle. ``_rest``
    says how every program of the loop waits; ``None`` while one of them goes on.
    """

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
        self._wakeup = threading.Lock()
        self._wakeup.acquire()
        self._outer: Strand | None = None
        self._interrupt: BaseException | None = None
        self._runner: greenlet | None = None
        self._rest: Rest | None = None
        self._scheduled = False
        self._hops = 0
        self._saw_inbox = False  # empty, since this thread began to sleep
        self._handed: tuple[BaseException | None] | None = None
        self.stopped = False
        self.greenlet = greenlet(_stack_of)
        self.greenlet.switch(weakref.ref(self))

    # -- from any thread

    def notify(self) -> None:
        """See that what is in the inbox is taken out soon."""
        if self.asleep:
            # Cleared by who notifies: the others of a burst need not do so again. Two threads may
            # still both come here; the second release of the lock does nothing.
            self.asleep = False
            if self.loop is None:
                io_thread().wake(self._wakeup)
            else:
                release(self._wakeup)
        elif self.loop is not None and not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                self.loop.call_soon_threadsafe(self._step)
        elif not watchdog.on:
            watchdog.begin()  # an answer waits, and the thread does something else: for how long?

    def tell(self, item: Deliverable) -> None:
        """Put *item* into the inbox and notify the thread of it."""
        self.inbox.append(item)  # before the look at ``asleep``: see ``_sleep``
        self.notify()

    # -- on the hub's thread

    def poke(self) -> None:
        """Have a loop's hub take a step soon; a thread's hub runs at the next wait anyway."""
        if self.loop is not None and not self._scheduled and self._runner is None:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: see ``step_once_more``
                self.loop.call_soon(self._step)

    # -- for those who look for idleness (``on_sleep``)

    def stirs(self) -> None:
        """Note that a program is active here; watchers are told when all of them wait again."""
        self._rest = None
        self.poke()

    def leaves(self) -> None:
        """Note that the hub's thread has nothing more to do."""
        self._rest = "quiet"

    def rest(self) -> Rest | None:
        """The way in which all programs here wait at one moment, or ``None``; from any thread."""
        if self.asleep:
            # A thread that falls asleep sets its flag before it looks for what was posted. Until
            # it has looked, something may be there, and it will not sleep.
            if not self._saw_inbox:
                return None
            return "quiet"  # not even the timers of its loop, which stands still, can move it
        # A step that is to come delivers something. Who notifies sets this flag, and the loop's
        # thread sets ``_rest``, perhaps later: so neither may be overwritten by the other.
        return None if self._scheduled else self._rest

    def settle(self) -> None:
        """Have the loop say anew how it rests if the timers that it had are gone; from any thread.

        asyncio takes a timer that is due out of its heap, and runs it later. In between neither
        the heap nor the queue need show that a program is about to go on. So a loop that came to
        rest with timers is "quiet" only when its own thread has said so, in a step after them:
        there nothing is half done. Until that step the loop does not rest.
        """
        moved = self.rest() == "timed" and not self.asleep and not self._timers()
        if moved and self.runs():
            self.notify()

    def alive(self) -> bool:
        """True if programs of this hub can still go on."""
        return self.thread.is_alive() and not (self.loop is not None and self.loop.is_closed())

    def runs(self) -> bool:
        """True if it is a loop's, and the loop runs."""
        return self.loop is not None and self.loop.is_running()

    def settled(self, polls: Callable[[threading.Thread], bool]) -> bool:
        """True if the loop has nothing to run, or stands still while this sleeps."""
        return self.asleep or not (getattr(self.loop, "_ready", True) or not polls(self.thread))

    def sleeps(self, frame: FrameType) -> bool:
        """True if its thread, which is at *frame*, waits in a lock until somebody notifies it."""
        return self.asleep and self.loop is None and frame.f_code is Hub._sleep.__code__

    def next_timer(self) -> float:
        """Seconds until the loop's next timer is due, infinite without one; from any thread."""
        if self.loop is None or self.rest() == "quiet":
            return math.inf
        # Without one in the heap the last one was taken out and may not have run yet.
        due = min((timer.when() for timer in self._timers()), default=0.0)
        return max(due - self.loop.time(), 0.0)

    def _timers(self) -> list[asyncio.TimerHandle]:
        """The timers in the loop's heap that may move something: not cancelled ones."""
        timers = tuple(getattr(self.loop, "_scheduled", ()))
        return [timer for timer in timers if not timer.cancelled()]

    def waiting(self) -> list[Strand]:
        """The strands that wait here; from any thread, as of about now."""
        outer = self._outer
        outside = [outer] if outer is not None and outer.waits is not None else []
        return [*outside, *(fiber for fiber in tuple(self.fibers) if fiber.waits is not None)]

    def take_turns(self) -> BaseException | None:
        """Run and deliver until who has to go on needs nothing of this stack.

        That is the loop, or the outermost program; returns the error to be raised where it waits.
        """
        while self._handed is None:
            try:
                # The order matters. What is ready runs first, and an outcome is delivered only when
                # no program can go on: so which program sees an outcome first does not depend on
                # when it came.
                while self._handed is None:
                    if _ending.by is not None and _ending.by is not self.thread:
                        _ending.rest(self)
                    elif self._interrupt is not None:
                        self._raise_outside()
                    elif self.ready:
                        strand, thrown = self.ready[0]
                        del self.ready[0]  # by a statement: after a call a Ctrl-C might lose it
                        if self.loop is not None:
                            # Called from a callback of the loop, fibers are code of that loop.
                            # Under a blocking wait of a coroutine the loop stands still, and is not
                            # theirs.
                            asyncio._set_running_loop(
                                self.loop if self._runner is not None else None
                            )
                        if self.fibers:
                            strand.greenlet.switch(thrown)
                        else:
                            self._hand_over(strand.greenlet, thrown)
                        del strand, thrown  # now: this stack may stand for long, and hold them
                    elif not self.inbox:
                        self._idle()
                    elif self._runner is not None and not self._settled():
                        # The loop's own tasks are programs, too: they go on before the next
                        # delivery.
                        self._yield_to_loop(repeat=True)
                    else:
                        self.turns += 1
                        self.inbox[0].deliver()
                        del self.inbox[0]  # now: what a Ctrl-C breaks off is delivered again
            except GreenletExit:  # the hub is collected
                raise
            # Python may run a signal handler between any two lines of the hub. The error belongs
            # to the outermost program, and the turn that it broke off is taken again.
            except BaseException as error:  # Ctrl-C while nobody's code ran
                self._interrupt = error
        handed, self._handed = self._handed[0], None
        return handed

    def _raise_outside(self) -> None:
        error, self._interrupt = self._interrupt, None
        assert error is not None
        if self._runner is not None:
            stepper, self._runner = self._runner, None
            stepper.throw(error)
            return
        outer = self._outer
        if outer is not None:
            # It goes on here and now, so nothing may wake it once more for the wait that it leaves.
            outer.waits = None
            self.ready = deque(entry for entry in self.ready if entry[0] is not outer)
            outer.greenlet.switch(error)

    def _settled(self) -> bool:
        """True if the loop has nothing left to run before the next delivery.

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

    def _yield_to_loop(self, repeat: bool) -> None:
        stepper, self._runner = self._runner, None
        assert stepper is not None and self.loop is not None
        if repeat and not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._step)
        if self.fibers:
            stepper.switch()
        else:
            self._hand_over(stepper, None)

    def _hand_over(self, to: greenlet, error: BaseException | None) -> None:
        # Without fibers nothing on this stack is needed any more. It is left, down to
        # ``_stack_of``, which switches to *to* with *error*. Its frame keeps neither the hub nor
        # the loop alive: the hub of a thread that ends is collected, as that of a loop is.
        self.greenlet.parent, self._handed = to, (error,)

    def _idle(self) -> None:
        # Deadlocks are looked for only now: at the wait itself a part of the cycle might still
        # be missing, and most waits end before the hub has nothing to do.
        if self.suspects:
            from appl.runtime.concurrency.deadlock import deadlock_of

            suspects, self.suspects = self.suspects, []
            blocks = self.loop is not None and self._runner is None
            for strand in suspects:
                waits = strand.waits
                if waits is not None:
                    error = deadlock_of(waits, self if blocks and strand is self._outer else None)
                    if error is not None:
                        strand.wake(waits, error)
            if self.ready:
                return
        if self._runner is None:
            self._sleep()
        elif not self.on_sleep or self._rest is not None:
            self._yield_to_loop(repeat=False)
        elif not self._settled():
            self._yield_to_loop(repeat=True)
        else:
            # One assignment says both that nothing is to run and whether timers are left, so that
            # no other thread sees the one without the other. It comes before the watchers are told,
            # who look at it from the I/O loop. On this thread no timer is between heap and queue.
            self._rest = "timed" if self._timers() else "quiet"
            for tell in self.on_sleep:
                tell()
            self._yield_to_loop(repeat=False)

    def _sleep(self) -> None:
        # First the flag, then the look at the inbox; another thread posts first and then looks at
        # the flag. So either it is seen here what was posted, or the other thread sees that this
        # one sleeps and notifies it. The other way round a wake-up could be lost.
        self.asleep = True
        if self.inbox:
            self.asleep = False
            return
        self._saw_inbox = True
        for tell in self.on_sleep:
            tell()
        if self.blocking is not None:
            self.blocking(True)  # a worker that waits makes room for another one
        try:
            if self.loop is None:
                # It may have been notified during that: then the lock is open already.
                # A signal just before the main thread sleeps does not wake it: Python looks when
                # the thread wakes, so that one wakes now and then.
                patience = GLANCE if self.thread is threading.main_thread() else LOOK_S
                slept, needed = 0.0, None
                while not self.ready and not self._wakeup.acquire(timeout=patience):
                    slept += patience
                    if slept >= LOOK_S:
                        # Few programs wait for so long.
                        from appl.runtime.concurrency.held_lock import raise_in_holders

                        slept, needed = 0.0, raise_in_holders(self.waiting(), needed)
            else:
                # A blocking wait under a running loop. Its task can be cancelled from another
                # thread, which notifies nobody: so it sleeps in slices and looks. It is one sleep
                # all the same: who looks for idleness would take each new one for a move, and
                # would never have seen long enough that nobody moves.
                while not self.ready and not self._wakeup.acquire(timeout=SLICE):
                    outer = self._outer
                    if outer is None or (waits := outer.waits) is None:
                        continue
                    if _cancellations(self.loop) > outer.cancellations:
                        outer.wake(waits, asyncio.CancelledError())
        finally:
            self._saw_inbox = self.asleep = False
            if self.blocking is not None:
                self.blocking(False)

    def _step(self) -> None:
        """One callback of the loop: run what is ready, deliver what has come."""
        # Where loops are nested, as in some notebooks, the inner one may call this while the hub
        # is at work further down on the same stack: one run of it is enough.
        nested = self._runner is not None or self.asleep
        if not nested:
            self._rest = None  # before the flag goes down: who looks must find one of both
        self._scheduled = False  # now: what is posted from here on needs a step of its own
        if nested:
            return
        self._runner = getcurrent()
        try:
            broken_off = self.greenlet.switch()
        finally:
            self._runner = None
            asyncio._set_running_loop(self.loop)
        if isinstance(broken_off, BaseException):
            raise broken_off

    def step_once_more(self) -> None:
        """Run what is ready though the loop is closed; on its thread, outside of every loop."""
        self.inbox.clear()  # nobody is told anything any more
        try:
            self._step()
        finally:
            asyncio._set_running_loop(None)


def _stack_of(ref: weakref.ref[Hub]) -> None:
    """The stack of a hub. It holds no reference to the hub while the hub does not run.

    So a hub is collected with its loop.
    """
    handed: BaseException | None = None
    while True:
        try:
            getcurrent().parent.switch(handed)
            hub = ref()
            if hub is None:
                return
            handed = hub.take_turns()
            del hub
        except GreenletExit:
            raise
        except BaseException as error:  # Ctrl-C between a program and its hub: it is the program's
            handed = error


class _Here(threading.local):
    hub: Hub | None = None


_hubs: weakref.WeakSet[Hub] = weakref.WeakSet()


def hubs() -> list[Hub]:
    """Every hub whose thread and loop are alive."""
    while True:
        try:
            return list(filter(Hub.alive, tuple(_hubs)))
        except RuntimeError:  # another thread has just made one
            continue


watchdog = Watchdog(hubs)
_ending = Ending(hubs, Stop, (Fiber._run.__code__, _stack_of.__code__))
_here = _Here()
os.register_at_fork(after_in_child=lambda: setattr(watchdog, "on", False))
_ATTRIBUTE = "_appl_hub"  # of a loop: no weak dictionary lets go of a key that its value refers to


def hub_here() -> Hub:
    """The hub of the running loop, else of this thread."""
    loop = asyncio._get_running_loop()
    hub: Hub | None = _here.hub if loop is None else getattr(loop, _ATTRIBUTE, None)
    if hub is None:
        hub = Hub(loop)
        _hubs.add(hub)
        if loop is None:
            _here.hub = hub
        else:
            setattr(loop, _ATTRIBUTE, hub)
    return hub


def end_hub_here() -> None:
    """End the hub of this thread, which is about to end, and on which no program is left."""
    hub, _here.hub = _here.hub, None
    if _ending.by is not None:
        return  # the process ends: see ``Ending``
    # A greenlet that is suspended when its thread ends can never be resumed. It, and the thread's
    # own greenlet, to which it would return, would be kept until the process ends.
    if hub is not None and not hub.fibers and getcurrent() is not hub.greenlet:
        hub.greenlet.parent = getcurrent()
        hub.greenlet.throw(GreenletExit)


class _Action:
    """An item in the inbox of a hub that takes effect by a call of *action*."""

    __slots__ = ("deliver",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.deliver = action


def run_on(hub: Hub, action: Callable[[], None]) -> None:
    """Have *action* called on the hub's thread, from any thread."""
    hub.tell(_Action(action))


def strand_here() -> Strand:
    """The synchronous program that is running."""
    me = getcurrent()
    if type(me) is Stack:
        return me.fiber
    hub = hub_here()
    outer = hub._outer
    if outer is None or outer.greenlet is not me:
        outer = hub._outer = Strand(hub, me)
    return outer


def is_in_loop() -> bool:
    """True if the caller runs on a loop of the program's, which must not be blocked."""
    return asyncio._get_running_loop() is not None


def in_coroutine() -> bool:
    """True if the caller is code of the running loop, which must not be blocked."""
    return asyncio._get_running_loop() is not None and type(getcurrent()) is not Stack


def wait(pending: Promise) -> None:
    """Suspend the running program until *pending* has its outcome, delivered to its hub."""
    strand = strand_here()
    hub = strand.hub
    if pending.home is hub:
        # Delivered, and not merely done: an outcome counts when its turn has come in the inbox.
        # ``delivered`` and the waiters belong to this thread, so nothing can come in between.
        if pending.delivered:
            return
        pending.await_with(strand)
    else:
        pending.end_if_orphaned()
        # The callback runs on the thread that finishes it, perhaps before the next line. It only
        # posts to this hub, which delivers when this strand has parked: no wake-up is lost.
        if not pending.subscribe(lambda done: run_on(hub, partial(strand.wake, done))):
            return
    strand.waits = pending
    if not pending.independent and pending.suspicious():
        hub.suspects.append(strand)
    strand.park()


class _Arrived:
    """Completes the asyncio future with which a task awaits an outcome."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def wake(self, pending: Promise) -> None:
        self.deliver()

    def deliver(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


def loop_here() -> asyncio.AbstractEventLoop:
    """The event loop of asyncio that runs the calling coroutine.

    Raises ``RunError`` where another library runs it.
    """
    loop = asyncio._get_running_loop()
    if loop is None:
        raise RunError(
            "no event loop of asyncio runs this coroutine: async prompt functions, `await` of "
            "answers and `async with` work with asyncio alone; under trio write the prompt "
            "function with plain `def` and call it in a thread: "
            "await trio.to_thread.run_sync(f, ...)"
        )
    return loop


async def arrive(pending: Promise) -> None:
    """Wait like :func:`wait`, in a coroutine: the loop goes on."""
    hub = hub_here()
    if pending.delivered if pending.home is hub else pending.done:
        return
    arrived = _Arrived(future := loop_here().create_future())
    if pending.home is hub:
        pending.await_with(arrived)
        # An outcome that nobody awaited was posted without a notice. Nobody else would give one.
        if hub.inbox:
            hub.poke()
    else:
        pending.end_if_orphaned()
        if not pending.subscribe(lambda _: hub.tell(arrived)):
            return
    await future


def rest_if_daemon() -> None:
    """Never return on a daemon thread: the process ends, and Python stops these threads anyway."""
    if threading.current_thread().daemon:
        _ending.rest(hub_here())
