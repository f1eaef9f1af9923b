"""Intervals and paired tests: equal to SciPy's, and as often right as they say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from appl.parts.evaluation import intervals
from appl.parts.evaluation.intervals import interval, mcnemar, paired, t_quantile, two_sided, wilson

SETS = 1000
DIGITS = 1e-6


def near(*values: float | None) -> object:
    return pytest.approx(values, rel=DIGITS, abs=1e-9)


def singles(scores: list[float]) -> list[list[float]]:
    return [[score] for score in scores]


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 29, 99, 1999, 100_000])
def test_students_quantile_is_that_of_scipy(freedom: int):
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=DIGITS)


@pytest.mark.parametrize("freedom", [1, 2, 5, 30, 400])
def test_students_tail_is_that_of_scipy(freedom: int):
    for t in (0.0, 0.01, 0.5, 1.0, 2.0, 5.0, 40.0):
        assert two_sided(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=DIGITS)


def test_a_proportion_has_the_interval_of_scipys_wilson():
    for count in (1, 2, 5, 10, 50, 200):
        for right in range(0, count + 1, max(1, count // 7)):
            found = interval(singles([1.0] * right + [0.0] * (count - right)))
            wanted = stats.binomtest(right, count).proportion_ci(method="wilson")
            assert found == near(right / count, wanted.low, wanted.high)


def test_a_mean_has_the_interval_of_scipys_t():
    dice = random.Random(1)
    for count in (2, 3, 10, 200):
        scores = [dice.gauss(3, 1) for _ in range(count)]
        found = stats.ttest_1samp(scores, 0).confidence_interval()
        assert interval(singles(scores)) == near(fmean(scores), found.low, found.high)


def test_several_samples_of_a_case_count_as_one_of_their_mean():
    cases = [[1.0, 2.5, 2.0], [4.0], [2.0, 2.0]]
    assert interval(cases) == interval(singles([fmean(case) for case in cases]))


def test_paired_means_are_compared_as_scipy_does():
    dice = random.Random(2)
    for count in (2, 5, 60):
        before = [dice.gauss(3, 1) for _ in range(count)]
        after = [score + dice.gauss(0.3, 0.5) for score in before]
        test = stats.ttest_rel(after, before)
        ends = test.confidence_interval()
        mean = fmean(after) - fmean(before)
        assert paired(after, before, False) == near(mean, ends.low, ends.high, test.pvalue)


def test_changes_from_right_to_wrong_are_tested_as_scipy_does():
    for better in range(0, 30, 3):
        for worse in range(0, 30, 4):
            if better + worse:
                wanted = stats.binomtest(better, better + worse).pvalue
                assert mcnemar(better, worse) == pytest.approx(wanted, rel=DIGITS)
    assert mcnemar(0, 0) == 1


def test_with_one_case_nothing_is_known_of_the_spread_of_a_mean():
    assert interval([[0.3]]) == (0.3, None, None)
    assert interval([[], []]) is None
    assert paired([0.3], [0.1], False) == (pytest.approx(0.2), None, None, None)
    assert paired([], [], True) is None


def test_pairs_that_are_all_alike_have_a_test():
    assert paired([1.5, 1.5], [1.5, 1.5], False) == (0, 0, 0, 1)
    assert paired([2.5, 2.5], [1.5, 1.5], False) == (1, 1, 1, 0)


def test_alike_samples_of_right_and_wrong_cases_count_once():
    cases = [[1.0] * 5] * 30 + [[0.0] * 5] * 10
    low, high = wilson(0.75, 40 * (intervals.normal_quantile() / t_quantile(39)) ** 2 * 39 / 40)
    assert interval(cases) == near(0.75, low, high)


def test_cases_that_are_all_right_still_have_an_interval():
    assert interval([[1.0] * 9] * 20) == near(1, *wilson(1, 20))


# -- how often they are right


def proportions(dice: np.random.Generator, truth: float) -> Iterator[list[list[float]]]:
    for _ in range(SETS):
        yield singles(list((dice.random(150) < truth).astype(float)))


def grades(dice: np.random.Generator, truth: float) -> Iterator[list[list[float]]]:
    for _ in range(SETS):
        yield singles(list(dice.gamma(4, truth / 4, 60)))


def repeated(dice: np.random.Generator, truth: float) -> Iterator[list[list[float]]]:
    """Five samples each of cases that are easy or hard."""
    for _ in range(SETS):
        chances = dice.beta(2 * truth, 2 * (1 - truth), 80)
        yield [list((dice.random(5) < chance).astype(float)) for chance in chances]


def covered(found: list[tuple[float | None, float | None]], truth: float) -> float:
    return fmean(
        low is not None and high is not None and low <= truth <= high for low, high in found
    )


@pytest.mark.parametrize(
    ("sets", "truth"),
    [
        (proportions, 0.5), (proportions, 0.8), (proportions, 0.93),
        (grades, 3.0), pytest.param(repeated, 0.6, marks=pytest.mark.long), (repeated, 0.85),
    ],
)  # fmt: skip
def test_an_interval_holds_the_truth_as_often_as_it_says(
    sets: Callable[[np.random.Generator, float], Iterator[list[list[float]]]], truth: float
):
    drawn = sets(np.random.default_rng(31), truth)
    found = [each for each in map(interval, drawn) if each is not None]
    assert len(found) == SETS
    assert 0.93 <= covered([(each.low, each.high) for each in found], truth) <= 0.97


@pytest.mark.parametrize(("better", "worse"), [(0.1, 0.1), (0.25, 0.1), (0.12, 0.04)])
def test_a_paired_difference_holds_the_truth_as_often_as_it_says(better: float, worse: float):
    dice = np.random.default_rng(7)
    found = []
    for _ in range(SETS):
        drawn = dice.random(200)
        before = (drawn >= 0.5).astype(float)
        after = np.where(
            dice.random(200) < np.where(before == 0, 2 * better, 2 * worse), 1 - before, before
        )
        made = paired(list(after), list(before), True)
        assert made is not None
        found.append((made.low, made.high))
    assert 0.93 <= covered(found, better - worse) <= 0.97


def test_a_paired_difference_of_means_holds_the_truth_as_often_as_it_says():
    dice = np.random.default_rng(8)
    found = []
    for _ in range(SETS):
        before = dice.normal(3, 1, 50)
        made = paired(list(before + dice.normal(0.2, 0.6, 50)), list(before), False)
        assert made is not None
        found.append((made.low, made.high))
    assert 0.93 <= covered(found, 0.2) <= 0.97


@pytest.mark.parametrize("binary", [True, False])
def test_where_nothing_differs_few_tests_say_otherwise(binary: bool):
    dice = np.random.default_rng(9)
    found = []
    for _ in range(SETS):
        before, after = dice.random(60), dice.random(60)
        if binary:
            before, after = (before < 0.6).astype(float), (after < 0.6).astype(float)
        made = paired(list(after), list(before), binary)
        assert made is not None and made.p is not None and math.isfinite(made.p)
        found.append(made.p < 0.05)
    assert fmean(found) <= 0.07
