"""Folders with runs in them, made by hand: fast, and of any age, size and outcome."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from appl.testing import RunEnded, ScopeEntered
from appl.tracing import Recorder
from tests.cli.conftest import Project, project as _project
from tests.tracing.made import answer, asked, end, now, start

__all__ = ["Project", "made", "project"]

project = _project
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / ".appl"


def made(
    home: Path,
    number: int,
    *,
    program: str = "talk",
    calls: int = 1,
    reason: str = "finished",
    failing: int = 0,
    cost: int | None = None,
    model: str = "m",
    ended: bool = True,
    text: str = "an answer",
) -> Path:
    """A recorded run that began *number* hours after ``START``, with its calls."""
    began = START + timedelta(hours=number)
    path = home / "runs" / f"{began:%Y%m%dT%H%M%S}.000Z-{program}-{number:04x}.trace"
    recorder = Recorder(path, {"program": program, "model": model}, durability="process")
    recorder.on_event(ScopeEntered(f"/{program}.0", "", program, f"{program}.py", 1, now()))
    for i in range(calls + failing):
        address = f"/{program}.0/gen.{i}"
        start(recorder, asked(address, f"question {i}", model=model))
        outcome = ValueError("no") if i >= calls else answer(text, cost=cost)
        end(recorder, address, outcome)
    if ended:
        recorder.on_event(RunEnded(reason, None, now()))
        recorder.close()
    else:
        recorder.barrier()
        recorder.writer.abandon()  # as a process does that dies
    return path
