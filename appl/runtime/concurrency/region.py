"""Regions: the calls that are started in the body of a ``try``, foreign ``with`` or time limit.

Invariant: of several failures the one that is earliest in program order is raised. Who leaves by an
exception waits for nothing: what was started inside and is held by nobody else is cancelled, and
the prompts are then as they were when the first of it was issued.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from appl.base.threads import process_lock
from appl.prompt import Lazy, Prompt, PromptNode
from appl.runtime.answers.stream import begun, has_begun
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.fiber import arrive, wait
from appl.runtime.concurrency.loop_thread import task_here
from appl.runtime.concurrency.promise import Error, Promise, Stop, Value
from appl.runtime.concurrency.task import Task
from appl.runtime.frame import FRAME, Frame, owed

_PRUNE = 256
_ENTERING = process_lock()  # several threads may enter blocks of one frame, that of the run
_ENDING = (Stop, KeyboardInterrupt, SystemExit)
"""The errors that end a program: all that it started is cancelled."""


class Block:
    """The calls that were started in a block, each with the prompts as they were then.

    ``due`` are those that the running statement started, in program order; ``around`` are those
    that the frame had started before, where the block keeps its own ones apart.
    """

    __slots__ = ("_frame", "_marks", "_prune_at", "_task", "_thread", "around", "due")

    def __init__(self, frame: Frame | None) -> None:
        self._frame = frame
        self._marks: dict[Promise, list[tuple[Prompt, PromptNode | None]]] = {}
        self._prune_at = _PRUNE
        self._thread = threading.get_ident()
        self._task: asyncio.Task[object] | None = None
        self.due: dict[Promise, None] = {}
        self.around: list[Promise] = []

    def note(self, pending: Promise, issuer: Frame) -> None:
        """Note that *pending* was issued inside, by *issuer*."""
        assert self._frame is not None
        self._marks[pending] = list(_marks(self._frame, issuer))
        if len(self._marks) > self._prune_at:
            for done in [p for p in self._marks if isinstance(p.outcome, Value) and not p.children]:
                del self._marks[done]
            self._prune_at = 2 * len(self._marks) + _PRUNE

    def forget(self, pending: Promise) -> None:
        """Forget *pending*, and what it left in a prompt."""
        self._marks.pop(pending, None)
        self.due.pop(pending, None)

    def belongs_to(self, frame: Frame) -> bool:
        """True if this is a block of *frame* itself."""
        return self._frame is frame

    def _open(self, task: asyncio.Task[object] | None = None) -> None:
        self._task = task
        if self._frame is not None:
            # A new tuple each time: a thread that goes through the old one is not disturbed.
            with _ENTERING:
                self._frame.regions = (*self._frame.regions, self)

    def _shut(self) -> None:
        if self._frame is not None:
            with _ENTERING:
                regions = tuple(region for region in self._frame.regions if region is not self)
                self._frame.regions = regions

    def _exit_with(self, error: BaseException) -> None:
        """End the block by *error*: nothing that was started in it is waited for any more."""
        assert self._frame is not None
        every = list(self._marks)
        ends = isinstance(error, _ENDING)
        late = [call for call in every if call not in self.due]
        lost = every
        if not ends:
            from appl.runtime.concurrency.unread_calls import unheld  # few blocks fail

            lost = unheld(self._frame.address, late, error)
        lost = [*self.due, *lost]
        self._take_back([*lost, *self._failed(error)], error)
        # After the prompts are as before: a cancelled program may run at once, and see them.
        structure.cancel_all(lost)
        for pending in every:
            structure.excuse(pending)

    def _failed(self, error: BaseException) -> list[Promise]:
        """The calls that failed with *error*."""
        return [
            call
            for call in self._marks
            if any(
                isinstance(f.outcome, Error) and f.outcome.error is error for f in _failures(call)
            )
        ]

    def _take_back(self, lost: list[Promise], error: BaseException) -> None:
        """Put the prompts back to where they were before the first of *lost* was issued.

        For a call that overlaps with later statements, and has not failed with *error*, only what
        was said from its own place on is taken back.
        """
        assert self._frame is not None
        gone, failed = set(lost), set(self._failed(error))
        for call in reversed([pending for pending in self._marks if pending in gone]):
            late = call.overlaps and call not in failed
            for prompt, tip in self._marks[call]:
                prompt.tip = _before(call, prompt.tip, tip) if late else tip
            for region in self._frame.regions:
                region.forget(call)


class Limit(Block):
    """The block of a time limit; a program that leaves it in time leaves its calls running."""

    __slots__ = ()

    def note(self, pending: Promise, issuer: Frame) -> None:
        """Note *pending* if it was issued inside, not by another thread or task of the frame."""
        if threading.get_ident() == self._thread and task_here() is self._task:
            super().note(pending, issuer)

    def enter(self) -> None:
        """Begin the block here, in this thread and task."""
        self._open(task_here())

    def leave(self, error: BaseException | None) -> None:
        """End the block."""
        self._shut()
        if error is not None and self._frame is not None:
            self._exit_with(error)


class Region(Block):
    """The body of one ``try`` or ``with``; the same object serves plain and async code.

    If it *catches*, each statement has the answers of its calls before the next one begins.
    """

    __slots__ = ("_catches", "_started")

    def __init__(self, catches: bool) -> None:
        super().__init__(FRAME.get())
        frame = self._frame
        inner = frame.regions[-1] if frame is not None and frame.regions else None
        if frame is not None and isinstance(inner, Region) and inner.belongs_to(frame):
            catches = catches or inner.catches  # as the block around does
        self._catches = catches
        self._started: list[Promise] = []

    @property
    def catches(self) -> bool:
        """True if an exception may leave it to a handler in the same activation."""
        return self._catches

    def note(self, pending: Promise, issuer: Frame) -> None:
        super().note(pending, issuer)
        is_mine = self._task is None or self._task is task_here()
        if self._catches and is_mine and not _beside(pending):
            self.due[pending] = None

    # -- the end of a statement

    def settle(self) -> None:
        """Wait for the calls of the running statement; raises the first failure."""
        # Looked at anew after each wait: meanwhile others may have been cancelled and forgotten.
        while self.due:
            pending = next(iter(self.due))
            if pending.overlaps:
                begun(pending)
            else:
                for promise in structure.unfolded([pending]):
                    wait(promise)
            self._answered(pending)

    async def asettle(self) -> None:
        """:meth:`settle` in a coroutine."""
        while self.due:
            pending = next(iter(self.due))
            if pending.overlaps:
                await has_begun(pending)
            else:
                for promise in structure.unfolded([pending]):
                    await arrive(promise)
            self._answered(pending)

    def _answered(self, pending: Promise) -> None:
        failed = next((failure for failure in _failures(pending) if failure.unseen()), None)
        if failed is not None and not pending.overlaps:
            raise failed.seen()
        del self.due[pending]
        if not pending.overlaps:
            assert self._frame is not None
            for region in self._frame.regions:
                region.forget(pending)

    # -- the end of the body

    def __enter__(self) -> None:
        self._enter(None)

    async def __aenter__(self) -> None:
        self._enter(task_here())

    def _enter(self, task: asyncio.Task[object] | None) -> None:
        self._open(task)
        frame = self._frame
        if frame is not None:
            self.around, frame.started = frame.started, self._started

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._frame is None:
            return
        try:
            structure.join(self._awaited(error))
        finally:
            self._close()
        self._over(error)

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._frame is None:
            return
        try:
            await structure.ajoin(self._awaited(error))
        finally:
            self._close()
        self._over(error)

    def _close(self) -> None:
        assert self._frame is not None
        self._frame.started = self.around
        self._shut()
        self._frame.started.extend(owed(self._started))
        self._frame.prune()

    def _awaited(self, error: BaseException | None) -> list[Promise]:
        """The calls to wait for at the end: all, or after a failed call those before it."""
        if error is None:
            return list(self._marks)
        due, failed = list(self.due), set(self._failed(error))
        return due[: next((place for place, call in enumerate(due) if call in failed), 0)]

    def _over(self, error: BaseException | None) -> None:
        """Raise the earliest failure, now that all have ended; *error* is on its way, if any."""
        if error is not None:
            before = (f for call in self._awaited(error) for f in _failures(call) if f.unseen())
            first = next(before, None)
            assert self._frame is not None
            for call in self._awaited(error):
                if not any(_failures(call)):  # it ended well: it stays, with what it said
                    for region in (self, *self._frame.regions):
                        region.forget(call)
            self._exit_with(error if first is None else first.seen())
            if first is not None:
                raise first.seen()
            return
        failures = (failure for pending in self._marks for failure in _failures(pending))
        first = next((failure for failure in failures if failure.unseen()), None)
        if first is not None:
            assert isinstance(first.outcome, Error)
            failed = first.outcome.error
            self._take_back(self._failed(failed), failed)
        for pending in self._marks:
            structure.excuse(pending)
        if first is not None:
            raise first.seen()


def _marks(frame: Frame, issuer: Frame) -> Iterator[tuple[Prompt, PromptNode | None]]:
    """The prompt of *frame*, and the lasting prompts of the activations from there to *issuer*."""
    yield frame.prompt, frame.prompt.tip
    inner: Frame | None = issuer
    while inner is not None and inner is not frame:
        if inner.shares and inner.prompt is not frame.prompt:
            yield inner.prompt, inner.prompt.tip
        inner = inner.parent


def _before(
    pending: Promise, tip: PromptNode | None, first: PromptNode | None
) -> PromptNode | None:
    """The end of the prompt *tip* before *pending* was said, which was after *first*."""
    for node in tip.since(first) if tip is not None else ():
        part = node.part
        if part is pending or (isinstance(part, Lazy) and part.prompt_source() is pending):
            return node.parent
    return tip


def _beside(pending: Promise) -> bool:
    """True if the program asked explicitly that this overlaps with the statements that follow."""
    return pending.overlaps and isinstance(pending, Task)


def _failures(pending: Promise) -> Iterator[Promise]:
    """The failures in *pending* in program order: its children come before its own end."""
    for child in pending.children or ():
        yield from _failures(child)
    if isinstance(pending.outcome, Error):
        yield pending
