"""``timeout``: a block that must end in time.

Invariant: whether the time was up is recorded, so that a replay ends the block where it ended.
"""

from __future__ import annotations

from types import TracebackType

from appl.errors import RunError
from appl.runtime.crossing import io_thread
from appl.runtime.fiber import run_on, strand_here
from appl.runtime.parallel import in_coroutine
from appl.runtime.run import here


class Late(BaseException):
    """Thrown into a program whose time is up; becomes ``TimeoutError`` at the block's end."""


class timeout:  # noqa: N801 - reads as a statement: with timeout(5)
    """``with timeout(seconds):`` raises ``TimeoutError`` in a wait that lasts too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._over = False

    def __enter__(self) -> timeout:
        if in_coroutine():
            raise RunError("in a coroutine use asyncio.timeout()")
        self._frame = here(lambda: "timeout")
        strand = strand_here()
        late = Late()

        def ring() -> None:
            run_on(strand.hub, lambda: None if self._over else strand.throw(late))

        io = io_thread()
        io.send(lambda: setattr(self, "_timer", io.loop.call_later(self._seconds, ring)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over = True
        io = io_thread()
        io.send(lambda: self._timer.cancel())
        if isinstance(error, Late):
            raise TimeoutError(f"not done within {self._seconds} s") from None
