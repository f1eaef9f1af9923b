"""Tree search on the embedded engine with a small prefix cache, by ``appl.keep`` with a share.

    python benchmarks/tree_search.py [--width N] [--levels N] [--searches N] [--share X …]

A search goes on with the best unfinished texts of each level: so many continuations in all, spread
over the kept texts by their scores (as REBASE does). The score of a text is the mean
log-probability of its tokens by the model itself, and the quality of a search is that of its best
text at the end. The cache holds a part of what the prompts of the widest level need without share.
One search says little of quality: the change is the mean over all searches, with its standard
error. Searches run in processes of their own, one to a core; times are their CPU seconds.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import appl
from appl import gen, ppl
from appl.backend import Request
from appl.testing import running
from appl_backends.embedded import Embedded
from appl_backends.embedded.task import EngineTask

TOPICS = ["gardens", "night trains", "bread", "rivers", "teachers", "lamps", "winter", "harbours"]
TEMPERATURE = 0.5  # of the spread of continuations over texts


class Endless(Embedded):
    """The embedded model without an end of its answers: all steps have the same length."""

    def _prepare(self, request: Request, stream: bool, begun: bool) -> EngineTask:
        task = super()._prepare(request, stream, begun)
        task.min_tokens = task.max_tokens
        return task


class Text(NamedTuple):
    """An unfinished text: its steps, and the log-probability and number of their tokens."""

    steps: tuple[str, ...] = ()
    logprob: float = 0.0
    tokens: int = 0

    @property
    def score(self) -> float:
        return self.logprob / max(self.tokens, 1)


@ppl
def go_on(topic: str, steps: tuple[str, ...], length: int, seed: int) -> Any:
    f"Write an outline about {topic}."
    for step in steps:
        f"{step}"
    return gen(max_tokens=length, temperature=1.0, seed=seed, logprobs=0)


def spread(texts: Sequence[Any], width: int) -> list[Any]:
    """*width* places for continuations, more for those with better scores."""
    weights = [math.exp(text.score / TEMPERATURE) for text in texts]
    left, places = sum(weights), width
    found: list[Any] = []
    for text, weight in sorted(zip(texts, weights, strict=True), key=lambda pair: -pair[1]):
        count = min(math.ceil(places * weight / left - 1e-9), places) if left > 0 else 0
        found += [text] * count
        places, left = places - count, left - weight
    return found


class Found(NamedTuple):
    """The score of the best text, how many texts were gone on with, and the widest level's tokens.

    Those are the tokens of all different beginnings of its prompts, without the question.
    """

    score: float
    distinct: int
    widest: int


def search(topic: str, seed: int, args: argparse.Namespace, share: float) -> Found:
    """A search for a text about *topic*."""
    texts = [Text()]
    distinct = widest = 0
    length: dict[tuple[str, ...], int] = {(): 0}  # of the last step of each text
    for level in range(args.levels):
        parents = spread(texts, args.width)
        live = {parent.steps for parent in parents}
        begun = {steps[:size] for steps in live for size in range(len(steps) + 1)}
        widest = max(widest, sum(length[steps] for steps in begun))
        distinct += len(live)
        asked = [
            go_on(topic, parent.steps, args.length, seed * 100_000 + level * 1000 + place)
            for place, parent in enumerate(parents)
        ]
        texts = []
        for parent, answer in zip(parents, asked, strict=True):
            tokens = answer.logprobs or ()
            total = parent.logprob + sum(token.logprob for token in tokens)
            steps = (*parent.steps, " ".join(str(answer).split()))
            length[steps] = len(tokens)
            texts.append(Text(steps, total, parent.tokens + len(tokens)))
        if level + 1 < args.levels:
            texts = appl.keep(
                texts, [text.score for text in texts], args.kept or args.width,
                share=share, cover=args.cover, path=lambda text: text.steps,
            )  # fmt: skip
    return Found(max(text.score for text in texts), distinct, widest)


class Sums(NamedTuple):
    """What a variant has taken."""

    seconds: float
    computed: int
    cached: int
    score: float
    distinct: int
    decoded: int


def run(args: argparse.Namespace, share: float, cache: int, topic: str, seed: int) -> Sums:
    backend = Endless(cache_tokens=cache, row_tokens=65536, max_batch=args.width, seed=1)
    began = time.process_time()
    with running(backend):
        found = search(topic, seed, args, share)
    report = backend.cache_report()
    prompt, cached = report["prompt_tokens"], report["cached_tokens"]
    seconds, decoded = time.process_time() - began, report["decoded_tokens"]
    return Sums(seconds, prompt - cached, cached, found.score, found.distinct, decoded)


def need(args: argparse.Namespace) -> int:
    """The tokens of the prompts of the widest level of a search without share."""
    backend = Endless(cache_tokens=1 << 16, row_tokens=65536, max_batch=args.width, seed=1)
    with running(backend):
        wide = argparse.Namespace(**{**vars(args), "kept": None})
        return search(TOPICS[0], 0, wide, 0.0).widest


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--levels", type=int, default=16)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--room", type=float, default=0.25)
    parser.add_argument("--searches", type=int, default=len(TOPICS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--share", type=float, nargs="*", default=[0.0, 2.0, 3.0])
    parser.add_argument("--cover", type=float, default=1.0)
    parser.add_argument("--kept", type=int, help="texts that are gone on with at most; the width")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    whole = need(args)
    cache = int(whole * args.room)
    lines = [
        f"$ python {' '.join(sys.argv)}",
        f"width {args.width}, {args.levels} levels of {args.length} tokens, {args.searches} "
        f"searches; the widest level without share needs {whole} tokens, the cache holds {cache}",
        f"{'share':>6} {'seconds':>8} {'times':>6} {'computed':>9} {'cached':>8} {'decoded':>8}"
        f" {'gone on':>8} {'quality':>8} {'change':>7} {'error':>6}",
    ]
    with ProcessPoolExecutor(args.jobs) as pool:
        asked = {
            (share, number): pool.submit(
                run, args, share, cache, TOPICS[number % len(TOPICS)], number
            )
            for number in range(args.searches)
            for share in args.share
        }
        for (share, number), each in asked.items():
            print(number, share, each.result(), file=sys.stderr, flush=True)
    sums = {
        share: [asked[share, number].result() for number in range(args.searches)]
        for share in args.share
    }
    first = sums[args.share[0]]
    base = sum(each.seconds for each in first)
    for share, found in sums.items():
        seconds = sum(each.seconds for each in found)
        quality = math.exp(statistics.fmean(each.score for each in found))
        changes = [each.score - before.score for each, before in zip(found, first, strict=True)]
        error = statistics.stdev(changes) / len(changes) ** 0.5 if len(changes) > 1 else math.nan
        lines.append(
            f"{share:>6g} {seconds:>8.1f} {base / seconds:>6.2f} "
            f"{sum(each.computed for each in found):>9} {sum(each.cached for each in found):>8} "
            f"{sum(each.decoded for each in found):>8} "
            f"{sum(each.distinct for each in found):>8} {quality:>8.4f} "
            f"{100 * math.expm1(statistics.fmean(changes)):>6.1f}% {100 * error:>5.1f}%"
        )
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.out is not None:
        args.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
