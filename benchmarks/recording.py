"""What recording costs at 2,000 calls a second: a core's share, delay on the loop, bytes a call.

``python benchmarks/recording.py`` paces the events of 2,000 calls a second on an asyncio loop for
some seconds, with and without a recorder, and notes how late each tick of the loop comes and how
long a call keeps the loop. What recording costs is the difference of both, the writer thread
included. The load is chats of 10 turns with 5 kB that all share. Then a program of such chats runs
at the same rate against answers that take 100 ms, with and without a recorder; the difference of
its processor time is what recording costs a user. A calibration loop says how fast the machine was
meanwhile, and how much slower a core is that sleeps between ticks; so the first figure is taken
once more while loops of the lowest priority keep the cores awake. Last, what the writer does is
done back to back, part by part. The table goes to ``benchmarks/results/recording.txt``.

``--against FOLDER`` compares with another version, whose source lies there: both are measured in
turns, as this machine is not the same from one minute to the next.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import gc
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from trace import WORDS, of_call, text  # type: ignore[import-not-found]

from report import kept, printed  # type: ignore[import-not-found]

from appl import AIRole, SystemRole, gen, ppl
from appl.backend import Emit, Request, Response, Sample, Sampling, Usage
from appl.prompt import Message, Messages
from appl.runtime.event import Event, ScopeEntered
from appl.runtime.run import Run
from appl.testing import Instant
from appl.tracing import Recorder

RESULTS = kept("recording.txt")
RATE, SECONDS, TURNS, REPEATS = 2_000, 5, 10, 5
TICK = 0.005
LATENCY = 0.1


def loads() -> list[list[Event]]:
    """The events of each call, chats interleaved turn by turn."""
    dice, sampling = random.Random(1), Sampling(temperature=0.7)
    shared = Message("system", text(dice, 5_000 // 6)[:5_000])
    calls = RATE * SECONDS
    chains = [Messages(None, shared) for _ in range(calls // TURNS)]
    found: list[list[Event]] = []
    for turn in range(TURNS):
        for number, chain in enumerate(chains):
            address = f"/main.0/chat.{number}"
            asked = Messages(chain, Message("user", prose(dice, 450)))
            answer = prose(dice, 900)
            request = Request(f"{address}/gen.{turn}", turn, "model", asked, sampling)
            first = [ScopeEntered(address, "/main.0", "chat", "p.py", 9, 0)] if not turn else []
            found.append([*first, *of_call(request, answer)])
            chains[number] = Messages(asked, Message("assistant", answer))
    return found


def prose(dice: random.Random, size: int) -> str:
    """About *size* characters of words, as compressible as English."""
    return " ".join(dice.choices(WORDS, k=size // 4))[:size]


@dataclass(frozen=True)
class Measured:
    """Percentiles in milliseconds, and the processor time of the process in seconds a second."""

    held_p50: float
    held_p99: float
    late_p99: float
    share: float
    size: float


async def paced(
    calls: list[list[Event]], recorder: Recorder | None
) -> tuple[list[float], list[float]]:
    """Emit the calls at the rate; how long each held the loop, and how late each tick was."""
    loop = asyncio.get_running_loop()
    held, late = list[float](), list[float]()
    per_tick, began = round(RATE * TICK), loop.time()
    for tick, start in enumerate(range(0, len(calls), per_tick), 1):
        for events in calls[start : start + per_tick]:
            before = time.perf_counter()
            for event in events:
                if recorder is not None:
                    recorder.on_event(event)
            held.append((time.perf_counter() - before) * 1e3)
        due = began + tick * TICK
        await asyncio.sleep(max(0.0, due - loop.time()))
        late.append(max(0.0, loop.time() - due) * 1e3)
    return held, late


def once(calls: list[list[Event]], recording: bool) -> Measured:
    """One pass over *calls*."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.trace"
        recorder = Recorder(path, {"program": "benchmark"}) if recording else None
        cpu, wall = time.process_time(), time.perf_counter()
        held, late = asyncio.run(paced(calls, recorder))
        if recorder is not None:
            recorder.close()
        share = (time.process_time() - cpu) / (time.perf_counter() - wall)
        size = path.stat().st_size / len(calls) if recording else 0.0
    return Measured(_at(held, 50), _at(held, 99), _at(late, 99), share, size)


