"""What the order of requests is worth to a server that reuses prefixes: four loads as programs.

Run: python benchmarks/gpu/loads.py URL --tokenizer FOLDER [--pairs 5] [--scale 1] [--json FILE]
     python benchmarks/gpu/loads.py URL --tokenizer FOLDER --small [--json FILE]

Each load is a prompt program. In interleaved pairs, on a flushed cache, our runtime runs it, and a
bare aiohttp loop fires the same requests (the same token ids and sampling) at once. ``--small`` is
for a server whose cache is smaller than the working set (start it with --max-total-tokens 40000):
our scheduler against round-robin, groups in order, depth first and one group at a time.

"Hits" are prompt tokens that were not computed, as a share of those that need not be: all but the
tokens of the tree of prompts. Computed tokens are the server's own counters, so that requests
that only warm the cache count against us. Bars: each load >= 1.2 times faster, geometric mean
>= 1.4; >= 99% of the hits; with the small cache >= 2 times faster than round-robin with 16 in
flight, hits >= 95% of the best of the three orders.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from report import write  # noqa: E402

from appl import gen, ppl  # noqa: E402
from appl.backend import Emit, Request, Response, Sample  # noqa: E402
from appl.runtime.concurrency.loop_thread import io_thread  # noqa: E402
from appl.runtime.run import Run  # noqa: E402
from appl_backends.sglang import SGLang  # noqa: E402

SUFFIX = 24
ANSWER = 32


@dataclass(frozen=True)
class Load:
    """*groups* programs, each of which asks *branches* questions about *shared* tokens."""

    name: str
    groups: int
    branches: int
    shared: int


LOADS = [
    Load("self-consistency", 8, 10, 2048),
    Load("tree search", 4, 64, 4096),
    Load("agents", 32, 4, 1024),
    Load("long context", 4, 8, 12288),
]
SMALL = Load("small cache", 32, 8, 2048)


@ppl(ctx="copy")
def branch(question: str) -> Any:
    f"{question}"
    return gen(max_tokens=ANSWER, temperature=0, ignore_eos=True)


@ppl
def group(context: str, questions: Sequence[str]) -> list[Any]:
    f"{context}"
    return [branch(question) for question in questions]


@ppl
def whole(texts: Sequence[tuple[str, list[str]]]) -> list[str]:
    answers = [group(context, questions) for context, questions in texts]
    return [str(answer) for each in answers for answer in each]


class Texts:
    """Texts of about a given number of tokens, drawn from a seed."""

    def __init__(self, tokenizer: Path) -> None:
        import tokenizers

        inner = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
        self._size: Callable[[str], int] = lambda text: len(
            inner.encode(text, add_special_tokens=False).ids
        )
        letters = random.Random(0)
        self._words = [
            "".join(letters.choice("abcdefghijklmnoprstuvw") for _ in range(letters.randint(2, 7)))
            for _ in range(2000)
        ]

    def of(self, tokens: int, seed: str) -> str:
        """A text of at least *tokens* tokens, and few more."""
        dice = random.Random(seed)
        words: list[str] = []
        while (missing := tokens - self._size(" ".join(words))) > 0:
            words += [dice.choice(self._words) for _ in range(max(1, missing // 6))]
        return " ".join(words)

    def load(self, load: Load, scale: float) -> list[tuple[str, list[str]]]:
        """The contexts and questions of *load*."""
        shared = max(16, int(load.shared * scale))
        return [
            (
                self.of(shared, f"{load.name} {g}"),
                [f"\n{b}. {self.of(SUFFIX, f'{load.name} {g} {b}')}" for b in range(load.branches)],
            )
            for g in range(load.groups)
        ]


class Capture:
    """Answers at once, and keeps what was asked."""

    def __init__(self, backend: SGLang) -> None:
        self.profile, self.requests = backend.profile, list[Request]()

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.requests.append(request)
        return Response((Sample("", "stop"),) * request.n)

    async def aclose(self) -> None:
        """Nothing is held."""


class Server:
    """A server's counters and its cache."""

    def __init__(self, url: str) -> None:
        self.url = url

    def counters(self) -> tuple[int, int]:
        """All prompt tokens so far, and how many of them came from the cache."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as response:
            lines = response.read().decode().splitlines()
        return (
            int(_sum(lines, "sglang:prompt_tokens_total")),
            int(_sum(lines, "sglang:cached_tokens_total")),
        )

    def flush(self) -> None:
        """Empty the cache, when nothing runs any more."""
        for _ in range(50):
            with contextlib.suppress(OSError):
                request = urllib.request.Request(f"{self.url}/flush_cache", method="POST")
                with urllib.request.urlopen(request, timeout=60) as response:
                    if response.status == 200:
                        time.sleep(0.2)
                        return
            time.sleep(0.2)
        raise SystemExit("the server's cache cannot be flushed")


def _sum(lines: list[str], name: str) -> float:
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(name) and line[len(name)] in "{ "
    )


def unique(prompts: Sequence[Sequence[int]]) -> int:
    """The nodes of the tree of *prompts*: the tokens that somebody must compute."""
    total, before = 0, list[int]()
    for prompt in sorted(map(list, prompts)):
        same = next(
            (at for at, (a, b) in enumerate(zip(before, prompt, strict=False)) if a != b),
            min(len(before), len(prompt)),
        )
        total += len(prompt) - same
        before = prompt
    return total


@dataclass
class Measured:
    """Seconds of one run, and the share of the possible hits."""

    seconds: float
    hits: float


class Bench:
    """One server, one tokenizer; every load in every manner."""

    def __init__(self, url: str, tokenizer: Path, scale: float) -> None:
        self.server, self.scale = Server(url), scale
        self.texts = Texts(tokenizer)
        self.backend = SGLang(url=url, tokenizer=tokenizer)

    def close(self) -> None:
        """Let go of the connections."""
        _on_io(self.backend.aclose())

    def bodies(self, texts: list[tuple[str, list[str]]]) -> list[dict[str, Any]]:
        """The requests of a load as a bare client would send them, in the program's order."""
        capture = Capture(self.backend)
        with Run(capture):
            whole(texts)
        _on_io(self.backend.connect())
        ids = [self.backend.prompt_tokens(each) for each in capture.requests]
        sampling = {"max_new_tokens": ANSWER, "temperature": 0, "ignore_eos": True}
        return [{"input_ids": list(each), "sampling_params": sampling} for each in ids]

    def measured(self, bodies: list[dict[str, Any]], act: Callable[[], object]) -> Measured:
        """Flush, run *act*, and see what was computed for it."""
        self.server.flush()
        before = self.server.counters()
        began = time.perf_counter()
        act()
        seconds = time.perf_counter() - began
        after = self.server.counters()
        prompts = [body["input_ids"] for body in bodies]
        total, needed = sum(map(len, prompts)), unique(prompts)
        computed = (after[0] - before[0]) - (after[1] - before[1])
        return Measured(seconds, (total - computed) / (total - needed))

    def ours(self, texts: list[tuple[str, list[str]]]) -> None:
        """The program on our runtime."""
        with Run(self.backend):
            whole(texts)


