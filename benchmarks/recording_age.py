"""How old what was recorded is when it has been written: the age of the oldest event of each group.

``python benchmarks/recording_age.py`` records calls at several rates, which begin and end at random
moments, and the chats of ``recording.py``; what ended longer ago than a group gathers and is
written would be lost if the process died. Each rate once more while another thread of the program
computes without pause, so that the writer waits for the interpreter's lock. The table goes to
``benchmarks/results/recording_age.txt``.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import os
import platform
import random
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import recording  # type: ignore[import-not-found]
from report import kept, printed  # type: ignore[import-not-found]

from appl.runtime.event import Event
from appl.tracing import Recorder
from appl.tracing.recording.writer import Writer

RESULTS = kept("recording_age.txt")
RATES, SECONDS, ALLOWED_MS = (50, 200, 1_000), 5, 5.0


class Aged(Writer):
    """Notes in ``ages`` for how many milliseconds the oldest of each group had waited."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.ages: list[float] = []
        self._stamps: deque[float] = deque()
        self._oldest: float | None = None
        super().__init__(*args, **options)

    def append(self, item: Any, weight: int | None = None, *, wake: bool = True) -> None:
        self._stamps.append(time.monotonic())
        super().append(item, weight, wake=wake)

    def _records(self, items: list[Any]) -> list[bytes]:
        stamps = [self._stamps.popleft() for _ in items]
        if stamps and self._oldest is None:
            self._oldest = stamps[0]
        return super()._records(items)

    def _commit(self) -> None:
        super()._commit()
        if self._oldest is not None:
            self.ages.append((time.monotonic() - self._oldest) * 1e3)
            self._oldest = None


async def scattered(calls: list[list[Event]], recorder: Recorder, rate: int) -> None:
    """Calls that begin at random moments, *rate* of them a second, and end at random ones."""
    dice = random.Random(3)
    for events in calls[: rate * SECONDS]:
        for event in events[:-2]:
            recorder.on_event(event)
        await asyncio.sleep(dice.expovariate(rate))
        for event in events[-2:]:
            recorder.on_event(event)


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Compute without pause on a thread meanwhile."""
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(at * at for at in range(1_000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def ages(load: Callable[[Recorder], Coroutine[Any, Any, Any]]) -> list[float]:
    """The ages of the groups of one run, in order of size."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "a.trace", {"program": "benchmark"}, writer=Aged)
        asyncio.run(load(recorder))
        recorder.close()
        writer = recorder.writer
        assert isinstance(writer, Aged)
        return sorted(writer.ages)


def table() -> Iterator[str]:
    """The lines of the result."""
    calls = recording.loads()
    gc.collect()
    gc.freeze()
    yield f"{datetime.date.today()}  $ python benchmarks/recording_age.py"
    yield (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average "
        f"{os.getloadavg()[0]:.1f}; a group's oldest event, in ms, when it was written"
    )
    titles = "groups", "half", "99%", "oldest", "over 5 ms"
    yield f"{'calls a second':27}" + "".join(
        f"{title:>{12 if ' ' in title else 8}}" for title in titles
    )
    loads: dict[int, Callable[[Recorder], Coroutine[Any, Any, Any]]] = {
        rate: lambda recorder, rate=rate: scattered(calls, recorder, rate)  # type: ignore[misc]
        for rate in RATES
    }
    loads[recording.RATE] = lambda recorder: recording.paced(calls, recorder)
    for rate, load in loads.items():
        yield line(f"{rate:,}", ages(load))
    for rate, load in loads.items():
        with computing():
            yield line(f"{rate:,}, beside computing", ages(load))


def line(name: str, found: list[float]) -> str:
    """What there is to say of the ages of one run."""
    half, most = (found[len(found) * part // 100] for part in (50, 99))
    over = sum(age > ALLOWED_MS for age in found)
    return f"{name:27}{len(found):8}{half:8.2f}{most:8.2f}{found[-1]:8.2f}{over:12}"


if __name__ == "__main__":
    printed(table(), RESULTS)
