"""Many agents on a server whose cache holds the conversations of some of them.

Run: python benchmarks/residency.py [--agents 96] [--room 200000] [--json FILE]

A server that reuses prefixes drops what was used least recently. Where more conversations go on by
turns than it holds, each has been dropped when its next turn comes, and everything is computed
again and again. The server here is ``appl.testing.radix.RadixServer``, with the constants of an 8B
model on one H200. ``waits`` are agents that read each answer before they go on, the others are
known to the runtime as a whole from the beginning.
"""

from __future__ import annotations

import argparse
from typing import Any

from report import write

import appl
from appl import gen, ppl
from appl.runtime.run import Run
from appl.runtime.scheduling.policy import Policy
from appl.testing import VirtualClock
from appl.testing.radix import RadixServer

SHARED, ROUNDS, OBSERVED, ACTION, ANSWER = 1300, 8, 400, 16, 48


def said(name: str, words: int) -> str:
    return " ".join(f"{name}-{at}" for at in range(words))


@ppl
def agent(number: int, waits: bool) -> Any:
    f"{said('shots', SHARED)}"
    f"Task {said(f'task{number}', 80)}"
    for step in range(ROUNDS):
        "Thought and action:"
        action = gen(max_tokens=ACTION)
        f"{str(action) if waits else action}"
        f"{said(f'seen{number}.{step}', OBSERVED)}"
    return gen(max_tokens=ANSWER)


def seconds(agents: int, room: int, waits: bool, policy: dict[str, Any]) -> tuple[float, int]:
    """Virtual seconds of the whole load, and the tokens that the server computed."""
    clock = VirtualClock()
    server = RadixServer(clock, room)
    with Run(server, policy=Policy(clock=clock, **policy)):
        found = appl.map(lambda at: str(agent(at, waits)), range(agents), progress=False)
        list(found)
    return clock.now(), server.computed


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
    kinds = {"naive": {"warm": False, "order": "fifo"}, "ours": {}}
    for waits in (False, True):
        for name, policy in kinds.items():
            took, computed = seconds(options.agents, options.room, waits, policy)
            title = f"{name}{', waits' if waits else ''}"
            found[title] = {"seconds": took, "computed": computed, "least": least}
            print(f"{title:16} {took:8.2f} s, computed {computed / least:5.2f} times", flush=True)
    write(options.json, "python benchmarks/residency.py", found)


if __name__ == "__main__":
    main()
