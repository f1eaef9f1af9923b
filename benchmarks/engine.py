"""Engine step against its own products: same run, same shapes, same BLAS threads.

    python benchmarks/engine.py

A step is the whole of ``Engine.step``: scheduling, forward pass, sampling at the default
temperature, text. The products are its weight and attention products alone, attention in one call
for the whole batch. Contexts are 256 tokens on average. In each round steps and products alternate;
shown are medians over the rounds, of medians within a round.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from appl.prompt import AIMessage, Message, Messages, UserMessage
from appl_backends.embedded import WEIGHTS
from appl_backends.embedded.blas_threads import BlasThreads
from appl_backends.embedded.engine import BatchEngine
from appl_backends.embedded.model import Llama
from appl_backends.embedded.products import Product, rows_for
from appl_backends.embedded.radix import RadixCache
from appl_backends.embedded.sampler import Draw
from appl_backends.embedded.task import EngineTask
from appl_backends.embedded.tokenizer import Tokenizer

CONTEXT, STEPS, ROUNDS = 256, 32, 9
QUESTION = (
    "{name} has {a} apples and buys {b} bags with 4 apples each. How many apples are there now?"
)
ANSWER = "{b} * 4 = {c}\n{a} + {c} = {d}\nAnswer: {d}"


def calibration() -> float:
    """Seconds of a fixed pure-Python loop, to compare machines."""
    start = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return time.perf_counter() - start


def products(model: Llama, batch: int) -> Callable[[], None]:
    """One step's weight and attention products, in its order, on preallocated arrays."""
    s, rng = model.shape, np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    kv = array(s.layers, batch, 2 * s.kv_heads, CONTEXT, s.head_dim)
    keys, values = kv[:, :, : s.kv_heads].swapaxes(3, 4), kv[:, :, s.kv_heads :]
    q, scores = (
        array(batch, s.kv_heads, s.groups, s.head_dim),
        array(batch, s.kv_heads, s.groups, CONTEXT),
    )
    mixed = np.empty_like(q)

    def weighted(blocks: np.ndarray) -> Callable[[], object]:
        source = array(rows_for(batch), blocks.shape[1])
        target = np.empty((len(source), blocks.shape[0] * blocks.shape[2]), np.float32)
        return partial(Product(source, target).compute, blocks)

    steps: list[Callable[[], object]] = []
    for layer, k, v in zip(model.layers, keys, values, strict=True):
        steps += [weighted(layer.qkv), partial(np.matmul, q, k, out=scores)]
        steps += [partial(np.matmul, scores, v, out=mixed), weighted(layer.out)]
        steps += [weighted(layer.gate_up), weighted(layer.down)]
    steps.append(weighted(model.head))

    def run() -> None:
        for step in steps:
            step()

    return run


def chat(tokenizer: Tokenizer, rng: random.Random) -> list[int]:
    """A conversation about apples that leaves half of the steps to the context's length."""
    messages: list[Message] = []
    limit = CONTEXT - STEPS // 2
    while True:
        a, b = rng.randint(2, 90), rng.randint(2, 20)
        values = {"a": a, "b": b, "c": 4 * b, "d": a + 4 * b, "name": rng.choice(["Mia", "Tom"])}
        messages.append(UserMessage(QUESTION.format(**values)))
        ids = tokenizer.prompt(Messages.of(messages), 4000).ids
        if len(ids) > limit:
            return ids[:1] + ids[len(ids) - limit + 1 :]
        messages.append(AIMessage(ANSWER.format(**values)))


def engine_at(model: Llama, tokenizer: Tokenizer, batch: int, temperature: float) -> BatchEngine:
    """An engine whose *batch* sequences are about to decode around the context length."""
    engine = BatchEngine(
        model, tokenizer, RadixCache(model.shape, 2048), max_batch=batch, chunk=512
    )
    engine._banned[tokenizer.end] = -np.inf  # no answer ends while it is timed
    for index in range(batch):
        ids = chat(tokenizer, random.Random(index))
        engine.submit(EngineTask(ids, [Draw(temperature, 1.0, 7, index)], 2 * STEPS))
    while not engine.running or any(run.todo != 1 for run in engine.running) or engine.waiting:
        engine.step()
    return engine


def timed(run: Callable[[], object]) -> float:
    """Seconds of one call of *run*."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(folder: Path, batch: int, threads: int | None, temperature: float) -> str:
    """One line: step, products, their ratio and the tokens per second."""
    model, tokenizer = Llama.load(folder), Tokenizer(folder)
    alone = products(model, batch)
    rounds, again = [], 0
    with BlasThreads(threads):
        for _ in range(ROUNDS):
            engine = engine_at(model, tokenizer, batch, temperature)
            pairs = [(timed(engine.step), timed(alone)) for _ in range(STEPS)]
            step, product = (statistics.median(times) for times in zip(*pairs, strict=True))
            rounds.append((step, product, step / product))
            again += engine.counters.recomputed
    step, product, ratio = (statistics.median(values) for values in zip(*rounds, strict=True))
    return (
        f"batch {batch:2d}: step {step * 1e3:6.3f} ms, products {product * 1e3:6.3f} ms, "
        f"ratio {ratio:.2f} (rounds {min(r[2] for r in rounds):.2f} to "
        f"{max(r[2] for r in rounds):.2f}), {batch / step:5.0f} tokens/s, "
        f"{again} of {ROUNDS * STEPS * batch} tokens recomputed"
    )


def main() -> None:
    """Print the comparison for batches of 1 and 16."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads of both (default 1)")
    parser.add_argument("--temperature", type=float, default=1.0)
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"calibration loop {calibration() * 1e3:.1f} ms, {options.threads} BLAS thread(s)")
    for batch in (1, 16):
        print(compare(options.weights, batch, options.threads, options.temperature))


if __name__ == "__main__":
    main()
