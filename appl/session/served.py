"""The end of a process's own run in a uvicorn server that SIGTERM ends.

Such a server ends its requests, puts back the handler that was there before its own, and kills
itself with the same signal. Nothing of Python runs after that, and the run would seem to have
crashed. Servers that return, or raise ``SystemExit``, need nothing of this.

Invariant: the handler of the server is called as before, and the process still dies of the signal,
but only when its run is closed.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

_SERVER = "uvicorn."
_scheduled: list[Any] = []


def outlive_server() -> None:
    """Have the process live on until ``die_of_signal`` where uvicorn would kill it."""
    if _handler_of_server() is None:
        return
    if threading.current_thread() is threading.main_thread():
        _cover()
    else:  # the first call was made in an endpoint that runs in a thread
        _on_main_thread(_cover)


def die_of_signal() -> None:
    """Die of a SIGTERM that was held back; called on the main thread."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _handler_of_server() -> Callable[[int, FrameType | None], object] | None:
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler) and str(getattr(handler, "__module__", "")).startswith(_SERVER):
        return handler
    return None


def _cover() -> None:
    theirs = _handler_of_server()
    if theirs is None:
        return

    def asked(number: int, frame: FrameType | None) -> None:
        theirs(number, frame)
        _hold_back()

    signal.signal(signal.SIGTERM, asked)
    # The signal may have come before the main thread was reached. What other threads have it do is
    # done where Python looks for signals: in the server's handler, too.
    called = getattr(getattr(theirs, "__self__", None), "should_exit", False)
    frame: FrameType | None = sys._getframe()
    while frame is not None and not called:
        called = frame.f_code is getattr(theirs, "__code__", None)
        frame = frame.f_back
    if called:
        _hold_back()


def _hold_back() -> None:
    # The server raises the signal for the main thread alone. It stays pending there, the server
    # returns, and the end of the main thread closes the run. A further SIGTERM from outside reaches
    # another thread, and has its effect. A child that the main thread starts from here on does not
    # get the signal either; the server is about to end, so there are few.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _on_main_thread(action: Callable[[], None]) -> None:
    """Have the main thread, the only one that may set handlers, call *action* soon."""
    import ctypes

    def called(_: object) -> int:
        action()
        return 0

    pending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(called)
    _scheduled.append(pending)  # C keeps no reference
    cast(Any, ctypes.pythonapi.Py_AddPendingCall)(pending, None)
