"""The state of the programs of a run: the calls that they wait for, and the user's lines.

Invariant: it looks from the I/O thread and changes nothing; what moves meanwhile is seen as it was
shortly before or after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextvars import Context
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, cast

from appl.base.collecting import stack_of, with_callers
from appl.runtime.concurrency.fiber import Fiber, Hub, Strand, hubs
from appl.runtime.concurrency.promise import Promise
from appl.runtime.concurrency.task import Task
from appl.runtime.frame import FRAME, Frame

if TYPE_CHECKING:
    from appl.runtime.run import Run

_SKIPPED = ("appl", "asyncio", "contextlib", "threading")
Place = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Program:
    """Code of the user's that waits, or runs while others wait.

    ``address`` is that of the innermost function with one, empty for the outermost program.
    ``name`` is that of the thread or asyncio task; ``place`` are file, line and function.
    """

    address: str
    kind: Literal["thread", "fiber", "task"]
    name: str
    waits_for: Promise | None
    place: Place | None


def programs_of(run: Run) -> list[Program]:
    """The present state of each program of *run*."""
    programs: list[Program] = []
    frames, every = _frames(run), hubs()
    threads = {run.tree.root.thread, *(frame.thread for frame in frames)}
    loops = {task.get_loop() for task in (run.tree.task,) if task is not None}
    asynchronous = any(hub.loop is not None for hub in every)
    tasks = {id(task): task for task in tasks_of(run)} if asynchronous else {}
    awaited = _awaited(run, frames, tasks.values()) if asynchronous else {}
    for hub in every:
        waiting = [strand for strand in hub.waiting() if _frame_of(strand, run) is not None]
        programs += [_program(hub, strand, run) for strand in waiting]
        if hub.loop is not None:
            programs += _in_loop(hub.loop, tasks, hub.loop in loops, awaited)
        elif not hub.asleep and hub.thread.ident in threads:
            place = _place(stack_of(hub.thread.ident))
            programs.append(Program("", "thread", hub.thread.name, None, place))
    return programs


def tasks_of(run: Run) -> Iterator[Task]:
    """The functions that were started in *run* and have not ended, each once."""
    visited: set[int] = set()
    todo: list[Promise] = [call for frame in _frames(run) for call in tuple(frame.started)]
    loops = [hub.loop for hub in hubs() if hub.loop is not None]
    todo += [own for loop in loops for aio in _all_tasks(loop) if (own := _own(aio)) is not None]
    while todo:
        pending = todo.pop()
        if id(pending) in visited:
            continue
        visited.add(id(pending))
        todo += pending.children or ()
        if isinstance(pending, Task) and pending.run is run:
            todo += tuple(pending.frame.started)
            if not pending.done:
                yield pending


def _frames(run: Run) -> list[Frame]:
    """The known activations: of the run, of scopes, and of all programs that wait."""
    frames_by_id = {
        id(frame): frame for frame in (run.tree.root, *run.tree.scopes, *tuple(run.tree.suspended))
    }
    for hub in hubs():
        for strand in hub.waiting():
            frame = _frame_of(strand, run)
            while frame is not None and id(frame) not in frames_by_id:
                frames_by_id[id(frame)] = frame
                frame = frame.parent
    return list(frames_by_id.values())


def _frame_of(strand: Strand, run: Run) -> Frame | None:
    """The activation in which *strand* waits, if it belongs to *run*."""
    try:
        context: Context | None = strand.greenlet.gr_context
    except ValueError:  # it has just gone on
        return None
    frame = context.get(FRAME) if context is not None else None
    if frame is None and getattr(strand.waits, "run", None) == run:
        return run.tree.root
    if frame is None or frame.run is not run:
        return None
    return frame


def _program(hub: Hub, strand: Strand, run: Run) -> Program:
    frame = _frame_of(strand, run)
    kind: Literal["fiber", "thread"] = "fiber" if isinstance(strand, Fiber) else "thread"
    place = _place(with_callers([strand.greenlet.gr_frame]))
    return Program(frame.address if frame else "", kind, hub.thread.name, strand.waits, place)


def _place(stack: list[FrameType]) -> Place | None:
    """The innermost place in the user's own code."""
    for frame in stack:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _SKIPPED:
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    return None


# -- asyncio tasks


def _awaited(run: Run, frames: list[Frame], tasks: Iterable[Task]) -> dict[int, Promise]:
    """The calls that asyncio tasks wait for, by the id of the future that each task awaits."""
    held = (holding.call for holding in run.holdings())
    calls: list[Promise] = [call for call in held if isinstance(call, Promise)]
    calls += [call for frame in frames for call in tuple(frame.started)]
    calls += tasks
    return {
        id(waiter._future): pending
        for pending in calls
        for waiter in tuple(pending.waiters or ())
        if hasattr(waiter, "_future")
    }


def _in_loop(
    loop: asyncio.AbstractEventLoop,
    tasks: dict[int, Task],
    home: bool,
    awaited: dict[int, Promise],
) -> Iterator[Program]:
    for aio in _all_tasks(loop):
        own = _own(aio)
        pending = awaited.get(id(getattr(aio, "_fut_waiter", None)))
        if (own is not None and id(own) in tasks) or (pending is not None and home):
            place, coro = None, cast(Any, aio.get_coro())
            while coro is not None:  # to the innermost line of the user's in what it awaits
                frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
                if frame is None:
                    break
                place = _place([frame]) or place
                coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
            address = own.address if own is not None else ""
            yield Program(address, "task", aio.get_name(), pending, place)


def _all_tasks(loop: asyncio.AbstractEventLoop) -> Iterable[asyncio.Task[object]]:
    try:
        return asyncio.all_tasks(loop)
    except RuntimeError:  # they come and go faster than they can be counted
        return ()


def _own(aio: asyncio.Task[object]) -> Task | None:
    """The function of a program that runs as *aio*."""
    for callback, *_ in getattr(aio, "_callbacks", None) or ():
        owner = getattr(callback, "__self__", None)
        if isinstance(owner, Task):
            return owner
    return None
