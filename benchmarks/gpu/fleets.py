"""Fleets of agents on a real SGLang server whose cache is smaller than their conversations.

Run: python benchmarks/gpu/fleets.py URL --tokenizer FOLDER [--loads "measured,25%"] [--caps 8,12]
     [--arms first,again] [--seeds 10,11] [--scale 1] [--seconds 500] [--json FILE]

The loads are those of ``benchmarks/fleet.py``, with the same gaps; the server's own cache decides
what fits (start it with --max-total-tokens 120000), so that the number of agents is chosen to need
as much. ``cap N`` is a bare aiohttp loop that lets so many agents go on at a time, 0: all. ``ours``
is a program that reads each answer and then sleeps: on its first run (``first``) and in a process
with a history (``again``). No more arms are begun after so many seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from fleet import Agent, fleet, measured_load  # noqa: E402
from loads import Server, Texts  # noqa: E402
from report import write  # noqa: E402

import appl  # noqa: E402
from appl import AIRole, gen, ppl  # noqa: E402
from appl.runtime.concurrency.loop_thread import io_thread  # noqa: E402
from appl.runtime.run import Run  # noqa: E402
from appl_backends.sglang import SGLang  # noqa: E402

MEASURED = 120_000
"""The cache for which the loads are given; a smaller one has fewer agents."""

LOADS: dict[str, Callable[[int], list[Agent]]] = {
    "measured": lambda _: measured_load(),
    "25%": lambda seed: fleet(seed, agents=43),
    "80%": lambda seed: fleet(seed, agents=14),
    "150%": lambda seed: fleet(seed, agents=7),
    "short gaps": lambda seed: fleet(seed, agents=24, gap=(-1.8, 0.8, 4.0)),
    "long gaps": lambda seed: fleet(seed, agents=24, gap=(1.2, 0.8, 20.0)),
    "small": lambda seed: fleet(seed, agents=60, first=1000, added=400),
    "uneven": lambda seed: fleet(seed, agents=18, turns=(2, 20), spread=0.4),
    "open loop": lambda seed: fleet(seed, agents=60, rate=0.7),
    "24 turns": lambda seed: fleet(seed, agents=10, turns=(24, 24)),
    "few long": lambda seed: fleet(
        seed, agents=10, turns=(20, 20), added=1420, answer=30, gap=(-0.9, 0.8, 4.0)
    ),
}


class Prompts:
    """The texts of an agent's turns, and their tokens."""

    def __init__(self, tokenizer: Path, scale: float) -> None:
        import tokenizers

        self._texts, self._scale = Texts(tokenizer), scale
        self._inner = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
        self._long = self._texts.of(24_000, "long").split(" ")

    def of(self, agents: list[Agent], round_: str) -> list[list[str]]:
        """The text of each turn of each agent, other ones in each round."""
        return [
            [self._text(added, at, turn, round_) for turn, (added, _, _) in enumerate(each.turns)]
            for at, each in enumerate(agents)
        ]

    def _text(self, tokens: int, agent: int, turn: int, round_: str) -> str:
        words = max(4, int(tokens * self._scale / 2.9))
        first = (agent * 7919 + turn * 131) % (len(self._long) - 1)
        rolled = (self._long[first:] + self._long)[: words + 8]
        text = f"{round_} {agent}.{turn} " + " ".join(rolled)
        return self._inner.decode(self.ids(text)[: int(tokens * self._scale)])

    def ids(self, text: str) -> list[int]:
        """The tokens of *text*."""
        found: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        return found


