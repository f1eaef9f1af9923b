"""Exports to a real server: a Phoenix that this starts, is sent a run, and is asked what it shows.

    python -m venv /tmp/phoenix && /tmp/phoenix/bin/pip install arize-phoenix
    python benchmarks/otel_phoenix.py /tmp/phoenix/bin/phoenix

Only loopback is used. PHOENIX_MAX_SPANS_QUEUE_SIZE sets how much Phoenix takes at once. Needs the
extra ``otel``: Phoenix takes protobuf alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from appl.errors import ExportError
from appl.tracing import Trace
from appl.tracing.exporting import otlp
from appl.tracing.exporting.delivery import Patience, send
from appl.tracing.exporting.spans import spans_of
from tests.housekeeping.conftest import made
from tests.traces.make import recorded
from tests.traces.programs import PROGRAMS

PORT = 16006
URL = f"http://127.0.0.1:{PORT}"
STARTING = Patience(tries=60)
CALLS = 20_000


def asked(path: str) -> Any:
    with urllib.request.urlopen(URL + path, timeout=10) as answer:
        return json.loads(answer.read())


def shown(count: int) -> list[dict[str, Any]]:
    """The spans that Phoenix shows, when there are *count*, or those there are after a minute."""
    found: list[dict[str, Any]] = []
    for _ in range(60):
        found = asked(f"/v1/projects/default/spans?limit={2 * count}")["data"]
        if len(found) >= count:
            break
        time.sleep(1)
    return found


def main(phoenix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "PHOENIX_WORKING_DIR": folder, "PHOENIX_PORT": str(PORT),
            "PHOENIX_HOST": "127.0.0.1", "PHOENIX_GRPC_PORT": "14317",
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }  # fmt: skip
        with (Path(folder) / "log").open("wb") as log:
            server = subprocess.Popen([phoenix, "serve"], env=environment, stdout=log, stderr=log)
        try:
            tell(Path(folder))
            export_many(Path(folder))
        finally:
            server.terminate()
            server.wait(30)


def tell(folder: Path) -> None:
    sent: dict[str, Any] = {}
    for name in PROGRAMS:
        recorded(name, folder / f"{name}.trace")
        trace = Trace.open(folder / f"{name}.trace")
        spans = spans_of(trace, content=True, inference=True)
        print(f"{name}: {send(spans, URL, patience=STARTING).line()}")
        sent |= {span.identity.hex(): span for span in spans.spans}
    found = {span["context"]["span_id"]: span for span in shown(len(sent))}
    same = len(found.keys() & sent.keys())
    print(f"Phoenix shows {len(found)} spans, {same} of the {len(sent)} sent")
    kinds: dict[str, int] = {}
    for span in found.values():
        kinds[span["span_kind"]] = kinds.get(span["span_kind"], 0) + 1
    print("by kind:", json.dumps(kinds, sort_keys=True))
    wrong = [
        key
        for key, span in found.items()
        if key in sent and (span["parent_id"] or "") != (sent[key].parent or b"").hex()
    ]
    print(f"with another parent than was sent: {len(wrong)}")
    try:
        send(spans, URL, encode=otlp.RequestEncoder())
    except ExportError as error:
        print(f"as JSON: {error}")


def export_many(folder: Path) -> None:
    """Export a run of 20,000 calls by the command, again and again until all have arrived."""
    run = made(folder / ".appl", 1, calls=CALLS)
    before = count()
    for number in range(1, 11):
        began = time.monotonic()
        words = ["-m", "appl", "trace", "export", str(run), "--otel", URL, "--json"]
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, text=True, capture_output=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        seconds = time.monotonic() - began
        print(f"{CALLS} calls, export {number}: exit code {done.returncode} after {seconds:.0f} s")
        print(f"  {json.dumps(json.loads(done.stdout)['sent'])}", flush=True)
        if done.returncode == 0:
            break
    print(f"Phoenix has {settled(before + CALLS + 2) - before} more spans; {CALLS + 2} were sent")


def settled(expected: int) -> int:
    """How many spans Phoenix has, when these are *expected* many, or after ten minutes."""
    for _ in range(600):
        if count() >= expected:
            break
        time.sleep(1)
    return count()


def count() -> int:
    query = json.dumps({"query": "{projects{edges{node{recordCount}}}}"}).encode()
    request = urllib.request.Request(f"{URL}/graphql", query, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.loads(answer.read())["data"]["projects"]["edges"]
    return sum(int(each["node"]["recordCount"]) for each in found)


if __name__ == "__main__":
    main(*sys.argv[1:])
