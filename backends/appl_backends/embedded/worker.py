"""The thread that an engine runs on, and the way to it from any number of asyncio loops.

Invariant: the engine's state belongs to its thread; callers and it exchange tasks and outcomes
only, and each step's outcomes cross to a loop in one call.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appl.base import threads
from appl.errors import BackendError
from appl_backends.embedded.task import AnswerPiece, EngineTask, Failed, Outcome

if TYPE_CHECKING:
    from appl.backend import Response
    from appl_backends.embedded.blas_threads import BlasThreads
    from appl_backends.embedded.engine import BatchEngine


@dataclass(slots=True, eq=False)
class _Caller:
    """The waiting coroutine of a task, and its loop."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Response]
    emit: Callable[[AnswerPiece], None] | None


class EngineThread:
    """The engine's thread: started by the first task, asleep when there is none."""

    def __init__(self, engine: BatchEngine, threads: BlasThreads) -> None:
        self._engine, self._threads = engine, threads
        # The loops add callers and the engine's thread removes them without a lock: each access is
        # one operation on the dictionary, which no other thread can interrupt.
        self._callers: dict[EngineTask, _Caller] = {}
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(
        self, task: EngineTask, emit: Callable[[AnswerPiece], None] | None = None
    ) -> Response:
        """Have *task* done; cancelling this aborts it before the engine's next step.

        *emit* gets the pieces of a streamed task, on the loop.
        """
        loop = asyncio.get_running_loop()
        caller = _Caller(loop, loop.create_future(), emit)
        self._submit(task, caller)
        try:
            return await caller.future
        finally:
            # The engine's thread removes the caller when it delivers the final outcome. If it is
            # still here, this coroutine was cancelled first, and the task must not go on unheard.
            if self._callers.pop(task, None) is not None:
                self._engine.abort(task)
                self._notify()

    def abort(self, task: EngineTask) -> None:
        """Have ``run`` of *task* return what is there before the engine's next step."""
        self._engine.abort(task)
        self._notify()

    def stop(self) -> None:
        """End the thread and fail what is open; later tasks are refused."""
        self.end()
        # The lock is free again: the thread needs it to wake up; it fails the open tasks and ends.
        if self._thread is not None:
            self._thread.join()

    def end(self) -> None:
        """Have the thread end, without waiting for that."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _submit(self, task: EngineTask, caller: _Caller) -> None:
        # ``_sleep`` looks for work under the same lock. Without it, the thread could find nothing,
        # miss the notification that follows, and sleep with a task in its inbox. The caller comes
        # before the task, as an outcome without a caller is dropped.
        with self._wake:
            if self._closed:
                raise BackendError("the embedded backend is closed")
            self._callers[task] = caller
            self._engine.submit(task)
            # In a process made by fork, the thread object exists, but its thread does not run.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threads.start(self._work, "appl-embedded")
            self._wake.notify()

    def _notify(self) -> None:
        with self._wake:
            self._wake.notify()

    def _work(self) -> None:
        while self._sleep():
            # The lock is free during a step: loops submit and abort through the engine's inbox,
            # which the next step empties first.
            try:
                with self._threads:
                    outcomes = self._engine.step()
            except Exception as error:
                # A task that ended in this step is the engine's no more, and may not be answered.
                asked, why = list(self._callers), f"the engine failed: {error!r}"
                outcomes = self._engine.fail(why)
                outcomes += [Failed(task, BackendError(why)) for task in asked]
            if outcomes:
                self._deliver(outcomes)
        self._deliver(self._engine.fail("the embedded backend was closed"))

    def _sleep(self) -> bool:
        """Wait for work; false when the worker is to end."""
        with self._wake:
            while self._engine.idle and not self._closed:
                self._wake.wait()
            return not self._closed

    def _deliver(self, outcomes: list[Outcome]) -> None:
        """Hand *outcomes* to their callers, in one call for each loop.

        A call from another thread wakes the loop, which costs more than the outcomes themselves.
        """
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Caller, Outcome]]] = defaultdict(list)
        for outcome in outcomes:
            caller = self._callers.get(outcome.task)
            if caller is not None:
                by_loop[caller.loop].append((caller, outcome))
            if not isinstance(outcome, AnswerPiece):
                self._callers.pop(outcome.task, None)
        for loop, mine in by_loop.items():
            try:
                loop.call_soon_threadsafe(_settle, mine)
            except RuntimeError:  # the loop was closed: nobody waits any more
                for _, outcome in mine:
                    self._engine.abort(outcome.task)


def _settle(outcomes: list[tuple[_Caller, Outcome]]) -> None:
    """On the loop: pass on text and set results, unless the caller has gone."""
    for caller, outcome in outcomes:
        # The caller may have been cancelled after the step and before the loop ran this.
        if caller.future.done():
            continue
        if isinstance(outcome, AnswerPiece):
            if caller.emit is not None:
                caller.emit(outcome)
        elif isinstance(outcome, Failed):
            caller.future.set_exception(outcome.error)
        else:
            caller.future.set_result(outcome.response)
