"""Folders of many recorded runs, made by events: of some programs, over some weeks."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.errors import BackendError
from appl.prompt import Message, Messages
from appl.testing import CallDispatched, CallEnded, CallStarted, Delivered, RunEnded, ScopeEntered
from appl.tracing import Recorder
from appl.tracing.format import block, block_file, codec, table

PROGRAMS = ("support", "triage", "summary", "translate")
_BEGIN = datetime(2026, 10, 1, 8, tzinfo=UTC)
_MS = 1_000_000


def many_runs(home: Path, count: int, seed: int = 1) -> list[str]:
    """Record *count* runs below *home*, some of which failed; their names, oldest first."""
    dice, names = random.Random(seed), []
    for number in range(count):
        at = _BEGIN + timedelta(hours=number * 960 / count)
        program = PROGRAMS[dice.randrange(len(PROGRAMS))]
        name = f"{at:%Y%m%dT%H%M%S}.000Z-{program}-{number:04x}"
        a_run(home / "runs" / f"{name}.trace", program, number, dice, failed=number % 17 == 3)
        began_at(home / "runs" / f"{name}.trace", at)
        names.append(name)
    return names


def a_run(path: Path, program: str, number: int, dice: random.Random, failed: bool) -> None:
    """Record a run of some calls at *path*."""
    recorder = Recorder(path, {"program": program}, durability="process", arguments=True)
    base = recorder._began
    shown = "question=", f"Where is order {number}?", ""
    recorder.on_event(ScopeEntered("/main.0", "", "main", "app.py", 3, base, None, shown))
    for call in range(dice.randrange(1, 5)):
        address = f"/main.0/gen.{call}"
        chain = Messages.of([Message("user", f"Where is order {number}, part {call}?")])
        request = Request(address, call, "gpt-mini", chain, Sampling())
        recorder.on_event(CallStarted(request, "gen", (), "app.py", 5, base + call * _MS))
        recorder.on_event(CallDispatched(address, 1, base + call * _MS))
        answer = Response(
            (Sample(f"Order {number} is on its way.", "stop"),),
            Usage(200 + dice.randrange(900), 40, None), "gpt-mini", cost=dice.randrange(200, 40_000),
        )  # fmt: skip
        broken = failed and not call
        error = BackendError("the server had an error") if broken else None
        ended = base + (call + 400) * _MS
        recorder.on_event(CallEnded(address, None if broken else answer, error, ended))
        recorder.on_event(Delivered(address, ended))
    error = BackendError("the server had an error") if failed else None
    recorder.on_event(RunEnded("failed" if failed else "finished", error, base + 900 * _MS))
    recorder.close()


def began_at(path: Path, at: datetime) -> None:
    """Have the run at *path* begin *at* this time."""
    with path.open("rb") as file:
        blocks = list(block.scan(file, block.Scan()))
    encoder, parts = block_file.Encoder(), [block.MAGIC]
    for raw in blocks:
        records = [_moved(fields, at) for fields in codec.unpack(raw)]
        parts.append(encoder.block(b"".join(map(codec.pack, records))))
    path.write_bytes(b"".join(parts))


def _moved(fields: list[object], at: datetime) -> tuple[object, ...]:
    record = table.as_record(fields)
    if isinstance(record, table.ProcessRecord):
        record = record._replace(wall_ns=int(at.timestamp() * 1e9))
    return table.stored(record)
