"""What recording, reading and replaying cost: CPU and bytes per call.

``python benchmarks/trace.py`` prints the table and writes ``benchmarks/results/trace.txt``.
"""

from __future__ import annotations

import datetime
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from report import kept, printed  # type: ignore[import-not-found]

from appl import gen, ppl
from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.prompt import Message, Messages
from appl.runtime.event import (
    CallDispatched,
    CallEnded,
    CallStarted,
    Delivered,
    Event,
    ScopeEntered,
)
from appl.runtime.run import Run
from appl.testing import Instant
from appl.tracing import Recorder, Replayer, Trace

RESULTS = kept("trace.txt")
PROSE = "the of and to in is it you that he was for on are with as his they at be this"
WORDS = tuple(PROSE.split(" "))
CALLS, REPEATS = 5_000, 3


def text(dice: random.Random, words: int) -> str:
    """Prose of *words* random words and numbers, which does not compress away."""
    return " ".join(dice.choice(WORDS) + str(dice.randrange(1000)) for _ in range(words))


def of_call(request: Request, answer: str) -> Iterator[Event]:
    """The four events of one call."""
    assert request.digest, "made before: the runtime has needed it by then"
    now = time.monotonic_ns()
    response = Response((Sample(answer, "stop"),), Usage(100, 20, 80), request.model)
    yield CallStarted(request, "gen", (), "program.py", 12, now)
    yield CallDispatched(request.address, 1, now)
    yield CallEnded(request.address, response, None, now)
    yield Delivered(request.address, now)


def separate(words: int) -> Callable[[random.Random], Iterator[Event]]:
    """Calls with a prompt of their own of *words* words."""

    def events(dice: random.Random) -> Iterator[Event]:
        sampling = Sampling(temperature=0.7)
        for i in range(CALLS):
            chain = Messages.of([Message("user", text(dice, words))])
            address = f"/main.0/answer.{i}/gen.0"
            yield ScopeEntered(f"/main.0/answer.{i}", "/main.0", "answer", "program.py", 9, 0)
            yield from of_call(
                Request(address, 0, "model", chain, sampling), text(dice, words // 2)
            )

    return events


def samples(dice: random.Random) -> Iterator[Event]:
    """Ten samples of each prompt, as in self-consistency."""
    sampling = Sampling(temperature=0.7)
    for i in range(CALLS // 10):
        chain = Messages.of([Message("user", text(dice, 100))])
        for j in range(10):
            request = Request(f"/main.0/vote.{i}/gen.{j}", j, "model", chain, sampling)
            yield from of_call(request, text(dice, 50))


def chats(turns: int) -> Callable[[random.Random], Iterator[Event]]:
    """Chats of *turns* turns: each prompt holds all before it."""

    def events(dice: random.Random) -> Iterator[Event]:
        sampling = Sampling()
        for i in range(CALLS // turns):
            chain: Messages | None = None
            for j in range(turns):
                chain = Messages(chain, Message("user", text(dice, 50)))
                answer = text(dice, 50)
                request = Request(f"/main.0/chat.{i}/gen.{j}", j, "model", chain, sampling)
                yield from of_call(request, answer)
                chain = Messages(chain, Message("assistant", answer))

    return events


LOADS = {
    "short prompts (10 words, answers 5)": separate(10),
    "long prompts (200 words, answers 100)": separate(200),
    "10 samples a prompt (100 words, answers 50)": samples,
    "chats of 10 turns (50 words a message)": chats(10),
    "chats of 100 turns (50 words a message)": chats(100),
}


def recording(path: Path, events: list[Event]) -> tuple[float, float, float]:
    """Microseconds of the producing thread and of the process, and bytes, per call."""
    path.unlink(missing_ok=True)
    recorder = Recorder(path, {"program": "benchmark"})
    process, thread = time.process_time(), time.thread_time()
    for event in events:
        recorder.on_event(event)
    thread = time.thread_time() - thread
    recorder.close()
    process = time.process_time() - process
    return thread / CALLS * 1e6, process / CALLS * 1e6, path.stat().st_size / CALLS


def reading(path: Path) -> float:
    """Microseconds of CPU per call to read the whole trace."""
    before = time.process_time()
    assert len(Trace.open(path).calls) == CALLS
    return (time.process_time() - before) / CALLS * 1e6


@ppl(parallel=True)
def branch(number: int) -> str:
    f"question {number}"
    return str(gen())


def program(calls: int) -> list[str]:
    """Calls that overlap, each waited for in a fiber of its own."""
    return [str(answer) for answer in [branch(i) for i in range(calls)]]


def replaying(path: Path, calls: int = 2_000) -> tuple[float, float]:
    """Calls replayed per second, and CPU microseconds per call, reading the trace included."""
    path.unlink(missing_ok=True)
    recorder = Recorder(path, {"program": "benchmark"})
    with Run(Instant(), instruments=[recorder], gate=recorder.gate):
        expected = program(calls)
    recorder.close()
    wall, cpu = time.perf_counter(), time.process_time()
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert program(calls) == expected
    replayer.finish()
    return calls / (time.perf_counter() - wall), (time.process_time() - cpu) / calls * 1e6


def table() -> Iterator[str]:
    """The lines of the result."""
    yield f"{datetime.date.today()}  $ python benchmarks/trace.py"
    load, version = os.getloadavg()[0], platform.python_version()
    yield f"Python {version}, {os.cpu_count()} cores, load average {load:.1f}, best of {REPEATS}"
    yield ""
    yield f"{'per call':46}{'on the loop':>13}{'whole process':>15}{'reading':>10}{'bytes':>8}"
    folder = Path(tempfile.mkdtemp())
    for name, load_events in LOADS.items():
        events = list(load_events(random.Random(1)))
        runs = [recording(folder / "a.trace", events) for _ in range(REPEATS)]
        thread, process, size = (min(column) for column in zip(*runs, strict=True))
        read = min(reading(folder / "a.trace") for _ in range(REPEATS))
        yield f"{name:46}{thread:10.1f} µs{process:12.1f} µs{read:7.1f} µs{size:8.0f}"
    rates = [replaying(folder / "b.trace") for _ in range(REPEATS)]
    rate, cpu = max(r for r, _ in rates), statistics.median(c for _, c in rates)
    yield ""
    yield f"replay, one delivery at a time: {rate:,.0f} calls/s, {cpu:.0f} µs of CPU a call"


if __name__ == "__main__":
    printed(table(), RESULTS)
