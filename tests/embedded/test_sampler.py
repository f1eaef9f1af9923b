"""Draws follow the distribution, depend on nothing else, and know when rounding could decide."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings, strategies as st

from appl_backends.embedded.sampler import TOLERANCE, Draw, best, log_softmax, pick

LOGITS = np.log(np.array([0.5, 0.25, 0.15, 0.06, 0.04], np.float32))


def draws(count: int, **how: float) -> Counter[int]:
    options = {"temperature": 1.0, "top_p": 1.0, "seed": 1} | how
    return Counter(
        pick(LOGITS[None], [Draw(sample=sample, **options)], [0])[0].token
        for sample in range(count)
    )


def naive(logits: np.ndarray, draw: Draw, position: int) -> int:
    """Sampling written straight down."""
    weights = np.exp((logits - logits.max()).astype(np.float64) / draw.temperature)
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    size = int(np.searchsorted(np.cumsum(weights[order]), draw.top_p)) + 1
    weights[order[size:]] = 0.0
    heap = np.cumsum(weights)
    return int(np.searchsorted(heap, draw.uniform(position) * heap[-1], side="right"))


def test_zero_temperature_takes_the_likeliest() -> None:
    assert draws(20, temperature=0.0) == {0: 20}


def test_samples_follow_the_distribution() -> None:
    found = draws(4000)
    for token, share in enumerate((0.5, 0.25, 0.15, 0.06, 0.04)):
        assert abs(found[token] / 4000 - share) < 0.03


def test_temperature_sharpens() -> None:
    assert draws(1000, temperature=0.3)[0] > 850 > draws(1000)[0]


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    assert set(draws(500, top_p=0.7)) == {0, 1}
    assert set(draws(500, top_p=0.8)) == {0, 1, 2}
    assert set(draws(500, top_p=0.01)) == {0}


def test_draws_are_uniform_and_differ_by_seed_sample_and_position() -> None:
    values = [
        Draw(1.0, 1.0, seed, sample).uniform(at)
        for seed in range(8)
        for sample in range(8)
        for at in range(8)
    ]
    assert len(set(values)) == 512 and abs(np.mean(values) - 0.5) < 0.05
    assert Draw(1.0, 1.0, 3, 1).uniform(2) == Draw(0.5, 0.5, 3, 1).uniform(2)


@given(
    st.integers(0, 10_000), st.sampled_from([0.2, 0.7, 1.0, 1.5]), st.sampled_from([0.3, 0.9, 1.0])
)
@settings(deadline=None)
def test_picks_agree_with_sampling_written_down(
    seed: int, temperature: float, top_p: float
) -> None:
    logits = (np.random.default_rng(seed).standard_normal(200) * 4).astype(np.float32)
    draw = Draw(temperature, top_p, seed, 0)
    (found,) = pick(logits[None], [draw], [3])
    assert found.shaky or found.token == naive(logits, draw, 3)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from([0.3, 0.9, 1.0]))
@settings(deadline=None, max_examples=200)
def test_a_firm_pick_survives_rounding(seed: int, temperature: float, top_p: float) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.standard_normal(60) * 3).astype(np.float32)
    noise = rng.uniform(-TOLERANCE / 2, TOLERANCE / 2, 60).astype(np.float32)
    draw = Draw(temperature, top_p, seed, 0)
    (before,), (after,) = pick(logits[None], [draw], [0]), pick((logits + noise)[None], [draw], [0])
    assert before.shaky or before.token == after.token


def test_a_near_tie_is_shaky() -> None:
    logits = np.array([[1.0, 1.0 + TOLERANCE / 3, -3.0]], np.float32)
    assert pick(logits, [Draw(0.0, 1.0, 0, 0)], [0])[0].shaky
    assert not pick(logits * [[1, 2, 1]], [Draw(0.0, 1.0, 0, 0)], [0])[0].shaky


def test_a_row_is_picked_as_if_it_were_alone() -> None:
    rng = np.random.default_rng(0)
    logits = (rng.standard_normal((30, 50)) * 2).astype(np.float32)
    how = [
        Draw(float(rng.choice([0.0, 0.5, 1.0])), float(rng.choice([0.5, 1.0])), at, 0)
        for at in range(30)
    ]
    together = pick(logits, how, list(range(30)))
    assert together == [pick(logits[at : at + 1], how[at : at + 1], [at])[0] for at in range(30)]


def test_what_is_forbidden_is_never_picked() -> None:
    logits = np.zeros((1, 10), np.float32)
    logits[0, [0, 3, 9]] = -np.inf
    found = {pick(logits, [Draw(1.0, 1.0, seed, 0)], [0])[0].token for seed in range(300)}
    assert found == {1, 2, 4, 5, 6, 7, 8}


def test_log_probabilities_sum_to_one_and_the_best_come_first() -> None:
    logprobs = log_softmax(LOGITS * 3 + 50)
    assert abs(np.exp(logprobs).sum() - 1) < 1e-6
    assert [token for token, _ in best(logprobs, 3)] == [0, 1, 2]
    assert best(logprobs, 0) == [] and len(best(logprobs, 99)) == 5
