"""The I/O loop, the thread that runs it, and the queue by which other threads send it actions.

Invariant: actions take effect on the I/O loop, in the order in which they were sent, and user code
never runs there. The I/O thread alone runs the loop: what a program holds while it waits, such as a
lock, never stands in the way of the thread that it waits on.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from threading import get_ident
from typing import TYPE_CHECKING

from appl.base import threads
from appl.base.threads import process_lock

if TYPE_CHECKING:
    import asyncio
else:
    from appl.base import deferred_asyncio as asyncio

_HELPERS = 8
_START = process_lock()

Ready = list[tuple[selectors.SelectorKey, int]]


class LoopThread:
    """A daemon thread with an asyncio loop; ``dead`` is true when the thread has ended.

    ``thread`` is the ident of the thread that runs the loop.
    """

    def __init__(self) -> None:
        self._wakeup_pipe, self._wakeup_end = os.pipe()
        os.set_blocking(self._wakeup_pipe, False)
        self.loop = Context().run(self._make_loop)  # which must not keep the caller's context
        self.dead = False
        self._actions: deque[Callable[[], object]] = deque()
        self._wakeup_sent = False
        self._to_release: list[threading.Lock] = []
        self.thread: int | None = None
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
        return self.thread == get_ident()

    def send(self, action: Callable[[], object]) -> None:
        """Have *action* run on the loop; the first of a burst wakes the loop."""
        # First the action, then the look at the flag: the loop clears its flag before it empties
        # the queue. So either this thread sees that it has to wake, or the loop sees the action.
        self._actions.append(action)
        if not self._wakeup_sent:
            self._wakeup_sent = True  # and a Ctrl-C cannot come before the next call is done
            os.write(self._wakeup_end, b"!")

    def wake(self, lock: threading.Lock) -> None:
        """Release *lock*, in which a hub sleeps; from the I/O thread when it next polls."""
        if self.thread == get_ident():
            # Not yet: a program that wakes now would fight with this thread for the interpreter
            # while the loop still has callbacks to run.
            self._to_release.append(lock)
        else:
            release(lock)

    def start_helpers(self) -> None:
        """Start now the threads that the loop will need when the process ends.

        New threads are refused by then.
        """
        from concurrent.futures import ThreadPoolExecutor  # `import appl` must not cost it

        helpers = ThreadPoolExecutor(_HELPERS, "appl-helper")
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

    def _run_actions(self, pipe: int | None = None) -> None:
        if pipe is not None:
            os.read(pipe, 64)
        # The flag is cleared first. A thread that still saw it set has put its action into the
        # queue before, where the loop below finds it. One that sends later wakes the loop again.
        self._wakeup_sent = False
        actions = self._actions
        try:
            while actions:
                actions.popleft()()
        finally:
            if actions:  # one raised an error, which the loop reports: the others are not lost
                self.loop.call_soon(self._run_actions)

    def _poll(self, timeout: float | None) -> Ready:
        if self._to_release:
            locks, self._to_release = self._to_release, []
            for lock in locks:
                release(lock)
        return self._select(timeout)

    def _serve(self) -> None:
        self.thread = get_ident()
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.dead = True


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
    loop = asyncio._get_running_loop()
    return asyncio.current_task(loop) if loop is not None else None