def _at(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


class Slow(Instant):
    """Answers after ``LATENCY`` with a text of its own."""

    def __init__(self, answers: list[str]) -> None:
        super().__init__()
        self._answers = iter(answers)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        answer = next(self._answers)
        await asyncio.sleep(LATENCY)
        return Response((Sample(answer, "stop"),), Usage(100, 20, 80), request.model)


@ppl
async def chat(shared: str, questions: list[str]) -> int:
    with SystemRole():
        f"{shared}"
    heard = 0
    for question in questions:
        f"{question}"
        with AIRole():
            answer = gen()
            f"{answer}"
        heard += bool(await answer)
    return heard


async def chats(shared: str, asked: list[list[str]]) -> int:
    """A new chat every so often that there are ``RATE`` calls a second."""
    loop = asyncio.get_running_loop()
    began, running = loop.time(), list[asyncio.Future[int]]()
    for number, questions in enumerate(asked):
        await asyncio.sleep(max(0.0, began + number * TURNS / RATE - loop.time()))
        running.append(asyncio.ensure_future(chat(shared, questions)))
    return sum(await asyncio.gather(*running))


def whole(recording: bool) -> float:
    """Microseconds of processor time a call, of a program of chats."""
    dice, calls = random.Random(1), RATE * SECONDS
    shared = text(dice, 5_000 // 6)[:5_000]
    asked = [[prose(dice, 450) for _ in range(TURNS)] for _ in range(calls // TURNS)]
    backend = Slow([prose(dice, 900) for _ in range(calls)])
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "a.trace", {"program": "chats"}) if recording else None
        watching = [recorder] if recorder is not None else []
        gate = recorder.gate if recorder is not None else None
        before = time.process_time()
        with Run(backend, instruments=watching, gate=gate):
            assert asyncio.run(chats(shared, asked)) == calls
        if recorder is not None:
            recorder.close()
        return (time.process_time() - before) / calls * 1e6


def calibration() -> float:
    """Milliseconds for a fixed loop of Python."""
    began = time.perf_counter()
    sum(i * i for i in range(1_000_000))
    return (time.perf_counter() - began) * 1e3


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """Keep every core from sleeping, with loops that give way to whatever else there is to do."""
    command = ["nice", "-n", "19", sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def taken(calls: list[list[Event]]) -> float:
    """What recording takes of a core."""
    pairs = [(once(calls, False).share, once(calls, True).share) for _ in range(REPEATS)]
    return statistics.median(recorded - without for without, recorded in pairs)


def speeds() -> tuple[float, float]:
    """Microseconds of processor time that a short loop takes: when a core does nothing else, and
    when it slept for a tick before."""
    busy, rested = list[float](), list[float]()
    for found, pause in ((busy, 0.0), (rested, TICK)):
        for _ in range(300):
            time.sleep(pause)
            before = time.thread_time()
            sum(i * i for i in range(10_000))
            found.append((time.thread_time() - before) * 1e6)
    return min(busy), statistics.median(rested)


def table() -> Iterator[str]:
    """The lines of the result."""
    calls = loads()
    gc.collect()
    gc.freeze()  # a program would not hold the events of all its calls
    loops = [calibration()]
    runs: dict[bool, list[Measured]] = {False: [], True: []}
    for _ in range(REPEATS):
        for recording in (False, True):
            runs[recording].append(once(calls, recording))
            loops.append(calibration())
    yield f"{datetime.date.today()}  $ python benchmarks/recording.py"
    yield (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average "
        f"{os.getloadavg()[0]:.1f}; calibration loop {min(loops):.0f} to {max(loops):.0f} ms"
    )
    yield f"{RATE:,} calls a second for {SECONDS} s, chats of {TURNS} turns, 5 kB shared"
    yield f"medians of {REPEATS}"
    yield ""
    titles = "a call holds the loop", "tick late", "of a core", "bytes a call"
    yield f"{'':12}{titles[0]:>26}{titles[1]:>13}{titles[2]:>12}{titles[3]:>15}"
    for recording, name in ((False, "unrecorded"), (True, "recorded")):
        p50, p99, late, share, size = (
            statistics.median(getattr(each, field) for each in runs[recording])
            for field in ("held_p50", "held_p99", "late_p99", "share", "size")
        )
        yield (
            f"{name:12}{f'p50 {p50 * 1e3:.0f} µs, p99 {p99 * 1e3:.0f} µs':>26}"
            f"{f'p99 {late:.2f} ms':>13}{share:>12.1%}{size:>15,.0f}"
        )
    shares = {kind: statistics.median(each.share for each in runs[kind]) for kind in runs}
    extra = shares[True] - shares[False]
    yield ""
    yield f"recording: {extra:.1%} of a core, {extra / RATE * 1e6:.0f} µs of CPU a call"
    pairs = [(whole(False), whole(True)) for _ in range(REPEATS)]
    without, recorded = (statistics.median(column) for column in zip(*pairs, strict=True))
    took = statistics.median(b - a for a, b in pairs)
    yield ""
    yield (
        f"a program at that rate: {without:.0f} µs of CPU a call, {recorded:.0f} recorded: "
        f"{recorded / without:.2f} times, {took:.0f} µs a call, {took * RATE / 1e6:.1%} of a core"
    )
    busy, rested = speeds()
    yield ""
    yield (
        f"the speed of this core: a fixed loop takes {busy:.0f} µs when nothing else is done, and "
        f"{rested:.0f} µs between sleeps of {TICK * 1e3:.0f} ms, {rested / busy:.2f} times as much"
    )
    with awake():
        extra = taken(calls)
        busy, rested = speeds()
    yield (
        f"kept awake ({rested / busy:.2f} times): {extra:.1%} of a core, "
        f"{extra / RATE * 1e6:.0f} µs of CPU a call"
    )
    parts = back_to_back(calls)
    told = ", ".join(f"{part} {took:.1f}" for part, took in parts.items())
    yield (
        f"the writer's work back to back: {told} µs a call, together "
        f"{sum(parts.values()) * RATE / 1e6:.1%} of a core"
    )


def back_to_back(calls: list[list[Event]]) -> dict[str, float]:
    """Microseconds a call of each part of the writer's work, in groups of a tick; the least of some
    passes."""
    from appl.tracing import Masker
    from appl.tracing.format import block_file
    from appl.tracing.recording.encoder import EventEncoder
    from appl.tracing.recording.recorder import _HOLDS as HOLDS

    least: dict[str, float] = {}
    per_tick = round(RATE * TICK)
    for _ in range(REPEATS):
        clock, took = time.perf_counter, dict.fromkeys(("encode", "compress", "write"), 0.0)
        with tempfile.TemporaryFile(buffering=0) as file:
            masker, packer = Masker(()), block_file.Encoder()
            encoder = EventEncoder(time.monotonic_ns(), masker, None, whole=False)
            for start in range(0, len(calls), per_tick):
                group = [
                    event if (hold := HOLDS.get(type(event))) is None else hold(event)
                    for events in calls[start : start + per_tick]
                    for event in events
                ]
                began = clock()
                found = masker.filter(encoder.encode(group, _unexpected))
                encoded = clock()
                data = packer.block(b"".join(found))
                compressed = clock()
                file.write(data)
                ends = encoded, compressed, clock()
                for part, (begin, end) in zip(took, pairwise((began, *ends)), strict=True):
                    took[part] += end - begin
        for part, seconds in took.items():
            each = seconds / len(calls) * 1e6
            least[part] = min(least.get(part, each), each)
    return least


def _unexpected(what: str, error: Exception) -> None:
    raise error


def short(folder: str) -> None:
    """Print what recording takes a call with the source in *folder*: kept awake, and as it is."""
    import appl

    assert appl.__file__.startswith(folder), f"{appl.__file__} is not in {folder}"
    global SECONDS, REPEATS
    SECONDS, REPEATS = 2, 3
    calls = loads()
    gc.collect()
    gc.freeze()
    rested = taken(calls)
    with awake():
        busy = taken(calls)
    print(busy / RATE * 1e6, rested / RATE * 1e6)


def compared(other: str, pairs: int) -> Iterator[str]:
    """The lines of a comparison with the source in *other*, measured in turns."""
    folders = {"that version": other, "this version": str(Path(__file__).parent.parent)}
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in folders}
    for _ in range(pairs):
        for name, folder in folders.items():
            path = os.pathsep.join([folder, str(Path(folder) / "backends")])
            told = subprocess.run(
                [sys.executable, __file__, "--short", folder],
                env={**os.environ, "PYTHONPATH": path}, check=True, text=True,
                stdout=subprocess.PIPE,
            )  # fmt: skip
            found[name].append(tuple(map(float, told.stdout.split())))
    yield f"{datetime.date.today()}  $ python benchmarks/recording.py --against FOLDER"
    yield f"µs of CPU a call, {pairs} pairs in turns: half (least to most), and of a core"
    yield f"{'':14}{'kept awake':>32}{'as it is':>32}"
    for name, each in found.items():
        cells = []
        for values in zip(*each, strict=True):
            half = statistics.median(values)
            cells.append(
                f"{half:.1f} ({min(values):.1f} to {max(values):.1f}), {half * RATE / 1e6:.1%}"
            )
        yield f"{name:14}{cells[0]:>32}{cells[1]:>32}"


def main() -> None:
    """Print and write the table, or a comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--against", metavar="FOLDER", help="the source of another version")
    parser.add_argument(
        "--pairs", type=int, default=7, help="how many pairs to measure (default: 7)"
    )
    parser.add_argument("--short", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.short:
        short(given.short)
        return
    if given.against:
        compared_to = RESULTS.with_name("recording_against.txt")
        printed(compared(given.against, given.pairs), compared_to)
    else:
        printed(table(), RESULTS)


if __name__ == "__main__":
    main()
