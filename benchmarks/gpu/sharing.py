"""Passages in shared order, and tree search by ``appl.keep``, on a server with a small cache.

Run: python benchmarks/gpu/sharing.py passages URL --tokenizer FOLDER [--rounds 2] [--json FILE]
     python benchmarks/gpu/sharing.py tree URL --tokenizer FOLDER [--rounds 2] [--json FILE]
     python benchmarks/gpu/sharing.py need

The cache must be smaller than what the prompts need, without a host tier: start the server with
--max-total-tokens. `need` prints what the widest level of a search needs, and asks no server.

Passages: each question has five of sixty, of 400 tokens each, of which the first ones are found for
most questions (Zipf), each time in another order. Calls go 16 at a time, and all at once.
Tree search: so many continuations at each level, spread over the kept texts by their scores (as
REBASE does). The probabilities of random weights say nothing, so that the score of a step is drawn
from a seed, with a spread like that of the embedded model's; a search then has the same shape on
each server. What a share costs in quality is measured by ``benchmarks/tree_search.py`` on a model.

Seconds are of the whole load; computed tokens are the server's own counters. Variants take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from loads import Server, Texts  # noqa: E402
from passages import PASSAGES, TOP, searches  # noqa: E402
from report import write  # noqa: E402
from tree_search import spread  # noqa: E402

import appl  # noqa: E402
from appl import gen, passages, ppl  # noqa: E402
from appl.backend import Backend  # noqa: E402
from appl.runtime.concurrency.loop_thread import io_thread  # noqa: E402
from appl.testing import Echo, running  # noqa: E402
from appl_backends.sglang import SGLang  # noqa: E402


@ppl
def answer(found: list[str], question: str) -> Any:
    "Facts:"
    for passage in found:
        f"{passage}"
    f"{question}"
    return gen(max_tokens=32, temperature=0, ignore_eos=True)


class Retrieval:
    """The questions and what is found for them."""

    def __init__(self, texts: Texts, questions: int, size: int) -> None:
        dice = random.Random(1)
        corpus = [f"Passage {at}: {texts.of(size, f'passage {at}')}." for at in range(PASSAGES)]
        self.found = searches(dice, corpus, questions)

    def run(self, backend: Backend, shared: bool, at_once: int) -> None:
        """Ask all questions, *at_once* of them at a time."""
        with running(backend):
            asked = list(enumerate(self.found))
            answers = appl.map(
                lambda each: str(
                    answer(
                        passages(each[1], order="shared") if shared else passages(each[1]),
                        f"Question {each[0]}: what is said here?",
                    )
                ),
                asked,
                concurrency=at_once,
                progress=False,
            )
            for _ in answers:
                pass


class Text(NamedTuple):
    """An unfinished text: its steps, what each of them is called, and the sum of their scores."""

    steps: tuple[str, ...] = ()
    names: tuple[int, ...] = ()
    total: float = 0.0

    @property
    def score(self) -> float:
        return self.total / max(len(self.names), 1)


@ppl
def go_on(topic: str, steps: tuple[str, ...], **options: Any) -> Any:
    f"{topic}"
    for step in steps:
        f"{step}"
    return gen(temperature=1.0, **options)


class Found(NamedTuple):
    """The best score, and how many steps the prompts of the widest level have that differ."""

    score: float
    widest: int


def search(
    topic: str, seed: int, share: float, options: argparse.Namespace, **asking: Any
) -> Found:
    """A search for a text about *topic*, whose calls have the options *asking*."""
    dice = random.Random(seed)
    texts, widest = [Text()], 0
    for level in range(options.levels):
        parents = spread(texts, options.width)
        begun = {each.names[:size] for each in parents for size in range(1, len(each.names) + 1)}
        widest = max(widest, len(begun))
        asked = [
            go_on(topic, parent.steps, max_tokens=options.length, **asking) for parent in parents
        ]
        texts = [
            Text(
                (*parent.steps, str(said)),
                (*parent.names, level * options.width + place),
                parent.total - dice.lognormvariate(-1.3, 0.7),
            )
            for place, (parent, said) in enumerate(zip(parents, asked, strict=True))
        ]
        if level + 1 < options.levels:
            texts = appl.keep(
                texts,
                [text.score for text in texts],
                options.width,
                share=share,
                path=lambda text: text.names,
            )
    return Found(max(text.score for text in texts), widest)


class Bench:
    """One server; each variant of a load in turn, on a flushed cache."""

    def __init__(self, url: str, options: argparse.Namespace) -> None:
        self.server, self.url, self.options = Server(url), url, options

    def measured(self, act: Callable[[Backend], object]) -> tuple[float, int, int]:
        """Seconds, and the prompt tokens that were computed and that were taken from the cache."""
        options = self.options
        backend = SGLang(
            url=self.url,
            tokenizer=options.tokenizer,
            template=options.template,
            advise=lambda line: None,
        )
        loop = io_thread().loop
        asyncio.run_coroutine_threadsafe(backend.connect(), loop).result()
        self.server.flush()
        before, began = self.server.counters(), time.perf_counter()
        act(backend)
        seconds, after = time.perf_counter() - began, self.server.counters()
        asyncio.run_coroutine_threadsafe(backend.aclose(), loop).result()
        hits = after[1] - before[1]
        return seconds, after[0] - before[0] - hits, hits

    def compared(self, name: str, variants: dict[str, Callable[[Backend], object]]) -> Any:
        """A row for each variant: medians, and how often the first one's time goes into its own."""
        found: dict[str, list[tuple[float, int, int]]] = {}
        self.measured(next(iter(variants.values())))  # the server compiles what it needs
        for _ in range(self.options.rounds):
            for variant, act in variants.items():
                found.setdefault(variant, []).append(self.measured(act))
        base: tuple[float, float] | None = None
        print(f"{name}, medians of {self.options.rounds}", flush=True)
        for variant, each in found.items():
            seconds, computed, hits = (
                statistics.median(column) for column in zip(*each, strict=True)
            )
            base = base or (seconds, hits)
            print(
                f"  {variant:12} {seconds:7.2f} s ({base[0] / seconds:.2f} times)"
                f"  computed {computed:9.0f}  hits {hits:9.0f}"
                f" ({hits / max(base[1], 1):.2f} times)",
                flush=True,
            )
        return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("load", choices=["passages", "tree", "need"])
    parser.add_argument("url", nargs="?", help="the server")
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--template", help="the model's own, or 'plain'")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--passage", type=int, default=400, help="tokens of a passage")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--levels", type=int, default=10)
    parser.add_argument("--length", type=int, default=48, help="tokens of a step")
    parser.add_argument("--searches", type=int, default=1)
    parser.add_argument("--share", type=float, nargs="*", default=[0.0, 2.0, 3.0])
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.load == "need":
        for share in options.share:
            with running(Echo()):
                found = [search("A text.", at, share, options) for at in range(options.searches)]
            widest = max(each.widest for each in found) * options.length
            print(f"share {share:g}: {widest} tokens, scores {[round(e.score, 3) for e in found]}")
        return
    if options.url is None or options.tokenizer is None:
        parser.error("URL and --tokenizer are needed")
    texts, bench = Texts(options.tokenizer), Bench(options.url, options)
    if options.load == "passages":
        results = retrieved(bench, Retrieval(texts, options.questions, options.passage))
    else:
        results = searched(bench, texts.of(200, "topic"))
    write(options.json, f"python {' '.join(sys.argv)}", results)


def retrieved(bench: Bench, retrieval: Retrieval) -> dict[str, Any]:
    """The questions with their passages as found, and in shared order."""
    results, count = {}, len(retrieval.found)
    for at_once in (16, count):

        def asked(shared: bool, at_once: int = at_once) -> Callable[[Backend], object]:
            return lambda backend: retrieval.run(backend, shared, at_once)

        results[f"passages {at_once}"] = bench.compared(
            f"{count} questions with {TOP} passages, {at_once} at a time",
            {"as found": asked(False), "shared": asked(True)},
        )
    return results


def searched(bench: Bench, topic: str) -> dict[str, Any]:
    """The tree search with each share."""
    options = bench.options

    def act(backend: Backend, share: float) -> None:
        with running(backend):
            for at in range(options.searches):
                search(f"{at}. {topic}", at, share, options, ignore_eos=True)

    found = bench.compared(
        f"tree search, {options.width} wide, {options.levels} levels of {options.length} tokens",
        {f"share {share:g}": partial(act, share=share) for share in options.share},
    )
    return {"tree search": found}


if __name__ == "__main__":
    main()
