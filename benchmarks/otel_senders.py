"""Our export to a collector beside the one of OpenTelemetry's SDK, against real collectors.

For each way in which a collector answers, both send the spans of one recorded run to one in a
process of its own, which reads them by OpenTelemetry's own messages: what the sender says, what the
collector has, and whether the key in OTEL_EXPORTER_OTLP_HEADERS is printed. Then the CPU of a run
of many calls, in interleaved rounds. Each export is a process.
Run: python benchmarks/otel_senders.py [--calls 20000] [--rounds 5]
Needs the extra ``dev``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import Any

from report import kept, printed

ROOT = Path(__file__).parents[1]
COLLECTOR = ROOT / "tests" / "exports" / "collector_process.py"
WAYS = (
    "takes", "busy at first", "small requests only", "rejects some", "loses the first answer",
    "moved", "a page", "refuses, with the key", "hangs up",
)  # fmt: skip
KEY = "canary-key-0123456789"
DEADLINE_S = 20.0
BATCH = 512


def ours(spans: Any, url: str) -> str:
    """Send with ours; what it says."""
    from appl.tracing.exporting.collector import Collector
    from appl.tracing.exporting.delivery import Courier, Patience

    return Courier(Collector(url), patience=Patience(total_s=DEADLINE_S)).deliver(spans).line()


def sdk(spans: Any, url: str) -> str:
    """Send with the SDK's exporter, in requests of as many spans; what it says."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from tests.exports.test_sdk import readable_spans

    exporter = OTLPSpanExporter(f"{url}/v1/traces", timeout=DEADLINE_S)
    every = readable_spans(spans)
    results = [exporter.export(every[at : at + BATCH]).name for at in range(0, len(every), BATCH)]
    return f"{results.count('SUCCESS')} of {len(results)} requests are a SUCCESS"


def send(sender: str, url: str, trace: str) -> None:
    """Send the run at *trace*, and print what is said of it and the CPU of sending it."""
    from appl.tracing import Trace
    from appl.tracing.exporting.spans import spans_of

    spans = spans_of(Trace.open(Path(trace)))
    before = time.process_time()
    says = {"ours": ours, "sdk": sdk}[sender](spans, url)
    print(json.dumps({"says": says, "cpu_s": time.process_time() - before}))


def sent(sender: str, way: str, trace: Path) -> dict[str, Any]:
    """One export by a process, to a new collector."""
    environment = os.environ | {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{KEY}"}
    collecting = [sys.executable, str(COLLECTOR), way]
    with subprocess.Popen(collecting, stdout=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        url = f"http://127.0.0.1:{collector.stdout.readline().strip()}"
        command = [sys.executable, __file__, "--send", sender, url, str(trace)]
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        took = time.monotonic() - began
        with urllib.request.urlopen(url) as answer:
            has = json.load(answer)
        collector.terminate()
    told = json.loads(done.stdout.splitlines()[-1])
    shown = KEY in done.stdout + done.stderr
    return {**told, "has": has, "s": took, "key": shown, "log": len(done.stderr.splitlines())}


def lines(calls: int, rounds: int) -> Any:
    """The tables, line by line."""
    from tests.housekeeping.conftest import made

    exporter = "opentelemetry-exporter-otlp-proto-http"
    yield f"$ python benchmarks/otel_senders.py --calls {calls} --rounds {rounds}"
    python = sys.version.split()[0]
    yield f"{time.strftime('%F')}, {os.cpu_count()} cores, Python {python}, other work on both"
    yield f"{exporter} {version(exporter)}"
    with tempfile.TemporaryDirectory() as folder:
        run = made(Path(folder), 1, calls=1200)
        yield "\na run of 1,202 spans, by how the collector answers"
        for way in WAYS:
            yield way
            for sender in ("ours", "sdk"):
                row = sent(sender, way, run)
                has, key = row["has"], "; THE KEY IS PRINTED" if row["key"] else ""
                yield (
                    f"  {sender:5} the collector has {has['spans']:,} spans, {has['repeated']:,} "
                    f"twice, after {has['requests']} requests and {row['s']:.1f} s{key}"
                )
                yield f"        says: {row['says'].replace(str(ROOT), '')}"
        large = made(Path(folder), 2, calls=calls)
        costs: dict[str, list[float]] = {"ours": [], "sdk": []}
        for _ in range(rounds):
            for sender, found in costs.items():
                found.append(sent(sender, "takes", large)["cpu_s"] / (calls + 2) * 1e6)
        yield f"\nCPU of sending a run of {calls:,} calls, µs a span, median of {rounds} rounds"
        for sender, found in costs.items():
            spread = f"({min(found):.0f} to {max(found):.0f})"
            yield f"  {sender:5} {statistics.median(found):.0f} {spread}"


def main() -> None:
    """Compare, and keep the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--send", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if arguments.send:
        send(*arguments.send)
    else:
        printed(lines(arguments.calls, arguments.rounds), kept("otel_senders.txt"))


if __name__ == "__main__":
    main()
