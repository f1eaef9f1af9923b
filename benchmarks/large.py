"""A trace of a million events, and what each command of ``appl trace`` takes to read it.

Run: python benchmarks/large.py [--events 1000000] [--keep FILE] [--only WORD …] [--write]
Bar: 10 s for ``show``. ``ls`` reads two blocks of a finished run. All others hold the calls of a
run, about 1.3 KB each, and not their texts; ``critical`` also the times of all calls, ``diff`` what
differs.
``--write`` keeps the table in ``benchmarks/results/large.txt``.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from report import kept  # type: ignore[import-not-found]

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
RESULTS = kept("large.txt")


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


def commands(path: Path, folder: Path, last: str) -> dict[str, list[str]]:
    """What is measured, by name: the words after ``appl trace``."""
    run = str(path)
    return {
        "ls, the first time": ["ls"],
        "show": ["show", run],
        "show --json": ["show", run, "--json"],
        "show CALL, the last": ["show", run, last],
        "cost": ["cost", run],
        "stuck": ["stuck", run],
        "critical": ["critical", run],
        "diff with itself": ["diff", run, run],
        "verify": ["verify", run],
        "share": ["share", run, "--out", str(folder / "shared.trace")],
        "export --chrome": ["export", run, "--chrome", str(folder / "chrome.json")],
        "export --jsonl": ["export", run, "--jsonl", str(folder / "lines.jsonl")],
        "export --markdown": ["export", run, "--markdown", str(folder / "text.md")],
        "view --html": ["view", run, "--html", str(folder / "view.html")],
    }


@dataclass(frozen=True, slots=True)
class Measured:
    """What a command took: seconds of the clock and of the processor, megabytes, characters."""

    name: str
    code: int
    clock: float
    processor: float
    memory: float
    printed: int

    def __str__(self) -> str:
        failed = f"  exit code {self.code}" if self.code else ""
        return (
            f"{self.name:20} {self.clock:7.1f} s {self.processor:7.1f} s {self.memory:6.0f} MB"
            f" {self.printed:13,} characters{failed}"
        )


def measured(name: str, words: list[str], folder: Path) -> Measured:
    """Run ``appl trace WORDS`` in a process of its own."""
    before = time.perf_counter()
    printed = folder / "printed"
    with printed.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "appl", "trace", *words],
            stdout=out,
            stderr=out,
            env={**os.environ, "APPL_HOME": str(folder)},
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took = time.perf_counter() - before
    processor, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    size = printed.stat().st_size
    return Measured(name, process.returncode, took, processor, memory, size)


def table(given: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The lines of the result, as they are found."""
    path = given.keep or folder / "large.trace"
    before = time.perf_counter()
    if not path.exists():
        write(path, given.events)
    took, events = time.perf_counter() - before, 1 + given.events // 9 * 9
    (folder / "runs").mkdir()
    shutil.copy(path, folder / "runs" / "20260101T000000.000Z-large-0001.trace")
    last = f"/large.0/leaf.{given.events // 9 - 1}/gen.1"
    load = os.getloadavg()[0]
    yield (
        f"{datetime.date.today()}  $ python benchmarks/large.py --events {given.events}    "
        f"({os.cpu_count()} cores, Python {platform.python_version()}, load average {load:.0f})"
    )
    calls, size = given.events // 9 * 2, path.stat().st_size
    yield f"{events:,} events, {calls:,} calls, {size / 1e6:.1f} MB; written in {took:.1f} s"
    yield f"{'':20} {'clock':>9} {'processor':>9} {'memory':>9}"
    for name, words in commands(path, folder, last).items():
        if not given.only or words[0] in given.only:
            yield str(measured(name, words, folder))


def main() -> None:
    """Write the trace, read it with every command, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, help="where the trace is, or is written")
    parser.add_argument("--only", nargs="+", default=[], help="commands, as show or export")
    parser.add_argument("--write", action="store_true", help="keep the table")
    given = parser.parse_args()
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for line in table(given, Path(folder)):
            print(line, flush=True)
            lines.append(line)
            if given.write:
                RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
