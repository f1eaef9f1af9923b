"""Whether a thread is at work, seen from another one.

Invariant: only looks; where the system does not tell, a thread counts as not at work.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

_SOME_S = 0.005
_AT_WORK = ("R", "D")


class Effort:
    """What threads have done since they were last looked at.

    A thread is at work when it has used the processor for more than some milliseconds (where the
    system has a clock for each thread), or when it could run now, or waits for a disk (on Linux).
    """

    def __init__(self) -> None:
        self._spent: dict[int | None, float] = {}

    def goes_on(self, thread: threading.Thread) -> bool:
        """Whether *thread* has been at work since the last look at it, or is now."""
        spent = _processor_s(thread)
        before = self._spent.get(thread.ident, spent)
        self._spent[thread.ident] = spent
        return spent - before > _SOME_S or _state(thread) in _AT_WORK


def _processor_s(thread: threading.Thread) -> float:
    clock = getattr(time, "pthread_getcpuclockid", None)
    if clock is None or thread.ident is None or not thread.is_alive():
        return 0.0
    try:
        return time.clock_gettime(clock(thread.ident))
    except OSError:
        return 0.0


def _state(thread: threading.Thread) -> str:
    """As in the table of processes: ``R`` runs or could, ``S`` sleeps, ``D`` waits for a disk."""
    try:
        status = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[0]
