"""The tree of scopes of a run: its root frame, and those of tasks, threads and generators.

Invariant: the run answers for everything that was started in one of them. A scope is kept as long
as its thread or task may start something, or something that it started has to be waited for; a run
that serves for ever does not grow with the threads it has seen.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import _get_running_loop
from contextvars import Token
from typing import TYPE_CHECKING
from weakref import ref

from appl.prompt import Prompt, digest_of
from appl.runtime.concurrency.loop_thread import task_here
from appl.runtime.concurrency.promise import Promise
from appl.runtime.frame import FRAME, Frame, FrameRun, ThreadFrame, owed

if TYPE_CHECKING:
    from appl.runtime.concurrency.tasks import ScopedTasks
    from appl.runtime.scheduling.accounts import Account

_PRUNE = 64
Holder = threading.Thread | asyncio.Task[object]


def _needed(frame: Frame, held_by: ref[Holder]) -> bool:
    holder = held_by()
    if holder is None:
        return bool(owed(frame.started))
    alive = holder.is_alive() if isinstance(holder, threading.Thread) else not holder.done()
    return alive or bool(owed(frame.started))


class AbandonedRoot(Frame):
    """The root of a run that was left. It does not hold the run, which holds it."""

    __slots__ = ("_run",)

    @property
    def run(self) -> FrameRun:
        """The run, which whoever comes here holds."""
        run = self._run()
        assert run is not None
        return run

    @run.setter
    def run(self, run: FrameRun) -> None:
        self._run = ref(run)


class ScopeTree:
    """The frames of *run* that nothing else of the run holds.

    ``root`` is the outermost frame and ``task`` the asyncio task that it belongs to, if any;
    ``scopes`` are those of tasks and threads of the user's own, with what each belongs to;
    ``guests`` are those of them that came to the run only as it was the one that was open;
    ``suspended`` those of generators that have begun and not ended.
    """

    def __init__(self, run: FrameRun, account: Account | None) -> None:
        self.root = Frame(run, None, "", Prompt())
        self.root.account = account
        self.task = task_here()
        self.scopes: dict[Frame, ref[Holder]] = {}  # in the order in which they were made
        self.guests: set[Frame] = set()
        self._prune_at = _PRUNE
        self.suspended: dict[Frame, None] = {}
        self._factories: list[ScopedTasks] = []
        self._lock = threading.Lock()
        self._token: Token[Frame | None] | None = None

    def enter(self) -> None:
        """Make the root the frame of the block that begins."""
        self.task = task_here()
        self._token = FRAME.set(self.root)
        self.scope_tasks()

    def leave(self) -> None:
        """Put back what was there before the block."""
        for factory in self._factories:
            factory.restore()
        self._factories.clear()
        if self._token is not None:
            FRAME.reset(self._token)
            self._token = None
        # The new root does not hold the run, which holds this tree. So a run that nobody needs any
        # more is freed at once, and does not wait for the garbage collector. Who is in the old root
        # still holds that, and with it the run.
        old, self.root = self.root, AbandonedRoot(self.root.run, None, "", self.root.prompt)
        self.root.account, self.root.counts = old.account, old.counts
        self.root.started, self.root.thread = old.started, old.thread

    def scope_tasks(self) -> None:
        """Give scopes to the tasks that the running loop makes from now on."""
        loop = _get_running_loop()
        if loop is None:
            return
        from appl.runtime.concurrency.tasks import ScopedTasks  # few programs run in a loop

        if not isinstance(loop.get_task_factory(), ScopedTasks):
            self._factories.append(ScopedTasks(loop))

    def scope(self, run: FrameRun, parent: Frame, content: str, is_guest: bool = False) -> Frame:
        """A scope for a task of the user's own, or for what it calls on a thread of its own.

        Its frame holds *run*, whose tree this is: the root does not, once the run is over.
        """
        kind = Frame if task_here() is not None else ThreadFrame
        with self._lock:
            address = parent.issue(_named_by(content))
            frame = kind(run, parent, address, parent.prompt.copy(), parent.voice)
            # The bound doubles with what is left, so that looking through all of them costs each
            # addition a constant time.
            if len(self.scopes) >= self._prune_at:
                self.scopes = {f: holder for f, holder in self.scopes.items() if _needed(f, holder)}
                self.guests.intersection_update(self.scopes)
                self._prune_at = 2 * len(self.scopes) + _PRUNE
            if is_guest:
                self.guests.add(frame)
            # Weakly: a task that was cancelled holds the error that ended it, and with that all the
            # variables that it had. Calls of which they alone have the generations are to end now.
            self.scopes[frame] = ref(task_here() or threading.current_thread())
        FRAME.set(frame)
        return frame

    def next_scope(self, frame: ThreadFrame, content: str) -> None:
        """The thread of *frame* makes its next outermost call, named by *content*."""
        assert frame.parent is not None
        with self._lock:
            frame.address = frame.parent.issue(_named_by(content))
            frame.counts = {}

    def started(self) -> list[Promise]:
        """The calls that the run has to wait for, in program order."""
        promises = list(self.root.started)
        for frame in (*self.scopes, *self.suspended):
            promises += frame.started
        return promises


def _named_by(content: str) -> str:
    return "~" + digest_of(content)[:4].hex()
