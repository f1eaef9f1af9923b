"""Sixteen branches on a cold shared prefix: prompt tokens computed against the optimum.

    python benchmarks/radix.py

Each case draws a prefix of 37 to 700 tokens and 16 suffixes of 5 to 60, submits all branches at
once to an empty radix cache, and decodes a few tokens greedily. The optimum is the number of
distinct prompt prefixes. The same branches then run on the naive cache: tokens must be equal, and
the logits of every step close.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from appl_backends.embedded import WEIGHTS
from appl_backends.embedded.blas_threads import BlasThreads
from appl_backends.embedded.cache import PrefixCache
from appl_backends.embedded.engine import BatchEngine
from appl_backends.embedded.model import F32, Llama
from appl_backends.embedded.naive import NaiveCache
from appl_backends.embedded.radix import RadixCache
from appl_backends.embedded.sampler import Draw
from appl_backends.embedded.task import EngineTask, Finished, SequenceRun
from appl_backends.embedded.tokenizer import Tokenizer

BRANCHES, DECODED = 16, 8


class Watched(BatchEngine):
    """An engine that keeps the logits of every token it chose."""

    def __init__(self, model: Llama, tokenizer: Tokenizer, cache: PrefixCache) -> None:
        super().__init__(model, tokenizer, cache, max_batch=BRANCHES)
        self.seen: dict[tuple[int, int], F32] = {}

    def _choose(self, runs: Sequence[SequenceRun], raw: F32) -> list[int]:
        for run, logits in zip(runs, raw, strict=True):
            self.seen[run.task.order, run.generated] = logits.copy()
        return super()._choose(runs, raw)


def branches(tokenizer: Tokenizer, rng: random.Random) -> list[list[int]]:
    """Sixteen prompts with a random shared prefix."""

    def some(count: int) -> list[int]:
        return [rng.randrange(8, tokenizer.size) for _ in range(count)]

    prefix = [tokenizer.start, *some(rng.randint(37, 700) - 1)]
    return [prefix + some(rng.randint(5, 60)) for _ in range(BRANCHES)]


def optimum(prompts: list[list[int]]) -> int:
    """How many distinct non-empty prefixes the prompts have."""
    return len({tuple(prompt[:end]) for prompt in prompts for end in range(1, len(prompt) + 1)})


def answers(engine: BatchEngine, prompts: list[list[int]]) -> dict[int, list[int]]:
    """The greedy tokens of every prompt, by order of submission."""
    for prompt in prompts:
        engine.submit(EngineTask(prompt, [Draw(0.0, 1.0, 0, 0)], DECODED))
    found: dict[int, list[int]] = {}
    while len(found) < len(prompts):
        for outcome in engine.step():
            assert isinstance(outcome, Finished), outcome
            found[outcome.task.order] = outcome.task.live[0].ids[len(outcome.task.prompt) :]
    return found


def case(model: Llama, tokenizer: Tokenizer, seed: int) -> tuple[float, float, bool]:
    """Computed over optimal tokens, largest difference of logits, and whether tokens are equal."""
    prompts = branches(tokenizer, random.Random(seed))
    radix = Watched(model, tokenizer, RadixCache(model.shape, 256))
    naive = Watched(model, tokenizer, NaiveCache())
    equal = answers(radix, prompts) == answers(naive, prompts)
    worst = max(float(np.abs(radix.seen[at] - naive.seen[at]).max()) for at in radix.seen)
    return radix.counters.computed_tokens / optimum(prompts), worst, equal


def main() -> None:
    """Print the worst and the mean of all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--cases", type=int, default=40)
    options = parser.parse_args()
    model, tokenizer = Llama.load(options.weights), Tokenizer(options.weights)
    with BlasThreads(1):
        results = [case(model, tokenizer, seed) for seed in range(options.cases)]
    ratios, worst, equal = zip(*results, strict=True)
    print(f"{options.cases} cases of {BRANCHES} branches, seeds 0 to {options.cases - 1}")
    print(f"computed / optimal prompt tokens: mean {np.mean(ratios):.4f}, worst {max(ratios):.4f}")
    print(f"greedy tokens equal to the naive cache's: {sum(equal)} of {options.cases}")
    print(f"largest difference of a logit: {max(worst):.1e}")


if __name__ == "__main__":
    main()
