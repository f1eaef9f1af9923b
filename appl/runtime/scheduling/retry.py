"""When a call is tried again, and how long after: full jitter, and a budget for all retries.

Invariant: the times are drawn from the run's seed, the call's address and the attempt alone. The
waiting time is that of M. Brooker, "Exponential backoff and jitter" (AWS, 2015): uniform between
nothing and the exponential step.
"""

from __future__ import annotations

import random

from appl.runtime.scheduling.policy import Retries

_RECENT = 1000
"""As many new calls earn retries that are kept for later."""


def wait_s(retries: Retries, seed: int | None, address: str, failed: int, asked: float) -> float:
    """How long after the *failed*-th failure, when the server *asked* for so many seconds.

    What the server asked for is a floor: the random time is added, so that not all come at once.
    """
    step = min(retries.cap_s, retries.base_s * 2.0 ** min(failed - 1, 60))
    return asked + random.Random(f"{seed} {address} {failed}").uniform(0, step)


class RetryBudget:
    """How many retries all calls have left: so a failing backend is not asked ever more.

    New calls earn a share of one; what nobody uses is kept, for so many calls.
    """

    def __init__(self, retries: Retries) -> None:
        self._share, self._most = retries.share, retries.spare + retries.share * _RECENT
        self._left = float(retries.spare)

    def earn(self) -> None:
        """A new call begins."""
        if self._left < self._most:
            self._left = min(self._most, self._left + self._share)

    def spend(self) -> bool:
        """Whether there is one more; it is taken."""
        if self._left < 1:
            return False
        self._left -= 1
        return True