def _on_io(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run_coroutine_threadsafe(work, io_thread().loop).result()


async def _post(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
    async with session.post(f"{url}/generate", json=body) as response:
        answer = await response.json()
        assert "meta_info" in answer, answer


def fired(url: str, bodies: list[dict[str, Any]], width: int | None = None) -> None:
    """Every request at once, or *width* of them at a time, by a bare aiohttp loop."""

    async def go() -> None:
        gate = asyncio.Semaphore(width or len(bodies))

        async def one(body: dict[str, Any]) -> None:
            async with gate:
                await _post(session, url, body)

        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(one(body) for body in bodies))

    asyncio.run(go())


def group_by_group(url: str, groups: list[list[dict[str, Any]]], leader: bool) -> None:
    """One group at a time; with *leader*, its first request alone before the others."""

    async def go() -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for bodies in groups:
                rest = bodies
                if leader:
                    await _post(session, url, bodies[0])
                    rest = bodies[1:]
                await asyncio.gather(*(_post(session, url, body) for body in rest))

    asyncio.run(go())


def pairs(bench: Bench, number: int, loads: Sequence[Load] = LOADS) -> dict[str, Any]:
    """Our runtime against all at once, interleaved; medians, ratios and hits."""
    found: dict[str, Any] = {}
    for load in loads:
        texts = bench.texts.load(load, bench.scale)
        bodies = bench.bodies(texts)
        bench.measured(bodies, lambda: fired(bench.server.url, bodies[:8]))  # noqa: B023
        ours, theirs = [], []
        for _ in range(number):
            theirs.append(bench.measured(bodies, lambda: fired(bench.server.url, bodies)))  # noqa: B023
            ours.append(bench.measured(bodies, lambda: bench.ours(texts)))  # noqa: B023
        ratios = [b.seconds / a.seconds for a, b in zip(ours, theirs, strict=True)]
        found[load.name] = {
            "requests": len(bodies),
            "prompt_tokens": sum(len(body["input_ids"]) for body in bodies),
            "unique_tokens": unique([body["input_ids"] for body in bodies]),
            "fired_s": [round(each.seconds, 3) for each in theirs],
            "ours_s": [round(each.seconds, 3) for each in ours],
            "fired_hits": round(statistics.median(each.hits for each in theirs), 4),
            "ours_hits": round(statistics.median(each.hits for each in ours), 4),
            "ratio": round(statistics.median(ratios), 3),
        }
        row = found[load.name]
        print(
            f"{load.name:18} fired {statistics.median(row['fired_s']):7.2f} s "
            f"({row['fired_hits']:.1%} of the hits)   "
            f"ours {statistics.median(row['ours_s']):7.2f} s "
            f"({row['ours_hits']:.1%})   {row['ratio']:.2f} times faster",
            flush=True,
        )
    found["geometric_mean"] = round(
        statistics.geometric_mean([found[load.name]["ratio"] for load in loads]), 3
    )
    print(f"geometric mean {found['geometric_mean']:.2f}", flush=True)
    return found


def small(bench: Bench, number: int) -> dict[str, Any]:
    """A cache smaller than the working set: our order against others."""
    texts = bench.texts.load(SMALL, bench.scale)
    bodies = bench.bodies(texts)
    size = SMALL.branches
    groups = [bodies[at : at + size] for at in range(0, len(bodies), size)]
    turns = [body for row in zip(*groups, strict=True) for body in row]
    url = bench.server.url
    manners: dict[str, Callable[[], object]] = {
        "round-robin, 16 in flight": lambda: fired(url, turns, 16),
        "round-robin, all at once": lambda: fired(url, turns),
        "groups in order, 16 in flight": lambda: fired(url, bodies, 16),
        "groups in order, all at once": lambda: fired(url, bodies),
        "depth first, leader first": lambda: group_by_group(url, groups, True),
        "one group at a time": lambda: group_by_group(url, groups, False),
        "ours": lambda: bench.ours(texts),
    }
    runs: dict[str, list[Measured]] = {name: [] for name in manners}
    for _ in range(number):
        for name, act in manners.items():
            runs[name].append(bench.measured(bodies, act))
    found: dict[str, Any] = {
        name: {
            "seconds": [round(each.seconds, 3) for each in rows],
            "hits": [round(each.hits, 4) for each in rows],
        }
        for name, rows in runs.items()
    }
    for name, row in found.items():
        print(
            f"{name:30} {statistics.median(row['seconds']):7.2f} s "
            f"{statistics.median(row['hits']):7.1%} of the hits",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the shared prefixes")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    bench = Bench(options.url, options.tokenizer, options.scale)
    found = (small if options.small else pairs)(bench, options.pairs)
    bench.close()
    print(json.dumps(found))
    write(options.json, f"python {' '.join(sys.argv)}", found)


if __name__ == "__main__":
    main()
