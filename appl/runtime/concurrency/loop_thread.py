"""The I/O loop, the thread that runs it, and the queue by which other threads send it actions.

Invariant: actions take effect on the I/O loop, in the order in which they were sent, and user code
never runs there. One thread at a time runs the loop: the I/O thread, or, while that one lends the
loop, a program's thread that would only sleep until the loop wakes it.

Waking a thread on another core costs more than a call. So the I/O thread lends the loop once it
has answered a program's only call without waiting for anything: the next call is likely to be
answered in the same way, and then the program that waits for it runs the loop itself, and no thread
has to be woken. Nothing is under way while the loop is lent. The I/O thread looks every ``TICK``
whether there is work or whether nobody runs the loop any more. A program that waits and cannot run
the loop itself recalls the I/O thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import selectors
import threading
import time
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Callable
from contextvars import Context
from threading import get_ident
from typing import Protocol

from appl import threads
from appl.shield import Shield

TICK = 0.001
_FAST_NS = 1_000_000
_MOST_ROUNDS = 100
_HELPERS = 8
_START = threading.Lock()


class Sleeper(Protocol):
    """A hub without anything to do; ``asleep`` until the loop wakes it."""

    asleep: bool


Ready = list[tuple[selectors.SelectorKey, int]]


class LoopThread:
    """A daemon thread with an asyncio loop, which it lends to programs that wait.

    ``workers`` counts what is under way on the loop, ``sleeps`` how often the loop has slept;
    ``dead`` is true when the thread has ended.
    """

    def __init__(self) -> None:
        self._wakeup_pipe, self._wakeup_end = os.pipe()
        os.set_blocking(self._wakeup_pipe, False)
        self.loop = Context().run(self._make_loop)  # which must not keep the caller's context
        self.workers = 0
        self.dead = False
        self._actions: deque[Callable[[], object]] = deque()
        self._wakeup_sent = False
        self._to_release: list[threading.Lock] = []
        self._run_lock = threading.Lock()  # held by the thread that runs the loop
        self._running_thread: int | None = None
        self._lent_to: Sleeper | None = None
        self._lending = False
        self._may_lend = True
        self._recalled = threading.Lock()  # the I/O thread waits in it while it lends the loop
        self._recalled.acquire()
        self._loans = self._rounds = self.sleeps = 0
        self._answered_fast = self._woke_program = False
        threads.start(self._serve, "appl-io")

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        selector = selectors.DefaultSelector()
        self._select: Callable[[float | None], Ready] = selector.select
        selector.select = self._poll  # type: ignore[method-assign, assignment]
        loop = asyncio.SelectorEventLoop(selector)
        loop.add_reader(self._wakeup_pipe, self._run_actions, self._wakeup_pipe)
        threads.lasting_loops.add(loop)
        return loop

    # -- from any thread

    @property
    def empty(self) -> bool:
        """True if no action waits to be run on the loop."""
        return not self._actions

    def on_loop(self) -> bool:
        """True if the caller runs on the I/O loop."""
        return self._running_thread == get_ident()

    def send(self, action: Callable[[], object]) -> None:
        """Have *action* run on the loop; the first of a burst wakes the loop, if it sleeps."""
        # First the action, then the look at the flags: the loop clears its flag before it empties
        # the queue, and looks at the queue after it has begun to lend. So either this thread sees
        # that a wakeup is needed, or the loop's thread sees the action.
        self._actions.append(action)
        if not self._wakeup_sent and not self._lending:
            self._wakeup_sent = True  # and a Ctrl-C cannot come before the next call is done
            os.write(self._wakeup_end, b"!")

    def wake(self, lock: threading.Lock) -> None:
        """Release *lock*, in which a hub sleeps; from the I/O thread when it next polls."""
        if self._running_thread != get_ident():
            release(lock)
        elif self._lent_to is None:
            # Not yet: a program that wakes now would fight with this thread for the interpreter
            # while the loop still has callbacks to run.
            self._to_release.append(lock)
            self._woke_program = True
        else:
            release(lock)
            # The program that was woken may be the one whose thread runs this loop. It can go on
            # only when the loop returns to it.
            if not self._lent_to.asleep:
                self.loop.stop()

    def run_while_asleep(self, sleeper: Sleeper) -> None:
        """Before *sleeper* sleeps: run the loop until it is woken, if the loop is lent."""
        if not self._lending:
            return
        if threading.main_thread().ident == get_ident():
            with Shield():  # a Ctrl-C must not break off the work of others
                self._borrow(sleeper)
        else:
            self._borrow(sleeper)

    def recall(self) -> None:
        """Have the I/O thread run the loop again: the caller waits and cannot run it."""
        if self._lending:
            release(self._recalled)

    def stop_lending(self) -> None:
        """Let nobody but the I/O thread run the loop from now on."""
        self._may_lend = False
        self.recall()

    def start_helpers(self) -> None:
        """Start now the threads that the loop will need when the process ends.

        New threads are refused by then.
        """
        helpers = concurrent.futures.ThreadPoolExecutor(_HELPERS, "appl-helper")
        met = threading.Barrier(_HELPERS + 1)
        for _ in range(_HELPERS):
            # Each thread waits for all others here. Without that the executor would give several
            # jobs to one idle thread, and start fewer threads than there are jobs.
            helpers.submit(met.wait)
        met.wait()
        self.loop.set_default_executor(helpers)

    # -- on the I/O loop

    def soon(self, action: Callable[[], object]) -> None:
        """Have *action* run later on the loop."""
        self._actions.append(action)
        if not self._wakeup_sent:
            self._wakeup_sent = True
            self.loop.call_soon(self._run_actions)

    def answered(self, began_ns: int) -> None:
        """A call that began then is answered, and the loop has not slept since."""
        # The answer needed no network, and the next call of this program probably needs none
        # either. Then it is worth lending the loop.
        self._answered_fast = time.monotonic_ns() - began_ns < _FAST_NS

    def _run_actions(self, pipe: int | None = None) -> None:
        if pipe is not None:
            os.read(pipe, 64)
        # The flag is cleared first. A thread that still saw it set has put its action into the
        # queue before, where the loop below finds it. One that sends later wakes the loop again.
        self._wakeup_sent = False
        actions = self._actions
        # Lending may have ended meanwhile, for a backend that is bound to the I/O thread. Then a
        # borrower leaves the remaining actions to that thread, and recalls it.
        while actions and (self._may_lend or self._lent_to is None):
            actions.popleft()()

    def _poll(self, timeout: float | None) -> Ready:
        """Poll for *timeout* seconds, or for less where the loop is lent, or is to be."""
        if self._to_release:
            self._release_locks()
        if self._lent_to is not None:
            # A borrowed loop runs what is ready and never polls: waiting is the I/O thread's part.
            # It ends when nothing is ready, when the program is woken, or after many rounds, as a
            # callback that schedules itself again would never let it end.
            self._rounds += 1
            if timeout != 0 or not self._lent_to.asleep or self._rounds > _MOST_ROUNDS:
                self.loop.stop()
            return []
        if timeout != 0:
            self.sleeps += 1
            lend = self._answered_fast and self._woke_program
            self._answered_fast = self._woke_program = False
            if lend and self._begin_to_lend():
                timeout = 0
        return self._select(timeout)

    def _release_locks(self) -> None:
        locks, self._to_release = self._to_release, []
        for lock in locks:
            release(lock)

    def _begin_to_lend(self) -> bool:
        if self.workers or not self._may_lend:
            return False
        self._lending = True
        if self._actions:  # looked at after: who sends later finds that nobody sleeps there
            self._lending = False
            return False
        self.loop.stop()
        return True

    # -- who runs the loop

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while True:
                with self._run_lock:
                    self._lending = self._answered_fast = False
                    self._run_loop()  # until ``_begin_to_lend`` stops it
                # Borrowers never look at sockets, and at timers only while they run. So as long
                # as somebody borrows, this thread runs one round of the loop every ``TICK``. When
                # something is under way, or nobody borrows any more, it runs the loop for good.
                while not self.workers and self._not_needed():
                    with self._run_lock:
                        self.loop.stop()  # after one round
                        self._run_loop()
        finally:
            self.dead = True

    def _not_needed(self) -> bool:
        """Rest for a ``TICK``; true if nobody recalled this thread and somebody ran the loop."""
        loans = self._loans
        return not self._recalled.acquire(timeout=TICK) and self._loans != loans

    def _borrow(self, sleeper: Sleeper) -> None:
        # Never wait for the lock: another thread runs the loop then, and will wake the sleeper.
        if self._run_lock.acquire(blocking=False):
            self._lent_to, self._rounds = sleeper, 0
            try:
                if self._lending and self._may_lend:  # it may have been recalled meanwhile
                    self._run_loop()
            finally:
                self._lent_to = None
                self._loans += 1
                self._run_lock.release()
        # What this thread could not finish needs the I/O thread, or nobody would go on with it.
        if sleeper.asleep or self._actions or self.workers:
            self.recall()

    def _run_loop(self) -> None:
        self._running_thread = get_ident()
        try:
            # While the loop was lent ``send`` wrote no wakeup: look at the queue first.
            self.loop.call_soon(self._run_actions)
            self.loop.run_forever()
        finally:
            self._running_thread = None
            self._release_locks()


def release(lock: threading.Lock) -> None:
    """Release *lock*, which another thread may have done already."""
    with contextlib.suppress(RuntimeError):
        lock.release()


_thread: LoopThread | None = None


def void(_: object) -> None:
    """Nothing, for an action whose value is of no interest."""


def io_thread() -> LoopThread:
    """The I/O thread of this process, started at the first use."""
    global _thread
    if _thread is None or _thread.dead:
        with _START:
            if _thread is None or _thread.dead:
                _thread = LoopThread()
    return _thread


def _forget() -> None:
    """In a forked child the thread does not run."""
    global _thread
    _thread = None


os.register_at_fork(after_in_child=_forget)


def task_here() -> asyncio.Task[object] | None:
    """The asyncio task that runs on this thread, if one does."""
    loop = _get_running_loop()
    return asyncio.current_task(loop) if loop is not None else None
