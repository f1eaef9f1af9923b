"""Runs that are not over when their block ends: an answer is still streamed to who got its stream.

Invariant: each is closed when that answer has ended, at the latest when the process exits, which
cancels it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appl.session.opening import Session

_lock = threading.Lock()
_open: dict[int, Session] = {}
_registered = False
_LONGEST_S = 5.0


def at_exit(action: Callable[[], None]) -> None:
    """Have *action* called when the main thread is done, while threads can still be used."""
    register = getattr(threading, "_register_atexit", atexit.register)
    register(action)


def linger(session: Session) -> None:
    """Close *session* when its run is over."""
    global _registered
    with _lock:
        _open[id(session)] = session
        if not _registered:
            _registered = True
            at_exit(_end_all)

    def over() -> None:
        closing = threading.Thread(target=_close, args=(session,), name="appl-closing")
        closing.daemon = False  # the process stays until the trace is closed
        closing.start()

    session.run.on_over = over
    if session.run.over:
        _close(session)


def _close(session: Session) -> None:
    with _lock:
        mine = _open.pop(id(session), None)
    if mine is not None:
        mine.close()


def _end_all() -> None:
    """At exit nobody reads any more."""
    for session in list(_open.values()):
        session.run.abandon(_LONGEST_S)
        _close(session)
