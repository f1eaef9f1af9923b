"""The I/O loop, who runs it, and the way there: a queue that is emptied at once, in order.

Invariant: what is sent takes effect in the order of sending, on the I/O loop, and user code never
runs there. One thread at a time runs the loop: the I/O thread, or, while that one is aside, the
thread of a program that would only sleep until the loop wakes it.

To wake a thread on another core costs more than a call. So the I/O thread steps aside once it has
answered a program's only call without waiting for anything: its next one is likely to be answered
so too, and then who waits for it can run the loop, and nobody need be woken. Nothing is under way
while the I/O thread is aside; it looks every ``TICK`` whether there is something to do or nobody
runs the loop any more, and who cannot help himself calls it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context
from threading import get_ident
from typing import Protocol

from appl import threads
from appl.runtime.concurrency.shield import Shield

TICK = 0.001
_SWIFT_NS = 1_000_000
_TURNS = 100
_HELPERS = 8
_START = threading.Lock()


class Sleeper(Protocol):
    """A hub without anything to do; ``asleep`` until the loop wakes it."""

    asleep: bool


class _Polls(selectors.DefaultSelector):
    """The loop's selector, which asks before each poll how long it may last."""

    limit: Callable[[float | None], float | None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        timeout = self.limit(timeout)
        return [] if timeout is not None and timeout < 0 else super().select(timeout)


class IoThread:
    """A daemon thread with an asyncio loop, which it lends to programs that wait.

    ``workers`` counts what is under way on the loop; ``dead`` is true when the thread has ended.
    """

    def __init__(self) -> None:
        self._ear, self._bell = os.pipe()
        os.set_blocking(self._ear, False)
        self.loop = Context().run(self._make_loop)  # which must not keep the caller's context
        self.workers = 0
        self.dead = False
        self._outbox: deque[Callable[[], None]] = deque()
        self._rung = False
        self._bells: list[threading.Lock] = []
        self._wheel = threading.Lock()  # held by who runs the loop
        self._driver: int | None = None
        self._guest: Sleeper | None = None
        self._aside = False
        self._lends = True
        self._calls = threading.Lock()
        self._calls.acquire()
        self._guests = self._turns = self._sleeps = 0
        self._swift = self._woke = False
        threads.start(self._serve, "appl-io")

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        polls = _Polls()
        polls.limit = self._limit
        loop = asyncio.SelectorEventLoop(polls)
        loop.add_reader(self._ear, self._rung_for)
        return loop

    # -- from any thread

    @property
    def empty(self) -> bool:
        """Whether nothing is on its way here."""
        return not self._outbox

    def here(self) -> bool:
        """Whether the caller is on the I/O loop."""
        return self._driver == get_ident()

    def send(self, action: Callable[[], None]) -> None:
        """Have *action* run on the loop; the first of a burst wakes it, if it sleeps there."""
        self._outbox.append(action)
        if not self._rung and not self._aside:
            self._rung = True  # and a Ctrl-C cannot come before the next call is done
            os.write(self._bell, b"!")

    def wake(self, bell: threading.Lock) -> None:
        """Release *bell*; on the I/O loop when it next polls: until then the two would contend."""
        if not self.here():
            release(bell)
        elif self._guest is None:
            self._bells.append(bell)
            self._woke = True
        else:
            release(bell)
            if not self._guest.asleep:
                self.loop.stop()

    def help(self, sleeper: Sleeper) -> None:
        """Before *sleeper* sleeps: run the loop until it is woken, if the I/O thread is aside."""
        if not self._aside:
            return
        if threading.main_thread().ident == get_ident():
            with Shield():  # a Ctrl-C must not break off the work of others
                self._help(sleeper)
        else:
            self._help(sleeper)

    def call(self) -> None:
        """Have the I/O thread run the loop again, for who waits and cannot help."""
        if self._aside:
            release(self._calls)

    def keep(self) -> None:
        """Let nobody but the I/O thread run the loop from now on."""
        self._lends = False
        self.call()

    def reserve(self) -> None:
        """Start now the threads that the loop will need where new ones are refused at the end."""
        helpers = concurrent.futures.ThreadPoolExecutor(_HELPERS, "appl-helper")
        met = threading.Barrier(_HELPERS + 1)
        for _ in range(_HELPERS):
            helpers.submit(met.wait)
        met.wait()
        self.loop.set_default_executor(helpers)

    # -- on the I/O loop

    def soon(self, action: Callable[[], None]) -> None:
        """Have *action* run later on the loop."""
        self._outbox.append(action)
        if not self._rung:
            self._rung = True
            self.loop.call_soon(self._drain)

    def begun(self) -> tuple[int, int]:
        """When something begins that may be over soon."""
        return self._sleeps, time.monotonic_ns()

    def answered(self, begun: tuple[int, int]) -> None:
        """A call is answered."""
        sleeps, at = begun
        self._swift = sleeps == self._sleeps and time.monotonic_ns() - at < _SWIFT_NS

    def _rung_for(self) -> None:
        os.read(self._ear, 64)
        self._drain()

    def _drain(self) -> None:
        self._rung = False
        outbox = self._outbox
        while outbox and (self._lends or self._guest is None):
            outbox.popleft()()

    def _limit(self, timeout: float | None) -> float | None:
        """Before each poll: how long it may last; less than nothing for no poll at all."""
        self._ring()
        if self._guest is not None:
            self._turns += 1
            if timeout != 0 or not self._guest.asleep or self._turns > _TURNS:
                self.loop.stop()
            return -1
        if timeout == 0:
            return 0
        self._sleeps += 1
        swift, self._swift = self._swift and self._woke, False
        self._woke = False
        return 0 if swift and self._steps_aside() else timeout

    def _ring(self) -> None:
        bells, self._bells = self._bells, []
        for bell in bells:
            release(bell)

    def _steps_aside(self) -> bool:
        if self.workers or not self._lends:
            return False
        self._aside = True
        if self._outbox:  # looked at after: who sends later finds that nobody sleeps there
            self._aside = False
            return False
        self.loop.stop()
        return True

    # -- who runs the loop

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while True:
                with self._wheel:
                    self._aside = self._swift = False
                    self._drive()
                while not self.workers and self._unneeded():
                    with self._wheel:
                        self.loop.stop()  # after one round
                        self._drive()
        finally:
            self.dead = True

    def _unneeded(self) -> bool:
        """Rest for a ``TICK``: whether nobody called, and somebody ran the loop meanwhile."""
        guests = self._guests
        return not self._calls.acquire(timeout=TICK) and self._guests != guests

    def _help(self, sleeper: Sleeper) -> None:
        if self._wheel.acquire(blocking=False):
            self._guest, self._turns = sleeper, 0
            try:
                if self._aside and self._lends:
                    self._drive()
            finally:
                self._guest = None
                self._guests += 1
                self._wheel.release()
        if sleeper.asleep or self._outbox or self.workers:
            self.call()

    def _drive(self) -> None:
        self._driver = get_ident()
        try:
            self.loop.call_soon(self._drain)
            self.loop.run_forever()
        finally:
            self._driver = None
            self._ring()


def release(bell: threading.Lock) -> None:
    """Open *bell*, which somebody else may have done already."""
    with contextlib.suppress(RuntimeError):
        bell.release()


_io: IoThread | None = None


def io_thread() -> IoThread:
    """The I/O thread of this process, started at the first use."""
    global _io
    if _io is None or _io.dead:
        with _START:
            if _io is None or _io.dead:
                _io = IoThread()
    return _io


def _forget() -> None:
    """In a forked child the thread does not run."""
    global _io
    _io = None


os.register_at_fork(after_in_child=_forget)
