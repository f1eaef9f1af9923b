"""What the cell of a notebook shows of an answer, and of a program that is awaited in a loop.

Invariant: such a program runs once, when it is awaited or when it is shown, whichever comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from appl.prompt.notebook import Bundle, block
from appl.runtime.concurrency.fiber import wait
from appl.runtime.concurrency.promise import Error, Promise

R = TypeVar("R")


class Running(Coroutine[object, object, R]):
    """A coroutine whose value the cell of a notebook shows although nobody awaits it.

    *coroutine* runs the program when it is awaited. *blocking* runs it at once and returns its
    value, while the loop stands still, as it does for every wait of a cell; ``None`` if the program
    itself needs the loop.
    """

    def __init__(
        self, coroutine: Coroutine[object, object, R], blocking: Callable[[], R] | None
    ) -> None:
        self._coroutine, self._blocking = coroutine, blocking
        self.__name__ = self.__qualname__ = str(getattr(coroutine, "__name__", "program"))

    def send(self, value: object) -> object:
        """Go on with the program."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> object:
        """Raise *error* in the program."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the program."""
        self._coroutine.close()

    def __await__(self) -> Generator[object, object, R]:
        return self._coroutine.__await__()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        """The value as a notebook shows it; runs the program."""
        if self._blocking is None:
            return block("…", f"{self.__name__}: await it")
        self._coroutine.close()  # nobody awaits it any more
        shell = sys.modules["IPython"].get_ipython()
        return shell.display_formatter.format(self._blocking())


def shown(pending: Promise) -> Bundle:
    """The answer *pending*; waits, unless only the running loop can end it."""
    last = pending  # waited for to its end; a failure stays one that nobody looked at
    while not last.in_loop:  # a task of the running loop cannot end while this thread waits
        wait(last)
        if last.last() is last:
            break
        last = last.last()
    if last.outcome is None:
        return block("…", f"{pending.address}: pending, await it")
    if isinstance(last.outcome, Error):
        return block(f"{type(last.outcome.error).__name__}: {last.outcome.error}", last.address)
    value = last.outcome.value
    return block(value if isinstance(value, str) else repr(value), pending.address)
