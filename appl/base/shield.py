"""A shield that delays signal handlers while the main thread does work that must not be broken off.

Invariant: the handlers of all signals that came are called right after, in order of arrival, where
they may raise. The shielded work takes microseconds, and waits for nothing but a disk, or for an
answer of a server that has been fast, for two milliseconds.
"""

from __future__ import annotations

import signal
import threading

# the same functions as in ``signal``, where making enums of their results costs ten times as much
from _signal import (  # type: ignore[import-not-found]
    getsignal,
    signal as set_handler,
)
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType

Handler = Callable[[int, FrameType | None], object]

_NUMBERS = sorted(
    int(number) for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
)


class Shield:
    """``with Shield():`` on the main thread; Python runs no handlers on others."""

    __slots__ = ("_came", "_handlers")

    def __enter__(self) -> None:
        self._came: list[tuple[int, FrameType | None]] = []
        self._handlers = _handlers()
        for number in self._handlers:
            set_handler(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))

    def __exit__(self, *error: object) -> None:
        # All are put back before one is called: a handler may raise, and leave the others shielded.
        for number, handler in self._handlers.items():
            set_handler(number, handler)
        for number, frame in self._came:
            self._handlers[number](number, frame)


def shielded() -> AbstractContextManager[None]:
    """A shield where one is needed: on the main thread, if none is up."""
    if threading.get_ident() != threading.main_thread().ident:
        return nullcontext()
    is_up = isinstance(getattr(getsignal(signal.SIGINT), "__self__", None), Shield)
    return nullcontext() if is_up else Shield()


_cached_handlers: tuple[list[object], dict[int, Handler]] = ([], {})


def _handlers() -> dict[int, Handler]:
    """The handlers that are Python functions; looked through again when one has changed."""
    global _cached_handlers
    current = list(map(getsignal, _NUMBERS))
    if current != _cached_handlers[0]:
        pairs = zip(_NUMBERS, current, strict=True)
        _cached_handlers = (
            current,
            {n: handler for n, handler in pairs if not isinstance(handler, int | None)},
        )
    return _cached_handlers[1]
