"""What it is worth to send a shared beginning ahead, for one group of calls alone on a server.

Run: python benchmarks/gpu/warming.py URL --tokenizer FOLDER [--rounds 3] [--json FILE]

Each group asks for 16 tokens after a shared beginning and a suffix of 24 tokens: all at once, and
after one request of the beginning. A bare aiohttp loop with open connections sends them, on a
flushed cache. ``again`` are the tokens of the beginning that the server computed more than once
when all were sent at once; ``says`` is the decision of the client.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
from loads import Server, Texts, _post
from report import write

from appl.runtime.scheduling.prefix_order.beginnings import SharedBeginning

ANSWER, SUFFIX = 16, 24
GROUPS = [(8, 200), (64, 200), (8, 500), (64, 500), (8, 1000), (32, 1000), (8, 2000), (8, 4000)]


class Bench:
    """One server, and the groups of calls that it is asked."""

    def __init__(self, url: str, tokenizer: Path) -> None:
        import tokenizers

        self.url, self.server, self.texts = url, Server(url), Texts(tokenizer)
        self._ids = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))

    def group(self, calls: int, shared: int, seed: str) -> tuple[list[int], list[list[int]]]:
        """A beginning, and the prompts that share it."""
        begin = self._encoded(self.texts.of(shared, seed))[:shared]
        ends = [self._encoded(self.texts.of(SUFFIX, f"{seed} {at}")) for at in range(calls)]
        return begin, [begin + end for end in ends]

    def _encoded(self, text: str) -> list[int]:
        ids: list[int] = self._ids.encode(text, add_special_tokens=False).ids
        return ids

    async def timed(
        self,
        session: aiohttp.ClientSession,
        begin: list[int],
        prompts: list[list[int]],
        first: bool,
    ) -> tuple[float, float, int]:
        """Seconds of the beginning and of all, and the tokens computed more than once."""
        self.server.flush()
        before, began = self.server.counters(), time.perf_counter()
        if first:
            await _post(session, self.url, _body(begin, 0))
        warmed = time.perf_counter() - began
        await asyncio.gather(*(_post(session, self.url, _body(ids, ANSWER)) for ids in prompts))
        seconds, after = time.perf_counter() - began, self.server.counters()
        computed = (after[0] - before[0]) - (after[1] - before[1])
        return (
            warmed,
            seconds,
            computed - len(begin) - sum(len(ids) - len(begin) for ids in prompts),
        )


def _body(ids: list[int], answer: int) -> dict[str, Any]:
    sampling = {"max_new_tokens": answer, "temperature": 0, "ignore_eos": answer > 0}
    return {"input_ids": ids, "sampling_params": sampling}


async def measured(bench: Bench, rounds: int) -> dict[str, Any]:
    """The medians of all groups, after a group that opens the connections."""
    found: dict[str, Any] = {}
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
    async with aiohttp.ClientSession(connector=connector) as session:
        await bench.timed(session, *bench.group(64, 64, "open"), False)
        for calls, shared in GROUPS:
            begin, prompts = bench.group(calls, shared, f"{calls} {shared}")
            at_once, ahead = [], []
            for _ in range(rounds):
                at_once.append(await bench.timed(session, begin, prompts, False))
                ahead.append(await bench.timed(session, begin, prompts, True))
            found[f"{calls} × {shared}"] = row(calls, shared, at_once, ahead)
    return found


def row(
    calls: int,
    shared: int,
    at_once: list[tuple[float, float, int]],
    ahead: list[tuple[float, float, int]],
) -> dict[str, Any]:
    """The medians of one group, and what the first values of the model say."""
    times = [statistics.median(seconds for _, seconds, _ in each) for each in (at_once, ahead)]
    beginning = statistics.median(warmed for warmed, _, _ in ahead)
    again = statistics.median(tokens for _, _, tokens in at_once)
    says = SharedBeginning(0, shared, calls).pays(calls)
    print(
        f"{calls:3} × {shared:4}: at once {times[0]:.3f} s ({again:5.0f} tokens again), beginning "
        f"first {times[1]:.3f} s ({beginning:.3f} for it): {times[0] / times[1]:.2f}; "
        f"the client says {'ahead' if says else 'at once'}",
        flush=True,
    )
    return {
        "at_once_s": round(times[0], 4), "ahead_s": round(times[1], 4), "again": again,
        "beginning_s": round(beginning, 4), "says": "ahead" if says else "at once",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    found = asyncio.run(measured(Bench(options.url, options.tokenizer), options.rounds))
    write(options.json, f"python {' '.join(sys.argv)}", found)


if __name__ == "__main__":
    main()