class Waits:
    """When each turn was ready and answered, and when each agent was done."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.first: list[float] = []
        self.later: list[float] = []
        self.done: list[float] = []

    def figures(self) -> dict[str, float]:
        """Makespan, mean time to be done, and waits of turns."""
        every = sorted(self.first + self.later)
        later = sorted(self.later) or every
        return {
            "makespan": round(time.perf_counter() - self.began, 2),
            "mean": round(statistics.mean(self.done), 2),
            "p50": round(statistics.median(every), 2),
            "p99": round(later[int(0.99 * len(later))], 2),
            "longest": round(later[-1], 2),
        }


def capped(url: str, agents: list[Agent], texts: list[list[list[int]]], most: int) -> Waits:
    """A bare loop with *most* agents at a time; 0 is without limit."""
    waits = Waits()

    async def go() -> None:
        gate = asyncio.Semaphore(most or len(agents))

        async def one(agent: Agent, turns: list[list[int]]) -> None:
            await asyncio.sleep(agent.begins)
            began = time.perf_counter()
            async with gate:
                ids: list[int] = []
                for (_, answer, gap), more in zip(agent.turns, turns, strict=True):
                    ids = ids + more
                    sampling = {"max_new_tokens": answer, "temperature": 0, "ignore_eos": True}
                    body = {"input_ids": ids, "sampling_params": sampling}
                    ready = time.perf_counter()
                    async with session.post(f"{url}/generate", json=body) as response:
                        found = await response.json()
                    (waits.later if more is not turns[0] else waits.first).append(
                        time.perf_counter() - ready
                    )
                    ids = ids + found["output_ids"]
                    if more is not turns[-1]:
                        await asyncio.sleep(gap)
            waits.done.append(time.perf_counter() - began)

        # below the 5 s after which uvicorn closes an idle connection
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*map(one, agents, texts))

    asyncio.run(go())
    return waits


@ppl
def agent_program(agent: Agent, texts: list[str], waits: Waits) -> None:
    appl.sleep(agent.begins)
    began = time.perf_counter()
    for turn, ((_, answer, gap), text) in enumerate(zip(agent.turns, texts, strict=True)):
        f"{text}"
        ready = time.perf_counter()
        with AIRole():
            said = str(gen(max_tokens=answer, temperature=0, ignore_eos=True))
            f"{said}"
        (waits.later if turn else waits.first).append(time.perf_counter() - ready)
        if turn + 1 < len(agent.turns):
            appl.sleep(gap)
    waits.done.append(time.perf_counter() - began)


def ours(backend: SGLang, agents: list[Agent], texts: list[list[str]]) -> Waits:
    """The program on our runtime."""
    with Run(backend):
        waits = Waits()
        both = list(zip(agents, texts, strict=True))
        list(appl.map(lambda pair: agent_program(*pair, waits), both, progress=False))
    return waits


class Bench:
    """One server; every load in every manner."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.server = options, Server(options.url)
        self.prompts = Prompts(options.tokenizer, options.scale)
        self.backend = self.client()
        self.until = time.perf_counter() + options.seconds
        self.rounds = 0

    def client(self) -> SGLang:
        """A client that knows of no earlier run."""
        return SGLang(url=self.options.url, tokenizer=self.options.tokenizer, template="plain")

    def measured(self, agents: list[Agent], act: Callable[[Any], Waits]) -> dict[str, float]:
        """Flush, run *act* with texts that nobody has sent, and see what came from the cache."""
        self.rounds += 1
        texts = self.prompts.of(agents, f"r{self.rounds}")
        self.server.flush()
        before = self.server.counters()
        figures = act(texts).figures()
        after = self.server.counters()
        return figures | {
            "prompt": after[0] - before[0],
            "cached": after[1] - before[1],
        }

    def arms(self, load: str, seed: int) -> dict[str, dict[str, float]]:
        """The figures of one load."""
        agents = LOADS[load](seed)
        found: dict[str, dict[str, float]] = {}
        client = self.client()
        every: dict[str, Callable[[Any], Waits]] = {
            "first": lambda texts: ours(client, agents, texts),
            "again": lambda texts: ours(client, agents, texts),
        }
        arms = {name: every[name] for name in self.options.arms.split(",") if name}
        for cap in filter(None, self.options.caps.split(",")):
            arms[f"cap {cap}"] = lambda texts, cap=cap: capped(
                self.options.url,
                agents,
                [[self.prompts.ids(text) for text in turns] for turns in texts],
                int(cap),
            )
        for name, act in arms.items():
            if time.perf_counter() < self.until:
                found[name] = self.measured(agents, act)
                print(f"{load:11} {seed} {name:9} {json.dumps(found[name])}", flush=True)
        asyncio.run_coroutine_threadsafe(client.aclose(), io_thread().loop).result()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--caps", default="4,8,12,16,0")
    parser.add_argument("--arms", default="first,again")
    parser.add_argument("--seeds", default="10")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--json")
    options = parser.parse_args()
    bench = Bench(options)
    found: dict[str, Any] = {}
    for seed in map(int, options.seeds.split(",")):
        for load in options.loads.split(","):
            found[f"{load} {seed}"] = bench.arms(load, seed)
            write(options.json, f"python {' '.join(sys.argv)}", found)


if __name__ == "__main__":
    main()
