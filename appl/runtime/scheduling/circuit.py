"""The gate and the circuit breaker of a backend that wants to be left alone, or seems dead.

Invariant: while the circuit is open at most one attempt, the probe, is with the backend; the others
go on when it is answered. M. Nygard, "Release It!" (2007), with waiting in place of failing.
"""

from __future__ import annotations

import asyncio

from appl.errors import BackendError, BackendTimeout, BackendUnavailable, CircuitOpen
from appl.runtime.scheduling.policy import Circuit
from appl.runtime.scheduling.timers import Clock, wait_for, wake

OPEN = float("-inf")
"""The time until which an open gate is closed."""


class Gate:
    """A gate that is closed until a time that the server gave; all attempts wait for that time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.until = OPEN

    @property
    def closed(self) -> bool:
        """True if attempts have to wait."""
        if self.until != OPEN and self._clock.now() >= self.until:
            self.until = OPEN
        return self.until != OPEN

    def close(self, seconds: float) -> None:
        """Leave the backend alone for *seconds*, or longer if it asked for that before."""
        self.until = max(self.until, self._clock.now() + seconds)


class Breaker:
    """The circuit to one backend; *whose* is the backend's name in its error.

    ``probe_at`` is the time at which the backend is asked again, while it is taken for dead, and
    ``failures`` counts those in a row; there are some while it is.
    """

    def __init__(self, circuit: Circuit | None, clock: Clock, whose: str) -> None:
        self._circuit, self._clock, self._whose = circuit, clock, whose
        self.failures = 0
        self._pause = circuit.pause_s if circuit is not None else 0.0
        self._last: BaseException | None = None
        self._probing = False
        self.probe_at: float | None = None
        self._waiting: dict[asyncio.Future[None], None] = {}  # in the order of coming

    @property
    def open(self) -> bool:
        """True if the backend is taken for dead."""
        return self.probe_at is not None

    async def enter(self, patience_s: float) -> bool:
        """Wait until it may be asked; true if as the probe. Raises ``CircuitOpen``.

        An attempt that has waited for *patience_s* gives up.
        """
        late = self._clock.now() + patience_s
        # All that wait are woken by each news and look again, in the order of coming: the first
        # one becomes the probe, and the others wait for what comes of it.
        while self.probe_at is not None:
            now = self._clock.now()
            if now >= self.probe_at and not self._probing:
                self._probing = True
                return True
            if now >= late:
                raise self._error() from self._last
            await self._news(late if self._probing else min(late, self.probe_at))
        return False

    def answered(self) -> None:
        """Note that the backend has answered something."""
        self.failures = 0
        if self.probe_at is not None:
            self.probe_at, self._last = None, None
            self._probing = False
            self._tell()

    def failed(self, error: BaseException, probe: bool) -> None:
        """Note that an attempt failed with *error*; some errors are a sign of life."""
        circuit = self._circuit
        if circuit is None:
            return
        # A server that refuses a request is alive. A cancellation says nothing of the server, but
        # a cancelled probe leaves its place to another.
        if not _deadly(error):
            self.answered() if isinstance(error, BackendError) else self.left(probe)
            return
        self.failures += 1
        self._last = error
        if probe:
            self._pause = min(circuit.cap_s, 2 * self._pause)
            self._shut()
        elif self.probe_at is None and self.failures >= circuit.failures:
            self._pause = circuit.pause_s
            self._shut()

    def left(self, probe: bool) -> None:
        """Note that an attempt ended without a result: it was cancelled."""
        if probe and self._probing:
            self._probing = False
            self._tell()

    def _shut(self) -> None:
        self._probing = False
        self.probe_at = self._clock.now() + self._pause
        self._tell()

    async def _news(self, until: float) -> None:
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[news] = None
        try:
            await wait_for(self._clock, until, news)
        finally:
            self._waiting.pop(news, None)

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, {}  # those that wait again wait for the next news
        for news in waiting:
            wake(news)

    def _error(self) -> CircuitOpen:
        return CircuitOpen(
            f"the backend {self._whose!r} failed {self.failures} times in a row, so it is not "
            f"asked for a while; the last error was: {self._last}"
        )


def _deadly(error: BaseException) -> bool:
    if isinstance(error, BackendTimeout):
        return error.deadline in ("connect", "first token")
    return isinstance(error, BackendUnavailable)
