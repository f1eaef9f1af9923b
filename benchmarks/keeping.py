"""What housekeeping, privacy and exports cost: ``python -m benchmarks.keeping``, on one core."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from appl.tracing import Recorder, Trace
from appl.tracing.exporting import chrome, markdown, otlp
from appl.tracing.exporting.spans import spans_of
from appl.tracing.keeping import index
from appl.tracing.keeping.row import RunRow, row_of
from appl.tracing.reading import runs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tracing"))

from made import call

RUNS, CALLS = 1000, 20_000


def timed(what: str, act: Callable[[], Any]) -> Any:
    began, used = time.perf_counter(), time.process_time()
    value = act()
    cpu = time.process_time() - used
    print(f"{what}: {time.perf_counter() - began:.2f} s, of them {cpu:.2f} s of CPU", end="")
    return value


def recorded(path: Path, calls: int, **options: Any) -> None:
    recorder = Recorder(path, {"program": "p"}, durability="process", **options)
    for number in range(calls):
        text = f"question {number} " + "x" * 300
        call(recorder, f"/p.0/gen.{number}", text, f"answer {number} " + "y" * 300)
    recorder.close()


def _size(lines: Callable[[], Iterable[str]]) -> int:
    return sum(map(len, lines()))


def scanned(home: Path) -> list[RunRow]:
    return [row_of(path) for path in runs.paths(home)]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for number in range(RUNS):
            recorded(home / "runs" / f"20260101T{number:06}.000Z-p-0000.trace", 5)
        for what, rows in (
            (f"rows of {RUNS} runs, without index", index.rows),
            ("again", index.rows),
            ("by a scan", scanned),
        ):
            timed(what, partial(rows, home))
            print()
        for mode in ("full", "redacted", "digests"):
            path = home / f"{mode}.trace"
            record = partial(recorded, path, CALLS, privacy=mode, home=home)
            timed(f"{CALLS} calls recorded {mode}", record)
            print(f", {path.stat().st_size / CALLS:.0f} bytes a call")
        trace = timed("opened full", lambda: Trace.open(home / "full.trace"))
        print()
        timed(
            "opened redacted with its key", lambda: Trace.open(home / "redacted.trace", home=home)
        )
        print()
        spans = timed("spans", lambda: spans_of(trace))
        print()
        for what, lines in (
            ("OTLP's JSON", lambda: map(json.dumps, otlp.requests(spans))),
            ("timeline", lambda: chrome.lines(trace)),
            ("transcript", lambda: markdown.lines(trace)),
        ):
            size = timed(what, partial(_size, lines))
            print(f", {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
