"""What the order of calls is worth on a busy server, and what waiting for answers costs beyond it.

Run: python benchmarks/schedule.py [--json FILE]
``mixed``: 200 programs, most with a few calls one after the other, some with rounds of many at
once, on a server that does 16 at a time; the clock is virtual, so the figures are the same each
time. Bar: programs finish 1.3 times earlier in the mean than first come, first served; the longest
wait of a call is at most twice as long.
``workflows``: how much faster than one call after the other the parallel workflows of the paper
(arXiv 2406.13161, section 5) are, on a server that answers after 50 ms; the estimate is the number
of calls over the length of the longest chain of calls. Bar: 97% of it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from report import write

import appl
from appl import gen, ppl
from appl.backend import Emit, Request, Response, Sample
from appl.runtime.event import CallDispatched, CallStarted
from appl.runtime.run import Run
from appl.testing import Fake, Late, Limits, Policy, VirtualClock

LATENCY = 0.05


@ppl
def short(calls: int) -> Any:
    "A question."
    for _ in range(calls):
        answer = gen()
        f"{answer}"
        "And then?"
    return gen()


@ppl
def long(rounds: int, width: int) -> Any:
    "A large problem."
    for _ in range(rounds):
        thoughts = [gen() for _ in range(width)]
        f"{thoughts[-1]}"
        _ = [str(thought) for thought in thoughts]
    return gen()


class Waits:
    """How long calls waited between being ready and being sent, and when programs ended."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._since = clock, dict[str, float]()
        self.waits: list[float] = []

    def on_event(self, event: Any) -> None:
        if isinstance(event, CallStarted):
            self._since[event.request.address] = self._clock.now()
        elif isinstance(event, CallDispatched) and event.attempt == 1:
            self.waits.append(self._clock.now() - self._since[event.address])


def mixed(order: Any, seed: int = 0) -> tuple[float, float, float]:
    """Mean time to finish, longest wait, and time of all, in seconds of the virtual clock."""
    dice, clock = random.Random(seed), VirtualClock()
    programs = [
        (long, (dice.randint(2, 4), dice.randint(10, 30)))
        if dice.random() < 0.2
        else (short, (dice.randint(1, 5),))
        for _ in range(200)
    ]
    durations = random.Random(seed + 1)
    backend = Late(lambda _: "yes", clock, lambda _: durations.uniform(0.5, 1.5))
    seen, ended = Waits(clock), list[float]()

    def one(program: tuple[Any, tuple[int, ...]]) -> None:
        f, arguments = program
        str(f(*arguments))
        ended.append(clock.now())

    policy = Policy(order=order, clock=clock, limits=Limits(concurrency=16))
    with Run(backend, instruments=[seen], policy=policy):
        appl.map(one, programs, progress=False)
    return statistics.mean(ended), max(seen.waits), max(ended)


class Slow(Fake):
    """Answers after a fixed time."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        await asyncio.sleep(LATENCY)
        return Response((Sample(f"answer to {request.address}", "stop"),))


@ppl
def votes(branches: int) -> Any:
    "A question, step by step."
    answers = [gen() for _ in range(branches)]
    f"The answers were {answers}"
    return gen()


@ppl(ctx="copy")
def point(outline: Any, number: int) -> Any:
    f"{outline}"
    f"Write out point {number}."
    return gen()


@ppl
def skeleton(points: int) -> Any:
    "Write an outline."
    outline = gen()
    texts = [point(outline, number) for number in range(points)]
    return [str(text) for text in texts]


@ppl
def summary(parts: list[Any]) -> Any:
    for part in parts:
        f"{part}"
    "Summarise this."
    return gen()


@ppl
def walk(leaves: int, width: int, steps: int) -> Any:
    level: list[Any] = [f"Part {number} of a long text." for number in range(leaves)]
    while len(level) > 1:
        level = [summary(level[at : at + width]) for at in range(0, len(level), width)]
    f"{level[0]}"
    for step in range(steps):
        f"Step {step}: where to look?"
        gen()
    return gen()


def walk_calls(leaves: int, width: int, steps: int) -> tuple[int, int]:
    """Calls and longest chain of ``walk``, counted without running it."""
    calls = depth = 0
    while leaves > 1:
        leaves = -(-leaves // width)
        calls += leaves
        depth += 1
    return calls + steps + 1, depth + steps + 1


WORKFLOWS: dict[str, tuple[Any, tuple[int, ...], tuple[int, int]]] = {
    "self-consistency, 10 branches": (votes, (10,), (11, 2)),
    "skeleton of thought, 8 points": (skeleton, (8,), (9, 2)),
    "MemWalker, 64 parts": (walk, (64, 4, 2), walk_calls(64, 4, 2)),
}


def seconds(f: Callable[..., Any], arguments: tuple[int, ...], sequential: bool) -> float:
    """How long one program takes."""
    with Run(Slow(lambda _: ""), sequential=sequential):
        began = time.perf_counter()
        found = f(*arguments)
        _ = [str(each) for each in found] if isinstance(found, list) else str(found)
        return time.perf_counter() - began


def workflows(rounds: int = 5) -> dict[str, Any]:
    """Speed-up over one call after the other, as a share of what the call graph allows."""
    found = {}
    for name, (f, arguments, (calls, chain)) in WORKFLOWS.items():
        naive = statistics.median(seconds(f, arguments, True) for _ in range(2))
        ours = statistics.median(seconds(f, arguments, False) for _ in range(rounds))
        estimate = calls / chain
        found[name] = {
            "calls": calls, "chain": chain, "sequential_s": round(naive, 4),
            "parallel_s": round(ours, 4), "speed_up": round(naive / ours, 3),
            "estimate": round(estimate, 3), "share": round(naive / ours / estimate, 4),
        }  # fmt: skip
        print(
            f"{name:32} {naive / ours:6.2f} of {estimate:6.2f} times: {naive / ours / estimate:.1%}"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    for seed in range(3):
        orders = {order: mixed(order, seed) for order in ("fifo", "program")}
        rows[f"mixed {seed}"] = {
            order: {
                "mean_s": round(mean, 2),
                "longest_wait_s": round(wait, 2),
                "all_s": round(all_, 2),
            }
            for order, (mean, wait, all_) in orders.items()
        }
        fifo, program = orders["fifo"], orders["program"]
        print(
            f"200 programs, seed {seed}: mean {fifo[0]:.1f} s first come, first served; "
            f"{orders['prefix'][0]:.1f} s by prefix; {program[0]:.1f} s by program: "
            f"{fifo[0] / program[0]:.2f} times earlier; "
            f"longest wait {program[1] / fifo[1]:.2f} times"
        )
    rows["workflows"] = workflows()
    write(options.json, f"python {' '.join(sys.argv)}", rows)


if __name__ == "__main__":
    main()
