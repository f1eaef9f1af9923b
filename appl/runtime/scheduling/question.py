"""The state of one question to a backend: its attempts, and the reason for which it waits.

Invariant: plain state of one call's attempts, changed by them alone, on the I/O loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from appl.backend import Emit, Request
from appl.runtime.event import CallDispatched
from appl.runtime.scheduling.call_status import Why

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_TIMED = ("circuit", "rate", "paused", "retry")
"""Waits that end at a time, or from outside, and not by what other calls do."""
_UNCOUNTED = ("retry", "connect")
"""Waits that are not part of the time between being ready and being sent."""


class Question:
    """One question of *call*, and its attempts, which ``call.attempts`` counts.

    ``failed`` counts attempts that failed, ``away`` those for which the backend was not there,
    since ``since``. Of the present attempt: ``probing`` is true if it is to find out whether a dead
    backend is alive again, ``shared`` if its failure is one of several calls, ``sent`` if it was
    sent. ``waits`` is the reason for which it waits, at least ``until`` then, and ``waited`` holds
    the nanoseconds that it has waited, by reason.
    """

    __slots__ = (
        "at", "away", "call", "emit", "error", "failed", "number", "probing", "request", "sent",
        "shared", "since", "until", "waited", "waits",
    )  # fmt: skip

    def __init__(self, call: Call, request: Request, emit: Emit | None) -> None:
        self.call, self.request, self.emit = call, request, emit
        self.number = self.failed = self.away = 0
        self.probing = self.shared = self.sent = False
        self.since: float | None = None
        self.waits: Why | None = None
        self.waited: dict[str, int] | None = None
        self.until: float | None = None
        self.error: BaseException | None = None
        self.at = 0.0

    def beside(self) -> Question:
        """The same question, to be asked beside this one with attempts of its own."""
        return Question(self.call, self.request, self.emit)

    def begin_again(self) -> None:
        """Begin another attempt."""
        self.probing = self.shared = self.sent = False

    def send(self, *, probing: bool) -> None:
        """Note that the present attempt is sent, and tell instruments."""
        call = self.call
        self.sent, self.at, self.probing = True, time.monotonic(), probing
        self.number = call.attempts = call.attempts + 1
        if call.emit is not None:
            call.emit.begin(self._samples())
        run = call.run
        if run.reporter.watched:
            at = time.monotonic_ns()
            run.reporter.emit(CallDispatched(call.address, self.number, at, self.waited))
        # Some worlds hand something over only when all programs wait. Now that this call is with
        # the backend nothing more of it is on its way here, and all may be waiting.
        if run.outside.idle_detection is not None:
            run.outside.idle_detection.soon()
        self.waited = None

    def begun(self) -> bool:
        """True if the program may have seen a part of one of these answers."""
        if self.call.emit is None:
            return False
        samples = self._samples()
        return any(chunk.sample in samples for chunk in self.call.emit.fresh())

    def _samples(self) -> range:
        return range(self.request.sample, self.request.sample + self.request.n)

    @contextmanager
    def waiting(self, why: Why, until: float | None = None) -> Iterator[None]:
        """A block in which it waits for *why*, at least until *until*."""
        self.waits, self.until = why, until
        since = time.monotonic_ns()
        try:
            with _timed(self.call) if why in _TIMED else nullcontext():
                yield
        finally:
            self.waits = self.until = None
            if why not in _UNCOUNTED:
                waited = self.waited = self.waited or {}
                waited[why] = waited.get(why, 0) + time.monotonic_ns() - since


@contextmanager
def _timed(call: Call) -> Iterator[None]:
    """A block in which *call* waits for a timer: its run will move by itself, and is not idle."""
    detection = call.run.outside.idle_detection
    if detection is None:
        yield
        return
    detection.timers += 1
    try:
        yield
    finally:
        detection.timers -= 1
