"""Fuzzed requests to the viewer's server: no failure inside, no traceback, little memory."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from made import small_trace

from tests.drawn import counts
from tests.fuzzed import JUNK, Draft, storm

MEMORY = 300 << 20
DOCUMENTS = (
    "runs", "a/run", "a/rows?since=0", "a/call?row=1", "a/messages?ids=0,1", "a/changes?since=0",
    "a/scopes?since=0", "a/search?text=x&from=0", "a/prefixes", "a/critical", "a/cost", "compare",
    "b/run", "a/graph?row=0", "a/origins?row=1", "a/nothing",
)  # fmt: skip


@contextmanager
def viewer(path: Path, log: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``appl trace view`` in a process of its own, and the address that it prints."""
    command = [sys.executable, "-m", "appl", "trace", "view", str(path), "--no-open"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None, log.read_text()
        yield process, found[0]
    finally:
        process.terminate()
        process.wait()


def drafts(url: str) -> list[Draft]:
    """Requests for all documents, each with many values of its parameters."""
    rng, root = random.Random(0), urlsplit(url).path
    made = [Draft("GET", root), Draft("GET", "/wrong-token/data/runs")]
    for _ in range(40):
        for document in DOCUMENTS:
            name, _, query = document.partition("?")
            pairs = [pair.split("=") for pair in query.split("&") if pair]
            junk = [quote(str(rng.choice(JUNK)), errors="replace")[:2000] for _ in pairs]
            kept = [
                (key, value if rng.random() < 0.4 else other)
                for (key, value), other in zip(pairs, junk, strict=True)
                if rng.random() < 0.9
            ]
            asked = "&".join(f"{key}={value}" for key, value in kept)
            made.append(Draft("GET", f"{root}data/{name}" + (f"?{asked}" if asked else "")))
    return made


@counts(1_500, 6_000)
def test_fuzzed_requests_are_answered_or_refused(path: Path, tmp_path: Path, count: int) -> None:
    log = tmp_path / "log.txt"
    with viewer(small_trace(path), log) as (process, url):
        statuses, failures = asyncio.run(
            storm(url, {}, drafts(url), range(count), lambda status: status >= 500, beside=16)
        )
        text = Path(f"/proc/{process.pid}/status").read_text()
    peak = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    assert failures == [], failures[0].sent[:2000]
    assert sum(statuses.values()) == count and {200, 403, 404, 405, 421} <= set(statuses)
    assert "Traceback" not in log.read_text()
    assert int(peak.split()[1]) << 10 <= MEMORY
