"""The end of a process's own run in a web server that is asked to end by SIGTERM.

Such a server ends its requests and then kills itself with the same signal: nothing of Python runs
after that, and the run would seem to have crashed.

Invariant: the handler of the server is called as before, and a run with calls under way is not
closed.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from appl import threads

_TICK_S = 0.01
_LONGEST_S = 60.0


def when_asked_to_end(is_idle: Callable[[], bool], end: Callable[[], None]) -> None:
    """After a SIGTERM that a handler of the program's own takes, call *end* once *is_idle*.

    Without such a handler the signal ends the process, as always.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # Python sets handlers on the main thread alone
    before = signal.getsignal(signal.SIGTERM)
    if not callable(before):
        return
    theirs = before

    def asked(number: int, frame: FrameType | None) -> None:
        # On a thread of its own: closing a run waits, and here the program may stand anywhere.
        threads.start(lambda: _end(is_idle, end), "appl-ending")
        theirs(number, frame)

    signal.signal(signal.SIGTERM, asked)


def _end(is_idle: Callable[[], bool], end: Callable[[], None]) -> None:
    until = time.monotonic() + _LONGEST_S
    while time.monotonic() < until:
        if is_idle():
            end()
            return
        time.sleep(_TICK_S)
