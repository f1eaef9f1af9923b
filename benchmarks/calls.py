"""CPU of one ``gen`` on a backend that answers at once: overlapping, in sequence, async; recorded.

Run: python benchmarks/calls.py [--json FILE] [--calls 100,1000,10000]
Bars: 60 µs a call when calls overlap, 100 µs in strict sequence, recorded; linear in the number.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import write

from appl import AIRole, gen, ppl
from appl.runtime.run import Run
from appl.testing import Instant
from appl.tracing import Recorder

REPEATS = 5


@ppl
def overlapping(n: int) -> None:
    "What is the answer?"
    answers = [gen() for _ in range(n)]
    for answer in answers:
        _ = str(answer)  # not a statement, which would be said


@ppl
def sequence(n: int) -> None:
    "What is the answer?"
    for _ in range(n):
        _ = str(gen())


@ppl
def chat(n: int) -> None:
    for i in range(n):
        f"Question {i}"
        with AIRole():
            gen()


@ppl
async def tasks(n: int) -> None:
    async def one() -> None:
        await gen()

    "What is the answer?"
    await asyncio.gather(*(one() for _ in range(n)))


def in_loop(n: int) -> None:
    asyncio.run(tasks(n))


PROGRAMS: dict[str, Callable[[int], Any]] = {
    "overlapping": overlapping, "sequence": sequence, "chat": chat, "async": in_loop,
}  # fmt: skip


def cpu_of(program: Callable[[int], Any], n: int, recorded: bool, folder: Path) -> float:
    """Microseconds of CPU (all threads) a call, the run's end and its trace included."""
    recorder = Recorder(folder / f"{time.monotonic_ns()}.trace") if recorded else None
    before = time.process_time_ns()
    with Run(
        Instant(),
        instruments=[recorder] if recorder else [],
        gate=recorder.gate if recorder else None,
    ):
        program(n)
    if recorder:
        recorder.close("finished")
    return (time.process_time_ns() - before) / n / 1000


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--calls", default="100,1000,10000")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.calls.split(",")]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for program in PROGRAMS.values():
            cpu_of(program, 200, True, Path(folder))  # warm
        for name, program in PROGRAMS.items():
            for recorded in (False, True):
                row = {
                    n: min(cpu_of(program, n, recorded, Path(folder)) for _ in range(REPEATS))
                    for n in counts
                }
                found.append({"program": name, "recorded": recorded, "us_a_call": row})
                shown = "  ".join(f"{n:>6}: {us:6.1f}" for n, us in row.items())
                print(f"{name:12} {'recorded' if recorded else 'plain':9} µs CPU a call  {shown}")
    write(arguments.json, "python benchmarks/calls.py", found)


if __name__ == "__main__":
    main()
