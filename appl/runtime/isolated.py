"""The variable by which processes that an isolated run starts know that they may ask nobody.

Invariant: it is set as long as such a run is open, or a program runs that is to have one, and put
back after the last one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from appl.base.threads import process_lock

ISOLATED = "APPL_ISOLATED"
"""Set in the environment of processes that such a run's program starts: who answers it."""

RECORD = "a record"
"""The answerer of replays, tapes and predictions."""

_lock = process_lock()
_open = 0
_before: str | None = None


def begin(answerer: str) -> None:
    """Begin an isolated run, or its program, whose calls only *answerer* answers."""
    global _open, _before
    with _lock:
        if not _open:
            _before = os.environ.get(ISOLATED)
            os.environ[ISOLATED] = answerer
        _open += 1


def end() -> None:
    """An isolated run has ended."""
    global _open
    with _lock:
        _open = max(_open - 1, 0)  # a forked child has none open
        if _open:
            return
        if _before is None:
            os.environ.pop(ISOLATED, None)
        else:
            os.environ[ISOLATED] = _before


@contextmanager
def program(answerer: str) -> Iterator[None]:
    """A block in which a program runs that is answered by *answerer*, unless it is empty.

    The run of a script is opened at its first call, and its processes may ask before that.
    """
    if not answerer:
        yield
        return
    begin(answerer)
    try:
        yield
    finally:
        end()


def inherited() -> str | None:
    """The answerer of the program that has started this process, if that is isolated."""
    with _lock:
        return _before if _open else os.environ.get(ISOLATED)


def _forget() -> None:
    """In a forked child, the parent's runs are not open."""
    global _open
    _open = 0


os.register_at_fork(after_in_child=_forget)
