"""CPU of a recorded call over the HTTP client of each of several checkouts, in interleaved rounds.

In each round every checkout runs the same load in a process of its own, in turn: a warm run, then
three recorded runs, each from its opening to its closed trace. The least CPU of the three (user and
system, all threads) counts. The server is one more process, whose CPU is not in it. ``once``: 1,000
programs of one call, answered after 50 ms. ``sequence``: 1,000 calls one after the other, answered
at once.
A ratio is the median of those of the rounds, each to the first checkout in the same round.

Run: python benchmarks/http_clients.py NAME=PYTHON[:FOLDER…] … [--rounds 12] [--json FILE]
PYTHON is an interpreter with `appl`; a FOLDER comes before its packages, as in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODEL = Path(__file__).parents[1] / "backends" / "appl_backends" / "embedded" / "weights"
"""The model that the server names, whose tokens SGLang is sent: the same for all checkouts."""
LOADS = {"once": 0.05, "sequence": 0.0}
BACKENDS = ("openai", "sglang")
WORDS = "river stone paper window morning letter market garden number winter silver train".split()


# -- one process: a load over one backend


def ask(load: str, backend: str, url: str, calls: int) -> None:
    """Print the seconds of CPU of a recorded run of the *load*: the least of three warm ones."""
    import appl
    from appl import gen, ppl

    @ppl
    def question(number: int) -> Any:
        f"Question {number}: {' '.join(WORDS[(number * 7 + at * at) % 12] for at in range(20))}"
        return gen(max_tokens=64)

    def once(count: int) -> None:
        for answer in [question(number) for number in range(count)]:
            str(answer)

    def sequence(count: int) -> None:
        for number in range(count):
            str(question(number))

    settings: dict[str, Any] = (
        {"type": "openai", "base_url": f"{url}/v1", "api_key": "k", "concurrency": calls}
        if backend == "openai"
        else {"type": "sglang", "url": url, "connections": calls}
    )
    program = {"once": once, "sequence": sequence}[load]
    seconds: list[float] = []
    for count in (calls // 5, calls, calls, calls):
        before = time.process_time()
        appl.init(model=f"{backend}/{MODEL}", backends={backend: settings}, trace=True)
        appl.run(program, count)
        seconds.append(time.process_time() - before)
    print(f"{min(seconds[1:]):.6f}")


# -- the comparison


def cost(arm: str, load: str, backend: str, url: str, calls: int) -> float:
    """Microseconds of CPU a call, of one process of the *arm*."""
    python, *folders = arm.split(":")
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": ":".join(folders), "APPL_HOME": folder}
        command = [python, __file__, "--ask", load, backend, url, "--calls", str(calls)]
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
    if done.returncode:
        sys.exit(f"{arm}: {done.stderr[-2000:]}")
    return float(done.stdout.split()[-1]) / calls * 1e6


def compared(arms: dict[str, str], load: str, backend: str, rounds: int, calls: int) -> Any:
    """One table, printed: the *arms* beside each other for one load over one backend."""
    from server_calls import serving

    costs: dict[str, list[float]] = {name: [] for name in arms}
    with serving(LOADS[load], "short") as url:
        for _ in range(rounds):
            for name, arm in arms.items():
                costs[name].append(cost(arm, load, backend, url, calls))
    first = costs[next(iter(arms))]
    print(f"{backend}, {load} {calls:,}, {rounds} rounds")
    rows = []
    for name, found in costs.items():
        ratios = [each / base for each, base in zip(found, first, strict=True)]
        row = {
            "arm": name, "us_a_call": round(statistics.median(found), 1),
            "least": round(min(found), 1), "most": round(max(found), 1),
            "ratio": round(statistics.median(ratios), 3),
            "ratio_least": round(min(ratios), 3), "ratio_most": round(max(ratios), 3),
        }  # fmt: skip
        print(
            "  {arm:12} {us_a_call:7} µs a call ({least} to {most})  "
            "{ratio:.2f} × ({ratio_least:.2f} to {ratio_most:.2f})".format(**row),
            flush=True,
        )
        rows.append(row)
    return {"backend": backend, "load": load, "calls": calls, "rounds": rounds, "arms": rows}


def main() -> None:
    """Compare, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arms", nargs="*")
    parser.add_argument("--ask", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    if arguments.ask:
        ask(*arguments.ask, arguments.calls)
        return
    from report import write

    path = arguments.json and Path(arguments.json).resolve()
    arms = dict(arm.split("=", 1) for arm in arguments.arms)
    rows = [
        compared(arms, load, backend, arguments.rounds, arguments.calls)
        for load in LOADS
        for backend in BACKENDS
    ]
    write(path, "python benchmarks/http_clients.py " + " ".join(arms), rows)


if __name__ == "__main__":
    main()
