"""Functions that run beside their caller: in a fiber, in a worker thread, or as an asyncio task.

Invariant: a task's address, prompt and place in program order are fixed when it is started.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context, copy_context
from functools import partial
from typing import ClassVar, cast

from appl.base import threads
from appl.errors import CallCancelled
from appl.runtime.concurrency.fiber import (
    Fiber,
    Hub,
    Strand,
    end_hub_here,
    hub_here,
    run_on,
    strand_here,
)
from appl.runtime.concurrency.loop_thread import void
from appl.runtime.concurrency.promise import Error, Outcome, Promise, Stop, Value, explained
from appl.runtime.concurrency.structure import cancel_all, excuse
from appl.runtime.event import Observed
from appl.runtime.frame import FRAME, Frame, owed

MAX_WORKERS = 256
"""Worker threads that run code of the user's at once; those that wait in appl do not count."""


class _Exit(Exception):
    """Carries a ``sys.exit()`` out of a worker."""

    def __init__(self, stop: SystemExit) -> None:
        super().__init__()
        self.stop = stop


class Task(Promise):
    """A function that was started; its outcome is what it returns.

    ``of_program`` says that the program started it, not a model that calls a tool.
    """

    of_program: ClassVar[bool] = True
    __slots__ = ("_aio", "_begun", "_cancelled", "frame", "run", "strand")

    def __init__(self, frame: Frame, home: Hub) -> None:
        super().__init__(frame.address, home)
        self.run, self.frame = frame.run, frame
        self.strand: Strand | None = None
        self._aio: asyncio.Task[object] | None = None
        self._cancelled = False
        self._begun = False
        self.overlaps = True
        if self.run.outside.begins is not None:
            self.run.outside.begins(self)

    def attempt(self, body: Callable[[], object]) -> Outcome:
        """Call *body*; the outcome, with what it left running as children."""
        try:
            if self._cancelled:
                raise Stop
            outcome: Outcome = Value(body())
        except (KeyboardInterrupt, SystemExit):
            self._leave()
            self.conclude(Error(CallCancelled(f"{self.address} was interrupted")))
            raise
        except (asyncio.CancelledError, Stop):
            outcome = Error(CallCancelled(f"{self.address} was cancelled"))
        except BaseException as error:
            explained(error, f"in {self.address}")
            outcome = Error(error)
        # Before the outcome is set: who is told of it looks at the children right away.
        self._leave()
        return outcome

    def _leave(self) -> None:
        self.children = owed(self.frame.started) or None
        if self.looked:
            excuse(self)

    # -- three ways to run

    def run_here(self, body: Callable[[], object], context: Context) -> None:
        """Run now, in the caller's stack: where every call is waited for."""
        self._begun = True
        self.conclude(context.run(self.attempt, body))

    def run_in_fiber(self, body: Callable[[], object], context: Context) -> None:
        """Run beside the caller on its thread."""
        hub = strand_here().hub

        def program() -> None:
            self.conclude(self.attempt(body))

        self.strand = fiber = Fiber(hub, program, context, self._broken_off)
        fiber.start()

    def run_in_thread(self, body: Callable[[], object], context: Context) -> None:
        """Run on a worker thread."""
        self._begun = True
        detection = self.run.outside.idle_detection
        is_counted = detection is not None
        if detection is not None:
            # From here until the worker has a hub nobody could see that a program is about to run.
            # So it is counted, or all others might seem idle.
            detection.starting += 1
        _workers.start(lambda: context.run(self._in_thread, body, is_counted))

    def _in_thread(self, body: Callable[[], object], is_counted: bool) -> None:
        hub = hub_here()
        detection = self.run.outside.idle_detection  # it may be there only since then
        if detection is not None:
            detection.joins(hub)  # before the count goes down, so that there is no gap in between
            detection.starting -= is_counted
        hub.blocking = _workers.blocked
        self.strand = strand_here()
        self.frame.thread = threading.get_ident()
        try:
            outcome = self.attempt(lambda: self._unstopped(body))
        finally:
            hub.blocking = None
        if isinstance(outcome, Error) and isinstance(outcome.error, _Exit):
            outcome = Error(outcome.error.stop)
        if self.settle(outcome) and self.home is not None:
            self.home.inbox.append(self)
            self.home.notify()
        # After the post: whoever sees this hub at rest finds the outcome on its way.
        if detection is not None:
            hub.leaves()
            detection.soon()

    def _unstopped(self, body: Callable[[], object]) -> object:
        """Call *body*; what would end the process ends the function alone, with an error."""
        try:
            return body()
        except SystemExit as stop:  # the program's own wish, as if it were called in sequence
            raise _Exit(stop) from None
        except KeyboardInterrupt as stop:
            raise CallCancelled(f"{self.address} was interrupted by {stop!r}") from stop

    def run_in_loop(self, coro: Coroutine[object, object, object], context: Context) -> None:
        """Run as a task of the running loop."""
        loop = asyncio.get_running_loop()
        self.in_loop = True
        self._aio = loop.create_task(coro, context=context)
        self._aio.add_done_callback(self._looped)

    def _looped(self, task: asyncio.Task[object]) -> None:
        if task.cancelled() and not self._cancelled:  # by the loop's end: nobody else has the task
            self._orphan_message("event loop")
            self.looked = True
        self.conclude(self.attempt(task.result))

    # -- while it runs

    def cancel(self) -> None:
        self.looked = True
        self._cancelled = True  # a body that has not begun looks at it before it begins
        if self._aio is not None and isinstance(self.home, Hub):
            at_home(self.home, lambda: void(self._aio and self._aio.cancel()))
        elif (strand := self.strand) is not None:
            at_home(strand.hub, lambda: self._stop(strand))
        elif not self._begun:
            self._broken_off()  # nothing runs that would set the outcome

    @property
    def place(self) -> Hub | None:
        """The hub that this runs on; ``None`` before it has begun."""
        if self._aio is None:
            return self.strand.hub if self.strand is not None else None
        return self.home if isinstance(self.home, Hub) else None

    def end_from_outside(self) -> bool:
        """End this as cancelled from outside of the program, where it waits; from any thread.

        The end comes to its hub as an answer would, between two others, and is recorded there, so
        that a replay ends it at the same wait. False when there is nothing to be ended.
        """
        hub = self.place
        if hub is None or self.done:
            return False
        run_on(hub, self._ended_from_outside)
        return True

    def _ended_from_outside(self) -> None:
        if not self.done:
            at = time.monotonic_ns()
            self.run.reporter.emit(Observed(self.address, 0, "cancelled", True, at))
            self.cancel()

    @property
    def is_starting(self) -> bool:
        """True if it was handed to a worker thread that has not taken it yet."""
        return self._begun and self.strand is None and self._aio is None and not self.done

    def is_orphaned(self) -> bool:
        """True if its thread or event loop has ended, so that it can never go on."""
        hub = self.place
        return hub is not None and not self.done and not hub.alive()

    def end_if_orphaned(self) -> None:
        """Cancel it with what it has started, which ends, and is recorded, before the run does."""
        if not self.is_orphaned():
            return
        hub = cast(Hub, self.place)
        ended = "event loop" if hub.loop is not None else "thread"
        what = self._orphan_message(ended)
        started = self.unfinished()
        cancel_all(started)
        # A greenlet can be resumed only on the thread where it was made. On another thread the
        # ``finally`` blocks of this program cannot run any more.
        if self.strand is not None and hub.thread is threading.current_thread():
            self._stop(self.strand)
            hub.step_once_more()  # so that its ``finally`` blocks run
        self.looked = True
        self.children = self.children or owed(started)
        self.settle(Error(CallCancelled(what)))

    def unfinished(self) -> list[Promise]:
        """The unfinished calls that it has started, in every activation that it is in."""
        context = self.strand.context if isinstance(self.strand, Fiber) else None
        frame = context.get(FRAME) if context is not None else None
        inner: list[Frame] = []
        while frame is not None and frame is not self.frame:
            inner.append(frame)
            frame = frame.parent
        return [call for frame in (self.frame, *reversed(inner)) for call in frame.unfinished()]

    def _orphan_message(self, ended: str) -> str:
        what = f"{self.address} was cancelled: its {ended} ended before it did"
        self.run.reporter.tell_once(
            ("left", self.address), f"{what}; read its result, or await it, in that {ended}"
        )
        return what

    def _stop(self, strand: Strand) -> None:
        if self.done:
            return
        if isinstance(strand, Fiber) and strand.lost():
            self._broken_off()
        else:
            strand.throw(Stop())

    def _broken_off(self) -> None:
        """End the wait of all who wait for this: a Ctrl-C may have ended the program anywhere."""
        self.conclude(Error(CallCancelled(f"{self.address} was interrupted")))
        self.deliver()  # once more: the Ctrl-C may have come between the outcome and its delivery

    def blockers(self) -> Iterable[Promise]:
        last = self.last()
        if last is not self:
            return (last,)
        waits = self.strand.waits if self.strand is not None else None
        return (waits,) if waits is not None else ()


