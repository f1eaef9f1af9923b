"""The I/O loop, the thread that runs it, and the queue by which other threads send it actions.

Invariant: actions take effect on the I/O loop, in the order in which they were sent, and user code
never runs there. One thread at a time runs the loop: the I/O thread, or, while that one lends the
loop, a program's thread that would only sleep until the loop wakes it.

Waking a thread on another core costs more than a call. So the I/O thread lends the loop once it
has answered a program's only call within ``FAST_S``: the next call is likely to be answered as
fast, and then the program that waits for it runs the loop itself, and no thread has to be woken.
It polls for ``FAST_S`` at most: longer waiting is the I/O thread's part. Nothing is under way while
nobody runs the lent loop. The I/O thread looks every ``TICK`` whether there is work or whether
nobody runs the loop any more. A program that waits and cannot run the loop itself recalls the I/O
thread.
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
from appl.threads import process_lock

TICK = FAST_S = 0.002
_MOST_ROUNDS = 100
_HELPERS = 8
_START = process_lock()


class Sleeper(Protocol):
    """A hub without anything to do; ``asleep`` until the loop wakes it."""

    asleep: bool


Ready = list[tuple[selectors.SelectorKey, int]]


class _Loan:
    """One time for which the loop is lent to *sleeper*, who runs some ``rounds`` of it.

    It polls until ``ends``, which is counted from the first poll: its thread may have had to wait
    for a processor before.
    """

    __slots__ = ("ends", "rounds", "sleeper")

    def __init__(self, sleeper: Sleeper) -> None:
        self.sleeper, self.rounds, self.ends = sleeper, 0, 0.0


class LoopThread:
    """A daemon thread with an asyncio loop, which it lends to programs that wait.

    ``workers`` counts what is under way on the loop; ``dead`` is true when the thread has ended.
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
        self._loan: _Loan | None = None
        self._lending = False
        self._may_sleep = True  # whoever runs the loop: who sends has to wake it
        self._may_lend = True
        self._recalled = threading.Lock()  # the I/O thread waits in it while it lends the loop
        self._recalled.acquire()
        self._loans = self._polls = 0
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

    @property
    def running_thread(self) -> int | None:
        """The ident of the thread that runs the loop."""
        return self._running_thread

    def send(self, action: Callable[[], object]) -> None:
        """Have *action* run on the loop; the first of a burst wakes the loop, if it sleeps."""
        # First the action, then the look at the flags: the loop clears its flag before it empties
        # the queue, and looks at the queue after it has begun to lend, and after a borrower has
        # said that it may sleep. So either this thread sees that a wakeup is needed, or the loop's
        # thread sees the action.
        self._actions.append(action)
        if self._may_sleep and not self._wakeup_sent:
            self._wakeup_sent = True  # and a Ctrl-C cannot come before the next call is done
            os.write(self._wakeup_end, b"!")

    def wake(self, lock: threading.Lock) -> None:
        """Release *lock*, in which a hub sleeps; from the I/O thread when it next polls."""
        if self._running_thread != get_ident():
            release(lock)
        elif self._loan is None:
            # Not yet: a program that wakes now would fight with this thread for the interpreter
            # while the loop still has callbacks to run.
            self._to_release.append(lock)
            self._woke_program = True
        else:
            release(lock)
            # The program that was woken may be the one whose thread runs this loop. It can go on
            # only when the loop returns to it.
            if not self._loan.sleeper.asleep:
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

    def answered(self, began: float) -> None:
        """A call that began then, in seconds of the monotonic clock, is answered."""
        self._answered_fast = time.monotonic() - began < FAST_S

    def _run_actions(self, pipe: int | None = None) -> None:
        if pipe is not None:
            os.read(pipe, 64)
        # The flag is cleared first. A thread that still saw it set has put its action into the
        # queue before, where the loop below finds it. One that sends later wakes the loop again.
        self._wakeup_sent = False
        actions = self._actions
        # Lending may have ended meanwhile, for a backend that is bound to the I/O thread. Then a
        # borrower leaves the remaining actions to that thread, and recalls it.
        while actions and (self._may_lend or self._loan is None):
            actions.popleft()()

    def _poll(self, timeout: float | None) -> Ready:
        """Poll for *timeout* seconds, or for less where the loop is lent, or is to be."""
        if self._loan is not None:
            return self._poll_on_loan(timeout, self._loan)
        if timeout != 0:
            lend = self._answered_fast and self._woke_program
            self._answered_fast = self._woke_program = False
            if lend and self._begin_to_lend():
                # Without a poll, in which another thread would run, and before the program is
                # woken: so that it finds that nobody runs the loop.
                return []
        if self._to_release:
            self._release_locks()
        return self._select(timeout)

    def _poll_on_loan(self, timeout: float | None, loan: _Loan) -> Ready:
        """Run what is ready, and poll where an answer may come soon.

        It ends when the program is woken, when nothing comes, or after many rounds, as a callback
        that schedules itself again would never let it end.
        """
        loan.rounds += 1
        if not (loan.sleeper.asleep and self._may_lend) or loan.rounds > _MOST_ROUNDS:
            self.loop.stop()
        elif timeout != 0:
            now = time.monotonic()
            loan.ends = loan.ends or now + FAST_S
            left = loan.ends - now
            if self.workers and left > 0:
                return self._poll_for(left if timeout is None else min(timeout, left))
            self.loop.stop()
        return []

    def _poll_for(self, seconds: float) -> Ready:
        # First the flag, then the look at the queue; who sends does it the other way round. After
        # the poll nobody need be woken: before a borrower goes on it looks at the queue once more.
        self._polls += 1
        self._may_sleep = True
        try:
            if not self._actions:
                return self._select(seconds)
        finally:
            self._may_sleep = False
        self.loop.call_soon(self._run_actions)
        return []

    def _release_locks(self) -> None:
        locks, self._to_release = self._to_release, []
        for lock in locks:
            release(lock)

    def _begin_to_lend(self) -> bool:
        if self.workers or not self._may_lend:
            return False
        self._lending, self._may_sleep = True, False
        if self._actions:  # looked at after: who sends later finds that nobody sleeps there
            self._lending, self._may_sleep = False, True
            return False
        self.loop.stop()
        return True

    # -- who runs the loop

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while True:
                with self._run_lock:
                    self._lending, self._may_sleep, self._answered_fast = False, True, False
                    self._run_loop()  # until ``_begin_to_lend`` stops it
                # Borrowers look at sockets and timers only while they run, and at sockets only
                # where they wait for an answer. So as long as somebody borrows, and none polls,
                # this thread runs one round of the loop every ``TICK``. When something is under way
                # that no borrower waits for, or nobody borrows any more, it runs it for good.
                polls = self._polls
                while self._not_needed():
                    if polls == self._polls and self._run_lock.acquire(blocking=False):
                        try:
                            self.loop.stop()  # after one round
                            self._run_loop()
                        finally:
                            self._run_lock.release()
                    polls = self._polls
        finally:
            self.dead = True

    def _not_needed(self) -> bool:
        """Rest for a ``TICK``; true if nobody recalled this thread and others run the loop."""
        loans = self._loans
        if self._is_left or self._recalled.acquire(timeout=TICK) or self._is_left:
            return False
        return self._loan is not None or self._loans != loans

    @property
    def _is_left(self) -> bool:
        """True if something is under way, and no borrower waits for it."""
        return self.workers > 0 and self._loan is None

    def _borrow(self, sleeper: Sleeper) -> None:
        # Never wait for the lock: another thread runs the loop then, and will wake the sleeper.
        if self._run_lock.acquire(blocking=False):
            self._loan = _Loan(sleeper)
            try:
                if self._lending and self._may_lend:  # it may have been recalled meanwhile
                    self._run_loop()
            finally:
                self._loan = None
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
