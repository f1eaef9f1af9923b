"""100 agents that call three blocking functions each: recorded, replayed, and one agent alone.

Run: python benchmarks/blocking.py
Bar: a recorded run of all takes at most 1.2 times as long as one agent's three calls, and in the
replay no function runs again.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import appl
from appl.session import replayed

AGENTS, CALLS, SECONDS, TIMES = 100, 3, 0.3, 5
_lock = threading.Lock()
runs = 0


def fetch(agent: int, page: int) -> str:
    global runs
    with _lock:
        runs += 1
    time.sleep(SECONDS)
    return f"page {page} of agent {agent}"


@appl.ppl
def agent(number: int) -> appl.Generation:
    for page in range(CALLS):
        f"{appl.observe(fetch, number, page)}"
    return appl.gen()


def one_agent() -> float:
    began = time.perf_counter()
    for page in range(CALLS):
        fetch(0, page)
    return time.perf_counter() - began


def all_agents(world: Callable[[], AbstractContextManager[Any]]) -> tuple[float, int]:
    """Seconds from before the run is opened until it is closed, and how many functions ran."""
    before, began = runs, time.perf_counter()
    with world():
        answers = [str(answer) for answer in appl.map(agent, range(AGENTS), progress=False)]
    assert len(answers) == AGENTS
    return time.perf_counter() - began, runs - before


def measured(folder: Path, number: int) -> tuple[float, float, float, int, int]:
    path = folder / f"{number}.trace"
    one = one_agent()
    live, ran = all_agents(lambda: appl.record(path, backend="appl.testing:Echo"))
    again, ran_again = all_agents(lambda: replayed(path))
    return one, live, again, ran, ran_again


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        every = [measured(Path(folder), number) for number in range(TIMES)]
    print(f"{AGENTS} agents, {CALLS} functions of {SECONDS} s each (time.sleep); of {TIMES} times")
    for what, place in (("one agent's functions alone", 0), ("recorded", 1), ("replayed", 2)):
        took = [each[place] for each in every]
        ratios = [each[place] / each[0] for each in every]
        print(
            f"{what:28} median {statistics.median(took):.3f} s, worst {max(took):.3f} s; "
            f"{statistics.median(ratios):.2f} × one, worst {max(ratios):.2f}"
        )
    print(f"functions run while recording: {', '.join(str(each[3]) for each in every)}")
    print(f"functions run in the replay:   {', '.join(str(each[4]) for each in every)}")


if __name__ == "__main__":
    main()