def at_home(hub: Hub, action: Callable[[], None]) -> None:
    """Call *action* on the thread of *hub*: at once if that is this one, else by its inbox.

    At once, so that answers that are on their way cannot come before it.
    """
    if hub.thread is threading.current_thread() and hub is hub_here():
        action()
    else:
        run_on(hub, action)


def context_for(frame: Frame) -> Context:
    """A copy of the caller's context in which *frame* is the current one."""
    context = copy_context()
    context.run(FRAME.set, frame)
    return context


class _Workers:
    """Worker threads for plain functions; those that wait in appl do not count."""

    def __init__(self) -> None:
        self._lock = threads.process_lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = 0
        self._may_ask = False

    def in_child(self) -> None:
        """Forget the workers and jobs of the parent in a forked child."""
        self._jobs.clear()
        self._running = 0

    def start(self, job: Callable[[], None]) -> None:
        """Run *job* on a thread, now or when one is free."""
        if not self._may_ask:  # a worker that is inside Python's own ``input`` cannot be stopped
            self._may_ask = True
            from appl.runtime.concurrency.typed_input import replace_input

            replace_input()
        with self._lock:
            self._jobs.append(job)
            self._engage()

    def blocked(self, now: bool) -> None:
        """Note that the calling worker begins to wait, or goes on."""
        # A worker that waits in appl does not count. Otherwise jobs that wait for jobs could take
        # all workers, and nobody would be left to run the jobs that they wait for.
        with self._lock:
            self._running += -1 if now else 1
            self._engage()

    def _engage(self) -> None:
        while self._jobs and self._running < MAX_WORKERS:
            self._running += 1
            job = self._jobs.popleft()
            threads.start(partial(self._work, job), "appl-worker")

    def _work(self, job: Callable[[], None]) -> None:
        while True:
            job()
            with self._lock:
                # There may be more than the limit: those that waited go on without asking.
                if not self._jobs or self._running > MAX_WORKERS:
                    self._running -= 1
                    break
                job = self._jobs.popleft()
        end_hub_here()


_workers = _Workers()
os.register_at_fork(after_in_child=_workers.in_child)
