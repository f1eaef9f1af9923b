"""The variable by which processes that an isolated run starts know that they may ask nobody.

Invariant: it is set as long as such a run is open, and put back after the last one.
"""

from __future__ import annotations

import os

from appl.base.threads import process_lock

ISOLATED = "APPL_ISOLATED"
"""Set in the environment of a process in which a record or a test's backend answers."""

_lock = process_lock()
_open = 0
_before: str | None = None


def begin(answerer: str) -> None:
    """Begin an isolated run, whose calls *answerer* answers."""
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
        _open -= 1
        if _open:
            return
        if _before is None:
            os.environ.pop(ISOLATED, None)
        else:
            os.environ[ISOLATED] = _before
