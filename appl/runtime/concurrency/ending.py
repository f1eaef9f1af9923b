"""The end of the process, while daemon threads still run programs: they come to rest before it.

Python ends a daemon thread when it wants the interpreter that is being torn down, by unwinding its
C stack. In the frames of a greenlet that needs the interpreter, and crashes the process. A thread
that waits in a lock that nobody opens is left alone.

Invariant: where no daemon thread is inside a greenlet, exiting takes no longer; nowhere does it
wait for more than ``PATIENCE_S``. Who ends the process can use ``appl`` to the last.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Protocol

from appl.base.collecting import stack_of

PATIENCE_S = 1.0
_GENTLE_S = 0.05
_TICK_S = 0.001


class RunningPrograms(Protocol):
    """A hub, as far as the end of the process is concerned."""

    thread: threading.Thread
    stopped: bool
    """True if it was brought to rest."""

    def sleeps(self, frame: FrameType) -> bool:
        """True if its thread, which is at *frame*, waits in a lock until it is woken."""


class Ending:
    """The end of this process, for all of *programs*.

    ``by`` is the thread that ends it, ``None`` before. A program on any other thread calls ``rest``
    where it next waits; one that does not is stopped there by the exception *stop*. *inside* are
    the functions that greenlets begin with, the first one that of a program.
    """

    def __init__(
        self,
        programs: Callable[[], Iterable[RunningPrograms]],
        stop: type[BaseException],
        inside: tuple[CodeType, ...],
    ) -> None:
        self._programs, self._stop, self._inside = programs, stop, inside
        self.by: threading.Thread | None = None
        atexit.register(self._begin)

    def rest(self, programs: RunningPrograms) -> None:
        """Never return."""
        programs.stopped = True
        # A thread that waits in a lock takes no part in the end of the interpreter: it never wants
        # the interpreter back, so nobody unwinds its stack. Nobody opens this lock.
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    # -- on the thread that ends the process

    def _begin(self) -> None:
        self.by = threading.current_thread()  # first: hubs look at it at each turn, and then rest
        if not self._moving():
            return
        begun = time.monotonic()
        stopped: set[int | None] = set()
        while (moving := self._moving()) and time.monotonic() - begun < PATIENCE_S:
            # Most programs come to a wait, and so to rest, by themselves. The others compute, and
            # are stopped by an exception.
            if time.monotonic() - begun > _GENTLE_S:
                self._ask(moving, stopped)
            time.sleep(_TICK_S)
        time.sleep(_TICK_S)  # from what was seen of a thread to its lock it is a step

    def _moving(self) -> dict[int, list[FrameType]]:
        """The stacks of the threads that are inside a greenlet and do not rest, by ident."""
        return {
            program.thread.ident or 0: stack
            for program in self._programs()
            if program.thread is not self.by
            and (stack := stack_of(program.thread.ident))
            and not (program.stopped or program.sleeps(stack[0]))
            and _is_in(stack, self._inside)
        }

    def _ask(self, moving: dict[int, list[FrameType]], stopped: set[int | None]) -> None:
        """Raise ``stop`` in programs that compute, once in each thread."""
        import ctypes

        for ident, stack in moving.items():
            if ident not in stopped and _is_in(stack, self._inside[:1]):
                stopped.add(ident)
                number, error = ctypes.c_ulong(ident), ctypes.py_object(self._stop)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(number, error)


def _is_in(stack: list[FrameType], functions: tuple[CodeType, ...]) -> bool:
    return any(frame.f_code in functions for frame in stack)
