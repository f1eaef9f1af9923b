"""Hits of the embedded engine's prefix cache with passages in the order found, and in shared order.

    python benchmarks/passages.py [--questions N] [--seed N] [--out FILE]

Questions come with the passages that a search finds for them: of so many, the first ones are found
for most questions (Zipf), each time in another order. One run per order, all calls at once and one
after the other. Hits are prompt tokens that the engine took from its cache.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from appl import gen, passages, ppl
from appl.prompt import digest_of
from appl.testing import running
from appl_backends.embedded import Embedded

WORDS = "red blue green box lamp cat dog river tea bread house garden teacher baker pilot".split()
PASSAGES, TOP, WORDS_EACH = 60, 5, 25
Order = Callable[[list[str]], list[str]]


def corpus(dice: random.Random) -> list[str]:
    """The passages."""
    return [
        f"Passage {number}: {' '.join(dice.choices(WORDS, k=WORDS_EACH))}."
        for number in range(PASSAGES)
    ]


def searches(dice: random.Random, texts: Sequence[str], count: int) -> list[list[str]]:
    """For each question the passages that are found for it, the best first."""
    weights = [1 / (rank + 1) for rank in range(len(texts))]
    found = []
    for _ in range(count):
        taken: dict[str, None] = {}
        while len(taken) < TOP:
            taken[dice.choices(texts, weights)[0]] = None
        found.append(list(taken))
    return found


@ppl
def answer(found: list[str], number: int, order: Order) -> Any:
    "Facts:"
    for passage in order(found):
        f"{passage}"
    f"Question {number}: what is red?"
    return gen(max_tokens=4, temperature=0)


def run(
    found: list[list[str]], order: Order, cache_tokens: int, at_once: bool
) -> tuple[int, int, float]:
    """Prompt tokens, those from the cache, and seconds of CPU."""
    backend = Embedded(cache_tokens=cache_tokens, seed=1)
    began = time.process_time()
    with running(backend):
        answers = []
        for number, texts in enumerate(found):
            answers.append(answer(texts, number, order))
            if not at_once:
                str(answers[-1])
        for each in answers:
            str(each)
    report = backend.cache_report()
    return report["prompt_tokens"], report["cached_tokens"], time.process_time() - began


ORDERS: dict[str, Order] = {
    "as found": passages,
    "by digest (naive)": lambda found: sorted(found, key=digest_of),
    "shared": lambda found: passages(found, order="shared"),
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    dice = random.Random(given.seed)
    texts = corpus(dice)
    found = searches(dice, texts, given.questions)
    lines = [
        f"$ python {' '.join(sys.argv)}",
        f"{given.questions} questions, {TOP} of {PASSAGES} passages each, seed {given.seed}",
        f"{'cache':>7}  {'calls':<12} {'order':<18} {'tokens':>7} {'hits':>7} {'times':>6}"
        f" {'CPU s':>6}",
    ]
    for cache in (4096, 16384):
        for at_once in (False, True):
            base = 0
            for name, order in ORDERS.items():
                tokens, hits, seconds = run(found, order, cache, at_once)
                base = base or hits
                calls = "at once" if at_once else "one by one"
                lines.append(
                    f"{cache:>7}  {calls:<12} {name:<18} {tokens:>7} {hits:>7} "
                    f"{hits / base:>6.2f} {seconds:>6.1f}"
                )
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
