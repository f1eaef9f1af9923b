"""The context profile: the expected sum of all contexts at each of the coming turns.

Invariant: what was added is subtracted once, with the same numbers; no clock is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

Ahead = Sequence[tuple[float, float]]
"""The size of a context at each coming turn, and the chance that it comes to that turn."""

DEVIATIONS = 1.0
_SQUARED = DEVIATIONS * DEVIATIONS
_NONE = 0.0, 0.0


class ContextProfile:
    """The sum of contexts by coming turn, as arrays that one context is added to at a time.

    Room is planned for the mean and ``DEVIATIONS`` standard deviations. ``total`` is the expected
    sum over all coming turns.
    """

    __slots__ = ("_mean", "_variance", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self._mean: list[float] = []
        self._variance: list[float] = []

    @property
    def peak(self) -> float:
        """The largest expected sum at any coming turn."""
        return max(self._mean, default=0.0)

    def add(self, ahead: Ahead, sign: int = 1) -> None:
        """Add the context *ahead*; with *sign* -1 it is taken out."""
        mean, variance = self._mean, self._variance
        if len(mean) < len(ahead):
            missing = [0.0] * (len(ahead) - len(mean))
            mean += missing
            variance += missing
        total = 0.0
        for at, (size, chance) in enumerate(ahead):
            expected = sign * size * chance
            total += expected
            mean[at] += expected
            if chance < 1.0:
                variance[at] += expected * size * (1 - chance)
        self.total += total

    def fits(self, more: Ahead, room: float) -> bool:
        """True if *more* fits besides into *room*, at each coming turn."""
        for mean, variance, context in zip_longest(self._mean, self._variance, more):
            size, chance = context or _NONE
            spare = room - (mean or 0.0) - size * chance
            spread = (variance or 0.0) + size * size * chance * (1 - chance)
            if spare < 0 or spare * spare < _SQUARED * spread:
                return False
        return True

    def overflow(self, more: Ahead, room: float) -> float:
        """The tokens beyond *room*, over all coming turns, with *more* besides."""
        found = 0.0
        for at, (size, chance) in enumerate(more):
            there = self._mean[at] if at < len(self._mean) else 0.0
            found += max(0.0, there + size * chance - room)
        return found

    def delay(self, more: Ahead, room: float) -> int:
        """The number of turns after which *more* fits, by what is expected now."""
        mean = self._mean
        for delay in range(len(mean)):
            together = zip(more, mean[delay:], strict=False)
            if all(there + size * chance <= room for (size, chance), there in together):
                return delay
        return len(mean)

    def clear(self) -> None:
        """Take out everything."""
        self.total = 0.0
        self._mean.clear()
        self._variance.clear()
