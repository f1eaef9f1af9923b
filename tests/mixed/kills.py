"""Programs whose process is killed while it runs them.

The process that forks them runs none itself: it has one thread.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

from appl.testing import Event

from .program import Mixed
from .world import backend, compiled, recorded

_MOST = 50


class Fatal:
    """Kills its process at event number *number*."""

    def __init__(self, number: int) -> None:
        self._left = number

    def on_event(self, event: Event) -> None:
        """Count *event*."""
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def killed(folder: Path, seeds: list[int]) -> list[int]:
    """Record these programs, each in a process that is killed; the seeds of those that were."""
    return [seed for seed in seeds if _killed(folder / f"{seed}.trace", Mixed(seed))]


def _killed(path: Path, program: Mixed) -> bool:
    child = os.fork()
    if not child:
        fatal = Fatal(random.Random(program.seed).randint(2, _MOST))
        recorded(compiled(program), backend(program), path, watching=[fatal])
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
