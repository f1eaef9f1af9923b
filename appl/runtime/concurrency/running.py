"""A program that runs when it is awaited in a loop, or when a notebook shows it.

Invariant: it runs once, by whichever of the two comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from appl.prompt.notebook import block

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
