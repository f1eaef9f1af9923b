"""A rerun that was broken off, with the answers of the run that it had come from.

Invariant: the files are only read; a call of the rerun itself comes before one of its ancestors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from appl.errors import TraceError
from appl.tracing.reading.trace import RecordedCall, Trace

_GENERATIONS = 20


def with_ancestors(trace: Trace, home: Path | None = None) -> Trace:
    """*trace*, to which the answers are added that its run had not come to before it broke off.

    They are those of the run of which it is a rerun, and so on until one that finished. The trace
    is changed in place. What is added counts as something that nobody was told of.
    """
    found: dict[str, RecordedCall] = dict(trace.by_address)
    newest = trace
    for _ in range(_GENERATIONS):
        parent = None if _is_whole(newest) else _parent(newest, home)
        if parent is None:
            break
        for call in parent.calls:
            mine = found.get(call.address)
            if call.outcome == "answered" and (mine is None or mine.outcome != "answered"):
                found[call.address] = replace(call, delivered=None, shown=[])
        newest = parent
    trace.by_address, trace.calls = found, list(found.values())
    return trace


def _is_whole(trace: Trace) -> bool:
    return trace.reason == "finished" or trace.key is not None  # digests of others mean nothing


def _parent(trace: Trace, home: Path | None) -> Trace | None:
    """The run of which *trace* is a rerun, if it lies beside it."""
    origin = trace.header.get("parent")
    name = origin.get("run") if isinstance(origin, Mapping) else None
    if not isinstance(name, str) or Path(name).name != name:
        return None
    try:
        parent = Trace.open(trace.path.with_name(f"{name}{trace.path.suffix}"), home=home)
    except (TraceError, OSError):
        return None
    return parent if parent.key is None else None
