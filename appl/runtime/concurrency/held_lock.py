"""Waits for an answer under a lock that the I/O thread needs: the answer could never come.

The I/O thread runs callbacks of clients, and handlers of ``logging``, which may take locks of the
user's. A program that holds such a lock while it waits for an answer would wait for ever.

Invariant: it only looks, and only from a thread that has slept for ``LOOK_S`` seconds of fibers
already.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from appl.base.collecting import stack_of
from appl.errors import DeadlockError
from appl.runtime.concurrency.blocking_lines import lock_at
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.watchdog import is_users

if TYPE_CHECKING:
    from appl.runtime.concurrency.fiber import Strand


class NeededLock(NamedTuple):
    """A lock that the I/O thread waits for: itself, its name, and the line that takes it."""

    lock: Any
    name: str
    where: str
    instruction: int

    def same(self, other: NeededLock | None) -> bool:
        """True if the I/O thread stood there, too, when *other* was found."""
        return other is not None and self[0] is other[0] and self[2:] == other[2:]


def raise_in_holders(strands: list[Strand], before: NeededLock | None) -> NeededLock | None:
    """Raise an error in those *strands* of this thread that hold a lock the I/O thread waits for.

    Nothing is raised unless it has waited for the lock *before* since the last look. Returns the
    lock that it waits for just now, if it does.
    """
    needed = None
    for frame in stack_of(io_thread().thread)[:4]:
        name, lock = lock_at(frame)
        if lock is not None and getattr(lock, "locked", lambda: True)():
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            needed = NeededLock(lock, name, where, frame.f_lasti)
            break
    if needed is None or not needed.same(before):
        return needed
    owner = _owner(needed.lock)
    if owner is not None and owner != str(threading.get_ident()):
        return needed
    for strand in strands:
        stack: list[FrameType] = []
        suspended, waits = strand.greenlet.gr_frame, strand.waits
        while suspended is not None:
            stack.append(suspended)
            suspended = suspended.f_back
        values = (value for frame in stack for value in _lock_candidates(frame))
        if waits is None or all(value is not needed.lock for value in values):
            continue
        user = next(filter(is_users, stack), None)
        at = f" at {user.f_code.co_filename}:{user.f_lineno}" if user is not None else ""
        error = DeadlockError(
            f"the program waits{at} for {waits.address} while it holds the lock `{needed.name}`, "
            "for which the thread that receives all answers waits at "
            f"{needed.where}: no answer could come. Read the answer before the lock is taken, as "
            "with `text = str(answer)`"
        )
        strand.wake(waits, error)
    return needed


def _owner(lock: Any) -> str | None:
    """The ident of the thread that holds *lock*, where that can be known."""
    text = repr(lock)  # of an RLock: "<locked _thread.RLock object owner=4711 count=1 at …>"
    _, has_owner, rest = text.partition("owner=")
    return rest.partition(" ")[0] if has_owner else None


def _lock_candidates(frame: FrameType) -> Iterator[object]:
    """The objects that the code of *frame* may take as a lock."""
    variables = frame.f_locals
    yield from variables.values()
    names = frame.f_code.co_names
    for value in (*variables.values(), *(frame.f_globals.get(name) for name in names)):
        yield value
        attributes = getattr(value, "__dict__", None) or {}
        yield from (attributes[name] for name in names if name in attributes)
        if isinstance(attributes.get("lock"), _RLOCK):  # of a handler of logging
            yield attributes["lock"]


_RLOCK = type(threading.RLock())
