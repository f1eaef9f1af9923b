"""Prompts and answers on servers of their own, against two replicas: chats beside long prompts.

Run: python benchmarks/gpu/apart.py apart PREFILL_URL DECODE_URL --tokenizer FOLDER --json FILE
     python benchmarks/gpu/apart.py replicas URL URL --tokenizer FOLDER --json FILE
     python benchmarks/gpu/apart.py compare FILE_APART FILE_REPLICAS [FILE_REPLICAS ...]

Our client asks. 32 chats stream answers of 96 tokens, turn by turn, while a prompt of 12,000 tokens
comes every two seconds; of two replicas each conversation has one. A gap is the time between two
pieces of a streamed answer that a reader sees. Before that, prompts of 20 to 15,000 tokens are
answered greedily, whose tokens must be equal. Bars: the gap that 999 of 1,000 stay below at most
0.1 times that of the replicas; throughput is reported.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from loads import Texts  # noqa: E402
from report import write  # noqa: E402

from appl.backend import Request, Response, Sampling  # noqa: E402
from appl.errors import BackendError  # noqa: E402
from appl.prompt import Message, Messages  # noqa: E402
from appl_backends.sglang import SGLang  # noqa: E402

SIZES = (20, 300, 1000, 3000, 9000, 15000)
PAUSE_S = 0.3  # of the reader of a chat, before the next turn


class DrawnOnce(Texts):
    """Texts that are kept, so that each is drawn once."""

    def __init__(self, tokenizer: Path) -> None:
        super().__init__(tokenizer)
        self._drawn: dict[tuple[int, str], str] = {}

    def of(self, tokens: int, seed: str) -> str:
        if (tokens, seed) not in self._drawn:
            self._drawn[tokens, seed] = super().of(tokens, seed)
        return self._drawn[tokens, seed]


def request(messages: Messages, tokens: int) -> Request:
    sampling = Sampling(temperature=0.0, max_tokens=tokens, extra=(("ignore_eos", True),))
    return Request("/chat", 0, "", messages, sampling)


def share(values: list[float], part: float) -> float | None:
    """The value in milliseconds that this *part* of *values* does not exceed."""
    if not values:
        return None
    return round(sorted(values)[min(len(values) - 1, int(len(values) * part))] * 1000, 1)


def halts(gaps: list[tuple[float, float]], at_least: float = 0.05) -> list[dict[str, float]]:
    """When streams stood still together, the longest first.

    *gaps* have the times of their ends and their lengths. Those of at least *at_least* seconds that
    end within 20 ms of each other are one halt.
    """
    found: list[dict[str, float]] = []
    last = -1.0
    for end, gap in sorted(each for each in gaps if each[1] >= at_least):
        if end - last > 0.02:
            found.append({"at_s": round(end, 2), "ms": 0.0, "streams": 0})
        found[-1]["ms"] = max(found[-1]["ms"], round(gap * 1000, 1))
        found[-1]["streams"] += 1
        last = end
    return sorted(found, key=lambda each: -each["ms"])[:20]


class Load:
    """The chats and long prompts on *backends*, for so many *seconds*."""

    def __init__(self, backends: list[SGLang], texts: Texts, options: argparse.Namespace) -> None:
        self.backends, self.texts, self.options = backends, texts, options
        self.gaps: list[tuple[float, float]] = []  # when each ended, and its length, in seconds
        self.asked: list[float] = []  # when long prompts were sent
        self.began = 0.0
        self.first: list[float] = []
        self.calls: list[float] = []
        self.long: list[float] = []
        self.tokens = 0
        self.errors: list[str] = []

    def size(self, tokens: int) -> int:
        return max(8, int(tokens * self.options.scale))

    async def streamed(
        self, key: int, messages: Messages, tokens: int
    ) -> tuple[Response, list[float]]:
        """The answer, and the times at which pieces of it came, from the question on."""
        began, times = time.perf_counter(), list[float]()
        backend = self.backends[key % len(self.backends)]
        asked = backend.complete(
            request(messages, tokens), lambda chunk: times.append(time.perf_counter() - began)
        )
        return await asked, times

    async def chat(self, number: int, stop: float, dice: random.Random) -> None:
        await asyncio.sleep(dice.random() * 2)
        turn, chain = 0, self.opening(number, 0)
        while time.perf_counter() < stop:
            began = time.perf_counter()
            try:
                answer, times = await self.streamed(number, chain, self.size(96))
            except BackendError as error:
                self.errors.append(str(error)[:200])
                await asyncio.sleep(0.5)
                continue
            self.calls.append(time.perf_counter() - began)
            self.first += times[:1]
            since = began - self.began
            for earlier, later in itertools.pairwise(times):
                self.gaps.append((since + later, later - earlier))
            self.tokens += answer.usage.completion_tokens or 0
            turn += 1
            chain = Messages(chain, Message("assistant", answer.text))
            more = self.texts.of(self.size(150), f"chat {number} {turn}")
            chain = Messages(chain, Message("user", more))
            if chain.size > self.size(6000) * 6:
                chain = self.opening(number, turn)
            await asyncio.sleep(PAUSE_S)

    def long_texts(self) -> list[str]:
        count = int(self.options.seconds / 2) + 1
        return [self.texts.of(self.size(12000), f"long {at}") for at in range(count)]

    def draw(self) -> None:
        """Draw all texts, as drawing them on the loop of the load would make gaps."""
        self.long_texts()
        for number in range(self.options.chats):
            for turn in range(int(self.options.seconds / PAUSE_S) + 1):
                self.opening(number, turn)
                self.texts.of(self.size(150), f"chat {number} {turn}")

    def opening(self, number: int, turn: int) -> Messages:
        text = self.texts.of(self.size(600), f"chat {number} {turn} opening")
        return Messages.of([Message("user", text)])

    async def prompts(self, stop: float) -> None:
        tasks = []

        async def one(number: int, text: str) -> None:
            messages = Messages.of([Message("user", text)])
            try:
                _, times = await self.streamed(number, messages, 16)
                self.long += times[:1]
            except BackendError as error:
                self.errors.append("long: " + str(error)[:200])

        for number, text in enumerate(self.long_texts()):
            if time.perf_counter() >= stop:
                break
            self.asked.append(round(time.perf_counter() - self.began, 2))
            tasks.append(asyncio.ensure_future(one(number, text)))
            await asyncio.sleep(2)
        await asyncio.gather(*tasks)

    async def run(self) -> dict[str, Any]:
        dice, began = random.Random(1), time.perf_counter()
        self.began = began
        stop = began + self.options.seconds
        chats = [self.chat(at, stop, dice) for at in range(self.options.chats)]
        await asyncio.gather(*chats, self.prompts(stop))
        took = time.perf_counter() - began
        parts = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "most": 1.0}

        def shares(values: list[float]) -> dict[str, float | None]:
            return {name: share(values, part) for name, part in parts.items()}

        return {
            "seconds": round(took, 1),
            "tokens_s": round(self.tokens / took),
            "gap_ms": shares([gap for _, gap in self.gaps]),
            "first_ms": shares(self.first),
            "call_ms": shares(self.calls),
            "long_first_ms": shares(self.long),
            "calls": len(self.calls),
            "long": len(self.long),
            "halts": halts(self.gaps),
            "long_asked_s": self.asked,
            "errors": self.errors[:5],
            "failed": len(self.errors),
        }


async def measured(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "tokenizer": options.tokenizer,
        "template": options.template,
        "advise": lambda line: None,
    }
    one, two = options.urls
    if options.kind == "apart":
        backends = [SGLang(url=two, prefill=one, **given)]
    else:
        backends = [SGLang(url=one, **given), SGLang(url=two, **given)]
    texts, equal = DrawnOnce(options.tokenizer), []
    for each in backends:
        await each.connect()
    load = Load(backends, texts, options)
    load.draw()
    for size in SIZES:
        text = texts.of(load.size(size), f"same {size}")
        began = time.perf_counter()
        answer, _ = await load.streamed(0, Messages.of([Message("user", text)]), 24)
        equal.append({"tokens": size, "text": answer.text, "s": time.perf_counter() - began})
        print(f"{size} tokens: {equal[-1]['s']:.2f} s", flush=True)
    opened = [load.streamed(at, load.opening(at, -1), 16) for at in range(options.chats)]
    await asyncio.gather(*opened)  # connections and first kernels
    rounds = []
    for number in range(options.rounds + 1):  # the first one compiles kernels, and does not count
        for each in backends:
            await each.flush_cache()
        found = await Load(backends, texts, options).run()
        print("" if number else "not counted: ", json.dumps(found), flush=True)
        if number:
            rounds.append(found)
    for each in backends:
        await each.aclose()
    return {"equal": equal, "rounds": rounds}


def compare(files: list[str]) -> None:
    first, *others = (json.loads(Path(each).read_text("utf-8")) for each in files)
    first = first.get("results", first)
    for file, other in zip(files[1:], others, strict=True):
        other = other.get("results", other)
        pairs = list(zip(first["equal"], other["equal"], strict=True))
        same = sum(a["text"] == b["text"] for a, b in pairs)
        print(f"{files[0]} against {file}: {same} of {len(pairs)} greedy answers equal")
        for mine, theirs in zip(first["rounds"], other["rounds"], strict=False):
            for name in ("gap_ms", "first_ms", "call_ms", "long_first_ms"):
                each = [f"{part} {mine[name][part]} / {theirs[name][part]}" for part in mine[name]]
                print(f"  {name:14} " + ", ".join(each))
            print(f"  tokens/s       {mine['tokens_s']} / {theirs['tokens_s']}")
            print(f"  calls          {mine['calls']} / {theirs['calls']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=["apart", "replicas", "compare"])
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--template", help="the model's own, or 'plain'")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--chats", type=int, default=32)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.kind == "compare":
        compare(options.urls)
        return
    found = asyncio.run(measured(options))
    write(options.json, f"python {' '.join(sys.argv)}", found)


if __name__ == "__main__":
    main()
