"""Retries: the time between two attempts, with full jitter, and a budget for all calls.

Invariant: the times are drawn from the run's seed, the call's address and the attempt alone. The
waiting time is that of M. Brooker, "Exponential backoff and jitter" (AWS, 2015): uniform between
nothing and the exponential step.
"""

from __future__ import annotations

import random

from appl.runtime.scheduling.policy import Retries

_RECENT = 1000
"""The number of new calls whose share of retries is kept for later at most."""


def wait_s(retries: Retries, seed: int | None, address: str, failed: int, asked: float) -> float:
    """The seconds to wait after the *failed*-th failure; the server *asked* for so many of them.

    The server's seconds are a floor: the random time is added, so that not all come at once.
    """
    step = min(retries.cap_s, retries.base_s * 2.0 ** min(failed - 1, 60))
    return asked + random.Random(f"{seed} {address} {failed}").uniform(0, step)


class RetryBudget:
    """The number of retries that all calls have left, so that a failing backend gets few of them.

    Each of the new ``calls`` earns a share of one. Unused retries are kept, but not without limit.
    """

    def __init__(self, retries: Retries) -> None:
        self._share, self._most = retries.share, retries.spare + retries.share * _RECENT
        self._left = float(retries.spare)
        self.calls = self._counted = 0

    def spend(self) -> bool:
        """Take one retry; false if none is left."""
        earned, self._counted = self._share * (self.calls - self._counted), self.calls
        self._left = min(self._most, self._left + earned)
        if self._left < 1:
            return False
        self._left -= 1
        return True
