"""Runs that outlive their block, because their caller still reads a streamed answer.

Invariant: each is closed when that answer has ended, at the latest when the process exits, which
cancels the answer.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from appl.base import threads
from appl.base.collecting import stack_of
from appl.base.threads import process_lock
from appl.base.tracebacks import is_library
from appl.errors import RunClosed
from appl.runtime.concurrency.loop_thread import io_thread

if TYPE_CHECKING:
    from appl.session.session import Session

_open_lock = process_lock()
_open: dict[int, Session] = {}
_closing: list[threading.Thread] = []
_registered = False
_LONGEST_S = 5.0


def at_exit(action: Callable[[], None]) -> None:
    """Call *action* when the main thread has ended, while threads can still be used."""
    # Callbacks registered with threading run in reverse order. Importing this module registers the
    # end of its executors; importing it first makes that end come after ours, so that the I/O loop
    # may still use executors while runs close.
    load_pools()
    if threads.REFUSES:
        threads.reserve()
        threads.start(
            io_thread().start_helpers, "appl-helper"
        ).join()  # whose threads are daemons too
    register = getattr(threading, "_register_atexit", atexit.register)
    try:
        register(action)
    except RuntimeError:  # the main thread is done already, and Python waits for the others
        atexit.register(action)


def load_pools() -> None:
    """Import what makes thread pools. Raises ``RunClosed`` if it is too late to begin a run."""
    main = threading.main_thread()
    exits = threading.current_thread() is main and not main.is_alive()  # in a function of atexit
    with contextlib.suppress(RuntimeError):  # when the main thread has ended
        import concurrent.futures.thread  # `import appl` must not cost it  # noqa: F401
    if exits or "concurrent.futures.thread" not in sys.modules:
        raise RunClosed(
            "the first call comes after the main thread has ended, when no run can begin any more\n"
            "  have the main thread wait for the thread that asks, as in thread.join(); a function "
            "of atexit can ask nothing"
        )


def users_threads() -> list[threading.Thread]:
    """The threads that the user's code started, and that Python waits for before it exits."""
    return [thread for thread in threading.enumerate() if _is_users(thread)]


def _is_users(thread: threading.Thread) -> bool:
    if thread.daemon or thread in (threading.main_thread(), threading.current_thread()):
        return False
    work: Any = getattr(thread, "_target", None) or getattr(thread, "function", None)
    while isinstance(work, functools.partial):
        work = work.func
    code = getattr(inspect.unwrap(work or type(thread).run), "__code__", None)
    if code is None or is_library(code.co_filename):
        return False
    for frame in stack_of(thread.ident):
        if frame.f_code is threading.Thread.join.__code__:
            return frame.f_locals.get("self") is not threading.main_thread()
    return True


def close_when_over(session: Session) -> None:
    """Close *session* when its run is over."""
    global _registered
    with _open_lock:
        _open[id(session)] = session
        if not _registered:
            _registered = True
            at_exit(_end_all)

    def over() -> None:
        # The run ends on the I/O loop, for which closing a session waits: on the loop itself it
        # would wait for ever.
        closing = threads.start(lambda: _close(session), "appl-closing")
        _closing[:] = [*(earlier for earlier in _closing if earlier.is_alive()), closing]

    # The callback is set before the check: if the run ends in between, it is closed twice, and
    # _close lets only the first one through.
    session.run.on_over = over
    if session.run.over:
        _close(session)


def _close(session: Session) -> None:
    with _open_lock:
        mine = _open.pop(id(session), None)
    if mine is not None:
        mine.close()


def _end_all() -> None:
    """Close every session that is still open: at exit nobody reads any more."""
    for session in list(_open.values()):
        # This cancels the answer and ends the run, so over() may start a thread that closes the
        # session, too; _close lets only one of them through, and the loop below waits for the
        # other.
        session.run.abandon(_LONGEST_S)
        _close(session)
    for thread in _closing:  # the process stays until every trace is closed
        thread.join()
