"""A trace of a million events, and what ``appl trace show`` takes to read it: time and memory.

Run: python benchmarks/large.py [--events 1000000] [--keep FILE]
Bar: 10 s; memory that does not grow with the trace.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.prompt import Message, Messages
from appl.runtime.event import (
    CallDispatched,
    CallEnded,
    CallStarted,
    Delivered,
    RunEnded,
    ScopeEntered,
)
from appl.tracing import Recorder

PROSE = "the of and to in is it you that he was for on are with as his they at be this"
WORDS = PROSE.split(" ")
PER_CALL = 5


def write(path: Path, events: int, seed: int = 1) -> int:
    """Write a trace of about so many *events* at *path*; how many there are.

    A function asks many others, each of which asks twice about a text of its own.
    """
    dice = random.Random(seed)
    recorder = Recorder(path, {"program": "large"})
    sampling, now = Sampling(temperature=0.7), time.monotonic_ns()
    recorder.on_event(ScopeEntered("/large.0", "", "large", "large.py", 1, now))
    system = Messages.of([Message("system", "You answer in one line.")])
    made = 1
    for i in range(events // (2 * PER_CALL - 1)):
        scope = f"/large.0/leaf.{i}"
        recorder.on_event(ScopeEntered(scope, "/large.0", "leaf", "large.py", 9, now))
        chain, made, edges = system, made + 1, ()
        for j in range(2):
            said = " ".join(dice.choices(WORDS, k=12))
            chain = Messages(chain, Message("user", said))
            address = f"{scope}/gen.{j}"
            request = Request(address, j, "small", chain, sampling)
            response = Response((Sample(said[::-1], "stop"),), Usage(40, 12, 20), "small", cost=9)
            recorder.on_event(CallStarted(request, "gen", edges, "large.py", 12 + j, now))
            recorder.on_event(CallDispatched(address, 1, now + 1_000_000))
            recorder.on_event(CallEnded(address, response, None, now + 50_000_000))
            recorder.on_event(Delivered(address, now + 51_000_000))
            chain = Messages(chain, Message("assistant", said[::-1]))
            edges, made, now = (address,), made + 4, now + 10_000
        recorder.gate()
    recorder.on_event(RunEnded("finished", None, now))
    recorder.close()
    return made


def main() -> None:
    """Write the trace, show it, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.keep or Path(folder) / "large.trace"
        before = time.perf_counter()
        events = write(path, given.events)
        took, size = time.perf_counter() - before, path.stat().st_size
        print(f"{events:,} events, {size / 1e6:.1f} MB, written in {took:.1f} s")
        before = time.perf_counter()
        show = [sys.executable, "-m", "appl", "trace", "show", str(path)]
        done = subprocess.run(show, capture_output=True, text=True, check=True)
        took = time.perf_counter() - before
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"appl trace show: {took:.1f} s, {memory:.0f} MB, {len(done.stdout):,} characters")


if __name__ == "__main__":
    main()
