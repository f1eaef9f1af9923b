"""What limits, budgets and retries cost and hold: CPU time, and seconds that nobody waits for.

Run: python benchmarks/schedule_limits.py [--json FILE] [--calls 1000]
``added`` is the CPU time of a call's way through the scheduler's attempts, above that of the bare
backend, the best of 9 rounds in turn. ``fan-out`` sends so many calls at once under a budget of
tokens that is enough for half of them; ``storm`` at a server that turns away who comes when 16 are
there; ``dead`` at one that answers after 20 seconds. Seconds are those of the virtual clock.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from types import SimpleNamespace
from typing import Any

from report import write

import appl
from appl import gen, ppl
from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.errors import BackendBusy, BackendUnavailable, BudgetExceeded
from appl.runtime.scheduling.dispatcher import Dispatcher
from appl.testing import (
    Allowance,
    Deadlines,
    Instant,
    Late,
    Limits,
    Policy,
    Retries,
    VirtualClock,
    running,
)

ROUNDS, TURNS = 9, 20_000


@ppl
def fan(width: int) -> int:
    """How many of *width* calls are answered."""
    "Well?"
    answered = 0
    for each in [gen(max_tokens=10) for _ in range(width)]:
        try:
            answered += str(each) == "yes"
        except BudgetExceeded:
            continue
    return answered


class _Call(SimpleNamespace):
    """What attempts look at of a call."""

    __hash__ = object.__hash__


async def added(policy: Policy) -> float:
    """Microseconds of CPU above the bare backend."""
    backend = Instant()
    run = SimpleNamespace(watched=False, idle_detection=None, closed=False)
    request = Request("/f.0/gen.0", 0, "m", None, Sampling(max_tokens=10))
    call: Any = _Call(
        request=request, emit=None, timeout=None, run=run, account=None, address=request.address,
    )  # fmt: skip
    attempts, best = Dispatcher(backend, policy, most=policy.limits.concurrency), float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(TURNS):
            await attempts.complete(call)
        between = time.process_time()
        for _ in range(TURNS):
            await backend.complete(request, None)
        best = min(best, 2 * between - start - time.process_time())
    return best / TURNS * 1e6


def fan_out(width: int) -> dict[str, float]:
    """Under a budget for half of the calls, which use 10 tokens and may use 28 each."""
    limit = 10 * width // 2 + 18
    backend = Late(lambda _: Response((Sample("yes", "stop"),), Usage(6, 4)), VirtualClock())
    policy = Policy(clock=backend.clock, budget=Allowance(tokens=limit))
    start = time.process_time()
    with running(backend, policy=policy), appl.budget(calls=10 * width) as used:
        answered = fan(width)
    spent = used.spent.tokens
    assert spent <= limit
    cpu = (time.process_time() - start) / width * 1e6
    return {"limit": limit, "spent": spent, "answered": answered, "cpu_us_per_call": round(cpu, 1)}


def storm(width: int, room: int = 16) -> dict[str, float]:
    """At a server with *room*, which takes a second for everything."""

    def answer(_: Request) -> str | BackendBusy:
        return BackendBusy("429") if backend.present > room else "yes"

    backend = Late(answer, VirtualClock())
    policy = Policy(clock=backend.clock, retries=Retries(patience_s=10_000))
    with running(backend, policy=policy):
        answered = fan(width)
    away = len(backend.requests) - width
    seconds, best = backend.clock.now(), width / room
    return {"answered": answered, "turned_away": away, "seconds": round(seconds), "best": best}


def dead(width: int) -> dict[str, float]:
    """At a server that comes to life after 20 seconds."""

    def answer(_: Request) -> str | BackendUnavailable:
        return BackendUnavailable("refused") if backend.clock.now() < 20 else "yes"

    backend = Late(answer, VirtualClock(), 0.001)
    with running(backend, policy=Policy(clock=backend.clock)):
        answered = fan(width)
    failed = len(backend.requests) - width
    return {"answered": answered, "in_vain": failed, "seconds": round(backend.clock.now(), 1)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--calls", type=int, default=1000)
    given = parser.parse_args()
    policies = {
        "default": Policy(),
        "naive": Policy.naive(),
        "limits and a deadline": Policy(
            limits=Limits(concurrency=64), deadlines=Deadlines(total_s=60)
        ),
    }
    found: dict[str, Any] = {
        f"added, {name}, us": round(asyncio.run(added(policy)), 2)
        for name, policy in policies.items()
    }
    found |= {
        "fan-out": fan_out(given.calls), "storm": storm(given.calls), "dead": dead(given.calls),
    }  # fmt: skip
    for name, value in found.items():
        print(f"{name:32} {value}")
    write(given.json, "python benchmarks/schedule_limits.py", found)


if __name__ == "__main__":
    main()
