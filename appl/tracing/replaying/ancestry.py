"""A run that was made in part, with the answers of the runs of which it is a rerun.

Invariant: the files are only read; a call of the run itself comes before one of its ancestors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from appl.errors import TraceError
from appl.tracing.reading.runs import finished
from appl.tracing.reading.trace import RecordedCall, Trace

_GENERATIONS = 20


def with_ancestors(trace: Trace, home: Path | None = None) -> Trace:
    """*trace* with the answers of calls that its run did not come to, or did not make.

    They are those of the run of which it is a rerun, and so on. The trace is changed in place. What
    is added counts as something that nobody was told of. A finished run of fewer calls than are
    known has nothing to add, and is not read.
    """
    header: Mapping[str, object] = trace.header
    for _ in range(_GENERATIONS):
        path = _parent(trace.path, header)
        if path is None or trace.key is not None:  # digests of private runs say nothing elsewhere
            break
        try:
            summary = finished(path)
            if summary is not None and summary.totals.get("calls", 0) <= len(trace.calls):
                header = summary.header
                continue
            parent = Trace.open(path, home=home)
        except (TraceError, OSError):
            break
        header = parent.header
        if parent.key is None:
            _add(trace, parent)
    return trace


def _add(trace: Trace, parent: Trace) -> None:
    """Add the answers of *parent* that *trace* has not."""
    by_address: dict[str, RecordedCall] = dict(trace.by_address)
    for call in parent.calls:
        mine = by_address.get(call.address)
        if call.outcome == "answered" and (mine is None or mine.outcome != "answered"):
            by_address[call.address] = replace(call, delivered=None, shown=[])
    trace.by_address, trace.calls = by_address, list(by_address.values())


def _parent(path: Path, header: Mapping[str, object]) -> Path | None:
    """The trace, beside that at *path*, of the run of which the one with *header* is a rerun."""
    origin = header.get("parent")
    name = origin.get("run") if isinstance(origin, Mapping) else None
    if not isinstance(name, str) or Path(name).name != name:
        return None
    return path.with_name(f"{name}{path.suffix}")
