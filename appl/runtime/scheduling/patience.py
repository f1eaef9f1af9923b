"""Patience: how long calls wait for a server that refuses them, and who asks it meanwhile.

There is one :class:`Outage` for each model of a server that has refused a call, and one deadline
for each call that waits: ``Admission.late``. Without an outage nothing here is called.

Invariant: while a server is taken for dead at most one attempt, the probe, is with it (M. Nygard,
"Release It!", 2007, with waiting in place of failing). The times between attempts are drawn from
the run's seed, the call's address and the attempt alone, uniformly between nothing and the
exponential step (M. Brooker, "Exponential backoff and jitter", AWS, 2015).
"""

from __future__ import annotations

import asyncio
import copy
import math
import random

from appl.errors import BackendError, BackendTimeout, BackendUnavailable
from appl.runtime.scheduling.policy import Retries
from appl.runtime.scheduling.timers import Clock, wait_for, wake

_DEAD = 5
"""The number of failures in a row after which a server is taken for dead."""

_HOLD_S = 3600.0
"""The longest time for which a server that asks for a longer wait than the patience is not asked
again: what it asked for may be nonsense, or be lifted, and a service has to recover from that."""

_NEVER = -math.inf


class Outage:
    """The time without a good answer of one model of a server.

    ``since`` is when it began: with the first refusal after the last good answer. ``refusals``
    counts those since then, of which ``error`` is the last one and came at ``refused_at``. Nobody
    is sent before ``until``, to which the server's own request, ``hold_until``, contributes.
    While it is ``dead``, one attempt alone is sent after that, the ``probe``. With *probes* off,
    all are sent.
    """

    def __init__(self, clock: Clock, retries: Retries, probes: bool) -> None:
        self._clock, self._retries, self._probes = clock, retries, probes
        self.since = clock.now()
        self.refused_at = self.until = self.hold_until = _NEVER
        self.refusals = self._failures = 0
        self._pause = retries.base_s
        self.dead = False
        self.probe: object = None
        self.error: BackendError | None = None
        # Futures of waiting calls, with the end of the patience of each, in the order of coming:
        # of those that wait for leave to be sent, and of those that rest between two attempts.
        self._entering: dict[asyncio.Future[None], float] = {}
        self._resting: dict[asyncio.Future[None], float] = {}

    @property
    def full(self) -> float:
        """The time at which the patience ends of calls that have waited from the beginning."""
        return self.since + self._retries.patience_s

    @property
    def is_held_back(self) -> bool:
        """True if nobody may be sent now."""
        return self._clock.now() < self.until

    @property
    def remaining_s(self) -> float:
        """The seconds for which nobody may be sent, at least."""
        return max(self.until - self._clock.now(), 0.0)

    def blocks(self, attempt: object) -> bool:
        """True if *attempt* may not be sent now."""
        return self.is_held_back or (self.dead and self.probe not in (None, attempt))

    def over(self, late: float, attempt: object = None) -> bool:
        """True if *attempt*, of a call whose patience ends at *late*, is to wait no longer.

        While attempts are under way, the next refusal decides. While the server is left alone, the
        time does; and a call ends at once if the server wants to be left alone for longer.
        """
        if not self.blocks(attempt):
            return late <= self.refused_at
        return late <= self._clock.now() or late < self.hold_until

    @property
    def ended(self) -> bool:
        """True if there is nothing to be known of it any more."""
        return not (self.refusals or self._resting or self.is_held_back)

    # -- what becomes of attempts

    def refused(self, error: BackendError, attempt: object) -> None:
        """Note that *attempt* failed with *error*, which may pass."""
        probed = attempt is not None and attempt is self.probe
        now, retries = self._clock.now(), self._retries
        if not self.refusals:
            self.since = now
        self.refusals += 1
        self.refused_at, self.error = now, plain(error)
        silent = isinstance(error, BackendUnavailable)  # which is no sign of life
        if isinstance(error, BackendTimeout):
            silent = error.deadline in ("connect", "first token")
        if not silent:
            self._alive()
        else:
            self._failures += 1
            dies = self._probes and self._failures >= _DEAD and not self.dead
            if probed or dies:
                self.dead = True
                # A quarter of the patience at most, so that it is asked a few times meanwhile.
                self._pause = min(2 * self._pause, retries.cap_s, retries.patience_s / 4)
                self.until = max(self.until, now + self._pause)
        if error.retry_after:
            hold = min(error.retry_after, max(retries.patience_s, _HOLD_S))
            self.hold_until = max(self.hold_until, now + hold)
            self.until = max(self.until, self.hold_until)
            self.dead = self.dead or error.retry_after > retries.patience_s
            _wake(self._resting, self.hold_until)
        _wake(self._entering, self.hold_until)
        self.attempt_over(attempt)

    def answered(self) -> None:
        """Note a good answer. A time for which the server wants to be left alone goes on."""
        self.since, self.refusals, self.refused_at = self._clock.now(), 0, _NEVER
        self._alive()

    def attempt_over(self, attempt: object) -> None:
        """Note that *attempt* is over; if it was the probe, another one takes its place."""
        if attempt is not None and attempt is self.probe:
            self.probe = None
            _wake(self._entering)

    def recheck(self) -> None:
        """Have those look again that wait for leave: their patience may have changed."""
        _wake(self._entering)

    def _alive(self) -> None:
        self._failures, self._pause, self.dead = 0, self._retries.base_s, False
        self.until, self.probe = self.hold_until, None
        _wake(self._entering)

    # -- waiting

    async def entering(self, late: float) -> None:
        """Wait until a call whose patience ends at *late* has to look again whether it may be sent.

        That is also when the patience of those is over that have waited from the beginning.
        """
        now = self._clock.now()
        ends = [when for when in (self.until, late, self.full) if when > now]
        await self._wait(self._entering, late, min(ends, default=math.inf))

    async def resting(self, until: float, late: float) -> None:
        """Wait for *until*, or until the server wants to be left alone for longer than *late*."""
        await self._wait(self._resting, late, until)

    async def _wait(
        self, waiting: dict[asyncio.Future[None], float], late: float, until: float
    ) -> None:
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting[news] = late
        try:
            await wait_for(self._clock, until, news)
        finally:
            del waiting[news]


def _wake(waiting: dict[asyncio.Future[None], float], before: float = math.inf) -> None:
    """Have those look again whose patience ends *before* that time."""
    for news, late in waiting.items():
        if late < before or before == math.inf:
            wake(news)


def plain(error: BackendError) -> BackendError:
    """A copy of *error* without what was noted where it was raised."""
    own = copy.copy(error)
    vars(own).pop("__notes__", None)
    return own


def exhausted_error(error: BackendError, patience_s: float) -> BackendError:
    """The error of a call that waits no longer for a server, whose last word was *error*."""
    final = plain(error)
    final.args = (
        f"{error}; the call is given up, as it would have to wait for longer than {patience_s:g} s:"
        " try again later, or raise retries.patience",
        *error.args[1:],
    )
    return final


def wait_s(
    retries: Retries, seed: int | None, address: str, failed: int, retry_after: float
) -> float:
    """The seconds to wait after failure number *failed*: *retry_after*, and some.

    The server's seconds are a floor: the random time is added, so that not all come at once.
    """
    step = min(retries.cap_s, retries.base_s * 2.0 ** min(failed - 1, 60))
    return retry_after + random.Random(f"{seed} {address} {failed}").uniform(0, step)
