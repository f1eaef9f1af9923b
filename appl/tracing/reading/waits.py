"""What a recorded run waits for, as it ended or was broken off.

Invariant: only reads; a record that says something else than expected says nothing.
"""

from __future__ import annotations

from appl.errors import Awaited
from appl.tracing.reading.trace import Observation, Trace

WAITING = "waiting"


def waits_in(trace: Trace) -> list[Awaited]:
    """What the run waited for when it ended as waiting; empty if it ended otherwise."""
    if trace.state != "finished" or trace.reason != WAITING:
        return []
    last: Observation | None = None
    for seen in trace.observations:
        if seen.kind == WAITING and seen.address == "":
            last = seen
    value = last.value if last is not None else None
    return [entry for each in value for entry in _entry(each)] if isinstance(value, list) else []


def _entry(data: object) -> list[Awaited]:
    if not isinstance(data, list) or len(data) != 4:
        return []
    address, kind, text, due = data
    if not (isinstance(address, str) and isinstance(kind, str) and isinstance(text, str)):
        return []
    is_time = isinstance(due, int | float) and not isinstance(due, bool)
    return [Awaited(address, kind, text, float(due) if is_time else None)]
