"""Measurements of whether a thread, or the whole process, works or waits, from another thread.

Invariant: only looks; where the system does not tell, a thread counts as not at work.
"""

from __future__ import annotations

import contextlib
import threading
import time
from _thread import LockType
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FrameType

from appl.base.collecting import stack_of

OWN = frozenset(
    f"appl-{name}" for name in "io trace worker embedded line export closing signals".split()
)
"""Threads of appl that run no code of the user's, and wake none that waits outside of appl."""
_SOME_S = 0.005
_SHARE = 0.1  # of a processor: less than that is what loops and timers need while nobody works
_LONGEST_S = 10.0
_AT_WORK = ("R", "D")


class Effort:
    """The work that threads have done since the last look at them.

    A thread is at work when it has used the processor for more than some milliseconds (where the
    system has a clock for each thread), or when it could run now, or waits for a disk (on Linux).
    """

    def __init__(self) -> None:
        self._spent: dict[int | None, float] = {}

    def note(self, thread: threading.Thread) -> None:
        """Look at *thread* for the first time: only what it does from now on counts."""
        self._spent[thread.ident] = _processor_s(thread)

    def goes_on(self, thread: threading.Thread) -> bool:
        """True if *thread* has been at work since the last look at it, or is now."""
        spent = _processor_s(thread)
        before = self._spent.get(thread.ident, spent)
        self._spent[thread.ident] = spent
        return spent - before > _SOME_S or _state_of(str(thread.native_id)) in _AT_WORK


class Idleness:
    """The time for which the process has neither moved nor worked, as far as looks at it tell.

    Any thread of the process that works is waited for, but not for more than ten seconds: it may
    be a loop that waits for another thread.
    """

    def __init__(self) -> None:
        self._begun: float | None = None
        self._since = self._looked = self._spent = 0.0

    def ends(self) -> None:
        """Something has moved."""
        self._begun = None

    def seconds(self) -> float:
        """The seconds that it lasts by now. It is to be asked many times a second."""
        now, spent = time.monotonic(), time.process_time()
        if self._begun is None:
            self._begun = self._since = now
        elif now - self._begun < _LONGEST_S:
            # this process has used its processor, or another thread could run, or waits for a disk
            some = max(_SOME_S, _SHARE * (now - self._looked))
            mine = str(threading.get_native_id())
            others = (task.name for task in _tasks() if task.name != mine)
            if spent - self._spent > some or any(_state_of(name) in _AT_WORK for name in others):
                self._since = now
        self._looked, self._spent = now, spent
        return now - self._since


class Waits:
    """The waits in which the threads of the process were when they were noted.

    A thread that is still in the same wait has not run since, and nobody has woken it: Linux counts
    each wait that begins. Elsewhere no thread is known to wait.
    """

    def __init__(self) -> None:
        self._noted: dict[int, str] = {}

    @property
    def noted(self) -> bool:
        """True if some are noted."""
        return bool(self._noted)

    def note(self) -> None:
        """Note the waits of now."""
        self._noted = dict(_waits())

    def last(self, but: Collection[int | None]) -> bool:
        """True if all threads are in the noted waits; those of the native ids *but* may not be."""
        return self.noted and all(
            wait and self._noted.get(task) == wait for task, wait in _waits() if task not in but
        )


def waits_for_work(thread: threading.Thread) -> bool:
    """True if *thread* is one of a ``ThreadPoolExecutor`` that stands at its queue, without work.

    In this order: work that came before the look at the queue is still there, or is done now.
    """
    frame = _innermost(thread, "concurrent.futures.thread", "_worker")
    queue = frame.f_locals.get("work_queue") if frame is not None else None
    empty = queue is not None and queue.empty()
    return empty and _innermost(thread, "concurrent.futures.thread", "_worker") is frame


def waits_for_another(thread: threading.Thread) -> bool:
    """True if *thread* waits without a limit for a future, event, queue or thread.

    Only another thread can move it then. In this order: one that was moved before the last look has
    left its wait, or waits anew.
    """
    frame = _frame_of(thread)
    waits = _WAITS.get(frame.f_code.co_name) if frame is not None else None
    if frame is None or waits is None or frame.f_globals.get("__name__") != "threading":
        return False
    return waits(frame.f_locals) and _frame_of(thread) is frame


def _unnoticed(values: dict[str, object]) -> bool:
    """True in ``Condition.wait``: whoever notifies it releases the lock at which it stands."""
    waiter, unlimited = values.get("waiter"), values.get("timeout") is None
    return unlimited and isinstance(waiter, LockType) and waiter.locked()


def _joins(values: dict[str, object]) -> bool:
    """True where a thread is joined that runs: one that ends leaves the list before its lock."""
    unlimited = values.get("timeout") in (None, -1) and values.get("block", True)
    return bool(unlimited) and values.get("self") in threading.enumerate()


_WAITS = {"wait": _unnoticed, "_wait_for_tstate_lock": _joins, "join": _joins}
"""The functions of ``threading`` in which a thread waits, and whether it does, by their values."""


def polls(thread: threading.Thread) -> bool:
    """True if *thread* waits in a selector, as a loop without anything to run does."""
    return _innermost(thread, "selectors", "select") is not None


def _frame_of(thread: threading.Thread) -> FrameType | None:
    """The frame in which *thread* is."""
    return next(iter(stack_of(thread.ident)), None)


def _innermost(thread: threading.Thread, module: str, function: str) -> FrameType | None:
    """The frame in which *thread* is, if it is of this function."""
    frame = _frame_of(thread)
    if frame is None or frame.f_code.co_name != function:
        return None
    return frame if frame.f_globals.get("__name__") == module else None


def _waits() -> Iterator[tuple[int, str]]:
    """Each thread of the process, and the number of its wait; nothing for one that can run."""
    for task in _tasks():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            status = (task / "status").read_text()
            facts = dict(line.partition(":")[::2] for line in status.splitlines())
            # Voluntary switches count the waits that the thread itself has begun. A switch that
            # the system forced on it does not count: the thread could go on then.
            sleeps = facts.get("State", "").strip().startswith("S")
            yield int(task.name), facts.get("voluntary_ctxt_switches", "").strip() if sleeps else ""


def _tasks() -> Iterator[Path]:
    """The folder in which the system describes each thread of the process; none but on Linux."""
    with contextlib.suppress(OSError):
        yield from Path("/proc/self/task").iterdir()


def _processor_s(thread: threading.Thread) -> float:
    clock = getattr(time, "pthread_getcpuclockid", None)
    if clock is None or thread.ident is None or not thread.is_alive():
        return 0.0
    try:
        return time.clock_gettime(clock(thread.ident))
    except OSError:
        return 0.0


def _state_of(task: str) -> str:
    """The state as ``ps`` shows it: ``R`` runs or could, ``S`` sleeps, ``D`` waits for a disk."""
    try:
        status = Path(f"/proc/self/task/{task}/stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[0]
