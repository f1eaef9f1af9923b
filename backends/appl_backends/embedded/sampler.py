"""From logits to a token: temperature, top-p, masks, log-probabilities.

Invariant: a draw is a function of the logits and of (seed, sample, position) alone. Products of
different batch shapes differ in the last bits, so ``pick`` also says whether its decision would
survive an error of ``TOLERANCE`` between any two logits (the largest that was measured is 0.7e-4);
the engine recomputes those that would not in one canonical way, and so the answer does not depend
on the company a request was in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Draw:
    """The random choice of one sample's tokens."""

    temperature: float
    top_p: float
    seed: int
    sample: int

    def uniform(self, position: int) -> float:
        """A number in [0, 1) for the token at *position* of the answer."""
        name = b"%d %d %d" % (self.seed, self.sample, position)
        return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") / 2.0**64


@dataclass(frozen=True, slots=True)
class Picked:
    """The token, and whether a tiny change of the logits might have given another."""

    token: int
    shaky: bool


def pick(logits: F32, draws: Sequence[Draw], positions: Sequence[int]) -> list[Picked]:
    """Choose a token from each row of logits; minus infinity forbids a token."""
    cold = {at: _greedy(logits[at]) for at, d in enumerate(draws) if d.temperature < TOLERANCE}
    if len(cold) == len(draws):
        return list(cold.values())
    weights = np.subtract(logits, np.maximum.reduce(logits, axis=-1, keepdims=True))
    if any(draw.temperature != 1.0 for draw in draws):
        scale = [draw.temperature or 1.0 for draw in draws]
        np.divide(weights, np.array(scale, np.float32)[:, None], weights)
    np.exp(weights, weights)
    heaps = np.cumsum(weights, axis=-1, dtype=np.float64)
    return [
        cold.get(at) or _sampled(weights[at], heaps[at], draw, draw.uniform(positions[at]))
        for at, draw in enumerate(draws)
    ]


def _greedy(logits: F32) -> Picked:
    token = int(logits.argmax())
    close = np.count_nonzero(logits > logits[token] - TOLERANCE)
    return Picked(token, bool(close > 1))


def _near(u: float, boundary: float, tolerance: float) -> bool:
    """True if *boundary*, a cumulated probability, might lie on the other side of *u*.

    When logits differ by no more than the tolerance from what they should be, relative to each
    other, a cumulated probability c is off by at most the tolerance times c (1 - c).
    """
    return abs(u - boundary) <= tolerance * boundary * (1.0 - boundary)


def _sampled(weights: F32, heap: F64, draw: Draw, u: float) -> Picked:
    """The token at *u* of the cumulated weights, in vocabulary order, of the nucleus."""
    kept, shaky, tolerance = None, False, TOLERANCE / draw.temperature
    if draw.top_p < 1.0:
        kept, shaky = _nucleus(weights, float(heap[-1]), draw.top_p, tolerance)
        heap = np.cumsum(weights[kept], dtype=np.float64)
    total = float(heap[-1])
    at = int(heap.searchsorted(u * total, side="right"))
    low, high = float(heap[at - 1]) / total if at else 0.0, float(heap[at]) / total
    shaky = shaky or _near(u, low, tolerance) or _near(u, high, tolerance)
    return Picked(at if kept is None else int(kept[at]), shaky)


def _nucleus(
    weights: F32, total: float, top_p: float, tolerance: float
) -> tuple[NDArray[np.intp], bool]:
    """The smallest set of most likely tokens that reaches *top_p*, in vocabulary order.

    Tokens below ``(1 - top_p) / vocabulary`` weigh less than ``1 - top_p`` together and never
    belong to it, which leaves few to sort.
    """
    few = np.flatnonzero(weights > (1.0 - top_p) * total / len(weights) / 2)
    few = few[np.argsort(-weights[few], kind="stable")]
    ordered = weights[few]
    heap = np.cumsum(ordered, dtype=np.float64) / total
    size = min(int(heap.searchsorted(top_p)) + 1, len(few))
    return np.sort(few[:size]), _shaky_cut(ordered, heap, size, top_p, tolerance)


def _shaky_cut(ordered: F32, heap: F64, size: int, top_p: float, tolerance: float) -> bool:
    """True if the nucleus might be one token larger or smaller, or have another last token."""
    before = float(heap[size - 2]) if size > 1 else 0.0
    if _near(top_p, before, tolerance) or _near(top_p, float(heap[size - 1]), tolerance):
        return True
    return size < len(ordered) and bool(ordered[size] > ordered[size - 1] * (1 - tolerance))


def log_softmax(logits: F32) -> F32:
    """Natural log-probabilities of each row, in float32."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    norm = np.log(np.exp(shifted).sum(axis=-1, keepdims=True, dtype=np.float64))
    logprobs: F32 = (shifted - norm).astype(np.float32)
    return logprobs


def best(logprobs: F32, count: int) -> list[tuple[int, float]]:
    """The *count* likeliest tokens of one row with their log-probabilities, likeliest first."""
    count = min(count, len(logprobs))
    top = np.argpartition(-logprobs, count - 1)[:count] if count else np.zeros(0, np.intp)
    ordered = top[np.argsort(-logprobs[top], kind="stable")]
    return [(int(token), float(logprobs[token])) for token in ordered]


def fresh_seed(data: bytes) -> int:
    """A 63-bit seed from *data*."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") >> 1
