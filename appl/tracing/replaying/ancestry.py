"""A run that was made in part, with the answers of the runs of which it is a rerun.

Invariant: the files are only read; a call of the run itself comes before one of its ancestors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from appl.errors import TraceError
from appl.tracing.reading.trace import RecordedCall, Trace

_GENERATIONS = 20


def with_ancestors(trace: Trace, home: Path | None = None) -> Trace:
    """*trace* with the answers of calls that its run did not come to, or asked otherwise.

    They are those of the run of which it is a rerun, and so on. The trace is changed in place. What
    is added counts as something that nobody was told of. Where a call has an answer to another
    question there, that is one of ``others``: an edit that is taken back finds it again.
    """
    header: Mapping[str, object] = trace.header
    known = {(call.content, call.n, call.sample) for call in trace.calls}
    for _ in range(_GENERATIONS):
        path = _parent(trace.path, header)
        if path is None or trace.key is not None:  # digests of private runs say nothing elsewhere
            break
        try:
            parent = Trace.open(path, home=home)
        except (TraceError, OSError):
            break
        header = parent.header
        if parent.key is None:
            _add(trace, parent, known)
    return trace


def _add(trace: Trace, parent: Trace, known: set[tuple[bytes, int, int]]) -> None:
    """Add the answers of *parent* to questions that are not *known* yet."""
    by_address: dict[str, RecordedCall] = dict(trace.by_address)
    for call in parent.calls:
        if call.outcome != "answered":
            continue
        mine, question = by_address.get(call.address), (call.content, call.n, call.sample)
        if mine is None or mine.outcome != "answered":
            by_address[call.address] = replace(call, delivered=None, shown=[])
        elif question not in known:
            trace.others.append(replace(call, delivered=None, shown=[]))
        known.add(question)
    trace.by_address, trace.calls = by_address, list(by_address.values())


def _parent(path: Path, header: Mapping[str, object]) -> Path | None:
    """The trace, beside that at *path*, of the run of which the one with *header* is a rerun."""
    origin = header.get("parent")
    name = origin.get("run") if isinstance(origin, Mapping) else None
    if not isinstance(name, str) or Path(name).name != name:
        return None
    return path.with_name(f"{name}{path.suffix}")
