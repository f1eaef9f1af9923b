"""A run inside a run: a scope of the outer one, which ends as a run does.

Invariant: what is started inside goes to the outer run's backend, budgets and record. When the
scope ends, everything that was started in it has ended, and no failure is lost that nobody looked
at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from appl.errors import RunClosed
from appl.prompt import Prompt
from appl.prompt.voice import USER
from appl.runtime.concurrency import orphans, structure
from appl.runtime.concurrency.promise import Promise
from appl.runtime.event import ScopeEntered
from appl.runtime.frame import FRAME, Frame, NestedFrame, frame_in
from appl.runtime.prompts.state import States
from appl.runtime.run import Run

NAME = "run"
"""The name of such a scope in addresses."""
_ROUNDS = 2
"""Waits at the end: tasks and threads may start more while the first is waited for."""


class NestedRun:
    """A part of *run* around the caller, for ``with`` and ``async with``, to be used once.

    It takes its address when it is made: *content*, which gets *about*, names the scope of a thread
    of the user's own. It is the value of its block: ``path`` is that of the outer run's trace.
    """

    def __init__(self, run: Run, content: Callable[..., str], *about: object) -> None:
        caller = frame_in(run, content, *about)
        caller.run.check_open()
        self.run = cast(Run, caller.run)
        address = caller.issue(NAME)
        self._frame = frame = NestedFrame(caller.run, caller, address, Prompt(), USER)
        frame.states = States()
        self._before: Frame | None = None
        self._spared: Promise | None = None
        if (watcher := caller.run.reporter.watcher) is not None:
            at = time.monotonic_ns()
            watcher.on_event(ScopeEntered(address, caller.address, NAME, None, None, at))

    @property
    def path(self) -> Path | None:
        """The path of the outer run's trace; ``None`` before its first call and without one."""
        return self.run.trace_path()

    @property
    def seed(self) -> int | None:
        """The seed of the outer run."""
        return self.run.services.seed

    def spare(self, pending: Promise) -> None:
        """Do not wait for *pending* at the end: its stream was returned, and the caller has it."""
        self._spared = pending

    def __enter__(self) -> NestedRun:
        if self._frame.ended:
            raise RunClosed("a block of appl.record() is used once; write appl.record() again")
        self._before = FRAME.get()
        FRAME.set(self._frame)
        self.run.tree.scope_tasks()
        return self

    async def __aenter__(self) -> NestedRun:
        return self.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        failures: list[Promise | None] = []
        with self._ending(error):
            for _ in range(_ROUNDS):
                awaited = self._started()
                with orphans.watched(awaited):
                    failures.append(structure.join(awaited))
            self._raise(error, failures)

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        failures: list[Promise | None] = []
        with self._ending(error):
            for _ in range(_ROUNDS):
                awaited = self._started()
                with orphans.watched(awaited):
                    failures.append(await structure.ajoin(awaited))
            self._raise(error, failures)

    @contextmanager
    def _ending(self, error: BaseException | None) -> Iterator[None]:
        """A block that waits for what the scope has started; at its end the scope is left."""
        try:
            if error is not None:
                structure.cancel_all(self._started())
            # What a generator left that was collected when this was recorded is cancelled, too.
            world = self.run.outside.world
            for frame in tuple(self.run.tree.suspended):
                if frame.within(self._frame):
                    dropped = [call for call in frame.started if world.dropped(call.address)]
                    structure.cancel_all(dropped)
            yield
        except BaseException:
            structure.cancel_all(self._started())
            raise
        finally:
            self._frame.finish()
            self._frame.states.clear()
            FRAME.set(self._before)
            if self._spared is not None and self._frame.parent is not None:
                self._frame.parent.add(self._spared)

    def _raise(self, error: BaseException | None, failures: list[Promise | None]) -> None:
        failure = next(filter(None, failures), None)
        if error is None and failure is not None:
            raise failure.seen()

    def _started(self) -> list[Promise]:
        """The calls of this scope that have to be waited for, in program order."""
        promises = list(self._frame.started)
        for frame in (*self.run.tree.scopes, *self.run.tree.suspended):
            if frame.within(self._frame):
                promises += frame.started
        return [pending for pending in promises if pending is not self._spared]
