"""Confidence intervals of means, proportions and paired differences.

Sources: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927); E. L. Korn and B. I. Graubard, Survey
Methodology 24 (1998), for several samples of one case; D. G. Bonett and R. M. Price, Br. J. Math.
Stat. Psychol. 65 (2012), for pairs that are right or wrong; Q. McNemar, Psychometrika 12 (1947).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist, fmean, variance
from typing import NamedTuple

LEVEL = 0.95
"""The share of intervals that hold the true value."""
_STEPS = 400
_TINY = 1e-300


class Interval(NamedTuple):
    """A mean with the ends of its interval, which are ``None`` where too little is known."""

    mean: float
    low: float | None
    high: float | None


def interval(cases: Sequence[Sequence[float]]) -> Interval | None:
    """The mean over *cases*, each with the scores of its samples; ``None`` without a score.

    Each case counts once, however many samples of it were scored: samples of one case are alike.
    Scores that are all 0 or 1 get Wilson's interval for proportions, others that of Student's t.
    """
    scored = [case for case in cases if case]
    if not scored:
        return None
    means = [fmean(case) for case in scored]
    if any(score not in (0.0, 1.0) for case in scored for score in case):
        return mean_interval(means)
    proportion, samples = fmean(means), sum(map(len, scored))
    low, high = wilson(proportion, effective(means, samples))
    return Interval(proportion, low, high)


def effective(means: Sequence[float], samples: int) -> float:
    """The number of independent samples that say as much as *samples* of the cases with *means*."""
    count = len(means)
    if samples == count:
        return count
    proportion = fmean(means)
    spread = variance(means) / count if count > 1 else 0.0
    if not spread or not 0 < proportion < 1:
        return count
    freedom = (normal_quantile() / t_quantile(count - 1)) ** 2
    return min(samples, freedom * proportion * (1 - proportion) / spread)


def mean_interval(values: Sequence[float]) -> Interval:
    """Student's interval of the mean of *values*."""
    mean, count = fmean(values), len(values)
    if count < 2:
        return Interval(mean, None, None)
    half = t_quantile(count - 1) * math.sqrt(variance(values) / count)
    return Interval(mean, mean - half, mean + half)


def wilson(proportion: float, count: float) -> tuple[float, float]:
    """Wilson's interval of a *proportion* of *count* samples."""
    z = normal_quantile()
    scale = 1 + z * z / count
    middle = (proportion + z * z / (2 * count)) / scale
    spread = proportion * (1 - proportion) / count + (z / (2 * count)) ** 2
    half = z / scale * math.sqrt(spread)
    low = 0.0 if proportion == 0 else middle - half
    return low, 1.0 if proportion == 1 else middle + half


class Paired(NamedTuple):
    """A mean difference, the ends of its interval, and the probability of one so large by chance.

    What is not known, with fewer than two pairs, is ``None``.
    """

    mean: float
    low: float | None
    high: float | None
    p: float | None


def paired(after: Sequence[float], before: Sequence[float], binary: bool) -> Paired | None:
    """The difference of *after* and *before*, pair by pair; ``None`` without a pair.

    Pairs that are *binary*, right (1) or wrong (0), get the interval of Bonett and Price and
    McNemar's exact test; others those of Student's t.
    """
    differences = [new - old for new, old in zip(after, before, strict=True)]
    if not differences:
        return None
    if not binary:
        mean, low, high = mean_interval(differences)
        return Paired(mean, low, high, _t_test(differences))
    count, mean = len(differences), fmean(differences)
    better, worse = differences.count(1.0), differences.count(-1.0)
    if count < 2:
        return Paired(mean, None, None, None)
    up, down = (better + 1) / (count + 2), (worse + 1) / (count + 2)
    half = normal_quantile() * math.sqrt((up + down - (up - down) ** 2) / (count + 2))
    low, high = max(up - down - half, -1.0), min(up - down + half, 1.0)
    return Paired(mean, low, high, mcnemar(better, worse))


def mcnemar(better: int, worse: int) -> float:
    """The exact probability of a split so uneven, where both ways are equally likely."""
    changed = better + worse
    tail = sum(math.comb(changed, k) for k in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**changed))


def _t_test(differences: Sequence[float]) -> float | None:
    count = len(differences)
    if count < 2:
        return None
    spread = math.sqrt(variance(differences) / count)
    if not spread:
        return 1.0 if fmean(differences) == 0 else 0.0
    return two_sided(fmean(differences) / spread, count - 1)


# -- quantiles


@lru_cache
def normal_quantile() -> float:
    """The half width of the interval of the standard normal distribution."""
    return NormalDist().inv_cdf((1 + LEVEL) / 2)


@lru_cache(maxsize=256)
def t_quantile(freedom: int) -> float:
    """The half width of the interval of Student's distribution."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > 1 - LEVEL:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 1 - LEVEL else (low, middle)
    return (low + high) / 2


def two_sided(t: float, freedom: int) -> float:
    """The probability that Student's variable is farther from 0 than *t*."""
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1 - incomplete_beta(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / _away(1 + term * d), _away(1 + term / c)
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return front * value


def _away(value: float) -> float:
    """*value*, not so near to 0 that it cannot be divided by."""
    return value if abs(value) > _TINY else _TINY
