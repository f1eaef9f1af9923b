"""From logits to a token: temperature, top-p, masks, log-probabilities.

Invariant: a draw is a function of the logits and of (seed, sample, position) alone. Products of
different batch shapes differ in the last bits, so ``pick`` also says whether its decision would
survive an error of ``TOLERANCE`` in every logit; the engine recomputes those that would not in one
canonical way, and the answer no longer depends on the company a request was in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
TOLERANCE = 2e-5


@dataclass(frozen=True, slots=True)
class Draw:
    """How one sample chooses its tokens."""

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


def pick(logits: F32, draw: Draw, position: int) -> Picked:
    """Choose a token from one row of logits; minus infinity forbids a token."""
    if draw.temperature <= 0.0:
        return _greedy(logits)
    tolerance = 2 * TOLERANCE / draw.temperature
    if tolerance >= 1.0:
        return _greedy(logits)
    weights = np.subtract(logits, logits.max(), dtype=np.float32)
    if draw.temperature != 1.0:
        weights /= np.float32(draw.temperature)
    np.exp(weights, out=weights)
    return _sampled(weights, draw.top_p, draw.uniform(position), tolerance)


def _greedy(logits: F32) -> Picked:
    token = int(logits.argmax())
    close = np.count_nonzero(logits >= logits[token] - 2 * TOLERANCE)
    return Picked(token, bool(close > 1))


def _sampled(weights: F32, top_p: float, u: float, tolerance: float) -> Picked:
    """The token at *u* of the cumulated weights, in vocabulary order, of the nucleus."""
    kept, shaky = None, False
    if top_p < 1.0:
        kept, shaky = _nucleus(weights, top_p, tolerance)
        weights = weights[kept]
    heap = np.cumsum(weights, dtype=np.float64)
    total = float(heap[-1])
    at = min(int(np.searchsorted(heap, u * total, side="right")), len(heap) - 1)
    while weights[at] == 0.0:
        at -= 1
    low = float(heap[at - 1]) if at else 0.0
    near = tolerance * total
    shaky = (
        shaky
        or (at > 0 and u * total - low < near)
        or (float(heap[at]) < total and float(heap[at]) - u * total < near)
    )
    return Picked(int(at if kept is None else kept[at]), shaky)


def _nucleus(weights: F32, top_p: float, tolerance: float) -> tuple[NDArray[np.intp], bool]:
    """The smallest set of most likely tokens that reaches *top_p*, in vocabulary order.

    Tokens below ``(1 - top_p) / vocabulary`` weigh less than ``1 - top_p`` together and never
    belong to it, which leaves few to sort.
    """
    total = float(weights.sum(dtype=np.float64))
    floor = (1.0 - top_p) * total / len(weights) * (1 - tolerance)
    few = np.flatnonzero(weights > floor)
    few = few[np.argsort(-weights[few], kind="stable")]
    heap = np.cumsum(weights[few], dtype=np.float64) / total
    size = min(int(np.searchsorted(heap, top_p)) + 1, len(few))
    return np.sort(few[:size]), _shaky_cut(weights[few], heap, size, top_p, tolerance)


def _shaky_cut(
    ordered: F32, heap: NDArray[np.float64], size: int, top_p: float, tolerance: float
) -> bool:
    before = float(heap[size - 2]) if size > 1 else 0.0
    if top_p - before < tolerance or float(heap[size - 1]) - top_p < tolerance:
        return True
    return size < len(ordered) and bool(ordered[size] > ordered[size - 1] * (1 - 2 * tolerance))


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
