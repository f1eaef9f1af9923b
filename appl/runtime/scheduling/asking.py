"""What one question to a backend has been through, and what it waits for.

Invariant: plain state of one call's attempts, changed by them alone, on the I/O loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from appl.backend import Emit, Request
from appl.runtime.event import CallDispatched
from appl.runtime.scheduling.holding import Why

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_TIMED = ("circuit", "rate", "paused", "retry")
"""What ends at a time, or when somebody outside says so, and not by what other calls do."""
_UNCOUNTED = ("retry", "connect")
"""What is no time between being ready and being sent."""


class Asking:
    """One question of *call*, and its attempts, which have *numbers*.

    ``failed`` counts attempts that failed, ``away`` those that the backend was not there for, since
    ``since``. Of the present one: whether it is ``probing`` a backend that was dead, whether what
    failed is ``shared`` with other calls, whether it was ``sent``, what it ``waits`` for, and until
    when at least, and for how long it has ``waited``, in nanoseconds by reason.
    """

    __slots__ = (
        "at", "away", "call", "emit", "error", "failed", "number", "numbers", "probing", "request",
        "sent", "shared", "since", "until", "waited", "waits",
    )  # fmt: skip

    def __init__(
        self, call: Call, numbers: Iterator[int], request: Request, emit: Emit | None
    ) -> None:
        self.call, self.numbers, self.request, self.emit = call, numbers, request, emit
        self.number = self.failed = self.away = 0
        self.probing = self.shared = self.sent = False
        self.since: float | None = None
        self.waits: Why | None = None
        self.waited: dict[str, int] | None = None
        self.until: float | None = None
        self.error: BaseException | None = None
        self.at = 0.0

    def beside(self) -> Asking:
        """The same question, to be asked beside this one."""
        return Asking(self.call, self.numbers, self.request, self.emit)

    def begin(self) -> None:
        """Another attempt begins."""
        self.probing = self.shared = self.sent = False

    def send(self, *, probing: bool) -> None:
        """It is sent."""
        self.sent, self.at, self.probing = True, time.monotonic(), probing
        self.number = next(self.numbers)
        if self.call.emit is not None:
            self.call.emit.begin(self._samples())
        dispatched(self.call, self.number, self.waited)
        self.waited = None

    def begun(self) -> bool:
        """Whether somebody may have seen a part of one of these answers."""
        if self.call.emit is None:
            return False
        samples = self._samples()
        return any(chunk.sample in samples for chunk in self.call.emit.fresh())

    def _samples(self) -> range:
        return range(self.request.sample, self.request.sample + self.request.n)

    @contextmanager
    def waiting(self, why: Why, until: float | None = None) -> Iterator[None]:
        """While it waits for *why*, which is not over before *until*."""
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

    def elsewhere(self) -> AbstractContextManager[None]:
        """While another process is asked for leave."""
        return _timed(self.call)


def dispatched(call: Call, attempt: int, waited: dict[str, int] | None = None) -> None:
    """Tell whoever looks on that *call* is with the backend, for the *attempt*-th time."""
    run = call.run
    if run.watched:
        run.emit(CallDispatched(call.address, attempt, time.monotonic_ns(), waited))
    if run.quiet is not None:
        run.quiet.soon()


@contextmanager
def _timed(call: Call) -> Iterator[None]:
    """While *call* waits for a timer: a run that looks for stillness knows that it will end."""
    quiet = call.run.quiet
    if quiet is None:
        yield
        return
    quiet.timers += 1
    try:
        yield
    finally:
        quiet.timers -= 1
