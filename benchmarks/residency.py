"""Many agents on a server whose cache holds the conversations of some of them.

Run: python benchmarks/residency.py [--agents 96] [--room 200000] [--json FILE]

A server that reuses prefixes drops what was used least recently. Where more conversations go on by
turns than it holds, each has been dropped when its next turn comes, and everything is computed
again and again. The server here is ``appl.testing.radix.RadixServer``, with the constants of an 8B
model on one H200. ``waits`` are agents that read each answer before they go on, the others are
known to the runtime as a whole from the beginning.

``two runs`` are two of half the agents each, of one process and at once, on that server; ``two
places`` is one run on two servers of half the room, with half the agents on each.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from threading import Thread
from typing import Any

from report import write

import appl
from appl import gen, ppl
from appl.runtime.run import Run
from appl.testing import BackendEndpoint, Model, Models, Policy, VirtualClock
from appl.testing.radix import RadixServer

SHARED, ROUNDS, OBSERVED, ACTION, ANSWER = 1300, 8, 400, 16, 48

Took = tuple[float, int]
"""Virtual seconds of the whole load, and the tokens that the servers computed."""


def said(name: str, words: int) -> str:
    return " ".join(f"{name}-{at}" for at in range(words))


@ppl
def agent(number: int, waits: bool, model: str | None = None) -> Any:
    f"{said('shots', SHARED)}"
    f"Task {said(f'task{number}', 80)}"
    for step in range(ROUNDS):
        "Thought and action:"
        action = gen(model, max_tokens=ACTION)
        f"{str(action) if waits else action}"
        f"{said(f'seen{number}.{step}', OBSERVED)}"
    return gen(model, max_tokens=ANSWER)


def served(numbers: range, waits: bool, models: tuple[str | None, ...] = (None,)) -> None:
    def one(at: int) -> str:
        return str(agent(at, waits, models[at % len(models)]))

    list(appl.map(one, numbers, progress=False))


def one_run(agents: int, room: int, waits: bool, policy: dict[str, Any]) -> Took:
    clock = VirtualClock()
    server = RadixServer(clock, room)
    with Run(server, policy=Policy(clock=clock, **policy)):
        served(range(agents), waits)
    return clock.now(), server.computed


def two_runs(agents: int, room: int, waits: bool, policy: dict[str, Any]) -> Took:
    clock = VirtualClock()
    server = RadixServer(clock, room)

    def run(numbers: range) -> None:
        with Run(server, policy=Policy(clock=clock, **policy)):
            served(numbers, waits)

    halves = range(agents // 2), range(agents // 2, agents)
    threads = [Thread(target=run, args=(half,)) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clock.now(), server.computed


def two_places(agents: int, room: int, waits: bool, policy: dict[str, Any]) -> Took:
    clock = VirtualClock()
    near, far = (RadixServer(clock, room // 2) for _ in range(2))
    names = {"near": Model("a", None), "far": Model("b", None)}
    models = Models(near.profile, None, names, "a", {"b": far.profile})
    chosen = Policy(clock=clock, **policy)
    with Run(near, policy=chosen, models=models, places={"b": BackendEndpoint(far, chosen)}):
        served(range(agents), waits, ("near", "far"))
    return clock.now(), near.computed + far.computed


NAIVE: dict[str, Any] = {"warm": False, "order": "fifo"}
LOADS: dict[str, tuple[Callable[[int, int, bool, dict[str, Any]], Took], dict[str, Any]]] = {
    "": (one_run, {"naive": NAIVE, "ours": {}}),
    "two runs": (two_runs, {"naive": NAIVE, "ours": {}}),
    "two places": (two_places, {"naive": NAIVE, "ours": {}}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=96)
    parser.add_argument("--room", type=int, default=200_000)
    parser.add_argument("--json")
    options = parser.parse_args()
    own = 83 + ROUNDS * (ACTION + OBSERVED + 3) + ANSWER
    least = SHARED + options.agents * own
    print(f"{options.agents} agents, {least:,} different tokens, room for {options.room:,}")
    found: dict[str, Any] = {}
    for load, (measured, kinds) in LOADS.items():
        for waits in (False, True):
            for name, policy in kinds.items():
                title = ", ".join(filter(None, (load, name, "waits" * waits)))
                took, computed = measured(options.agents, options.room, waits, policy)
                found[title] = {"seconds": took, "computed": computed, "least": least}
                times = f"computed {computed / least:5.2f} times"
                print(f"{title:26} {took:8.2f} s, {times}", flush=True)
    write(options.json, "python benchmarks/residency.py", found)


if __name__ == "__main__":
    main()
