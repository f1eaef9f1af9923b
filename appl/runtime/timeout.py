"""``timeout``: a block that must end in time.

Invariant: whether the time was up is recorded, so that a replay ends the block where it ended.
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from appl.errors import RunError
from appl.runtime.crossing import io_thread
from appl.runtime.event import Observed
from appl.runtime.fiber import Strand, in_coroutine, run_on, strand_here
from appl.runtime.run import here


class Late(BaseException):
    """Thrown into a program whose time is up; becomes ``TimeoutError`` at the block's end."""


class timeout:
    """``with timeout(seconds):`` raises ``TimeoutError`` in a wait that lasts too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._over = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> timeout:
        if in_coroutine():
            raise RunError("in a coroutine use asyncio.timeout()")
        self._frame = here(lambda: "timeout")
        self._ordinal = self._frame.run.next_observation(self._frame.address)
        strand = strand_here()
        late = Late()

        def ring() -> None:
            run_on(strand.hub, lambda: self._ring(strand, late))

        io, turn = io_thread(), getattr(self._frame.run.effects, "turn", None)
        if turn is None or not turn(self._frame.address, self._ordinal, "deadline", ring):
            io.send(lambda: setattr(self, "_timer", io.loop.call_later(self._seconds, ring)))
        return self

    def _ring(self, strand: Strand, late: Late) -> None:
        """On the program's own thread: its time is up, which a replay must know."""
        if not self._over:
            run, at = self._frame.run, time.monotonic_ns()
            run.emit(Observed(self._frame.address, self._ordinal, "deadline", True, at))
            strand.throw(late)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over = True
        io = io_thread()
        io.send(lambda: self._timer.cancel() if self._timer is not None else None)
        if isinstance(error, Late):
            raise TimeoutError(f"not done within {self._seconds} s") from None
