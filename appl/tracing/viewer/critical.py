"""The critical path: which calls the run's end waited for, and what lies between them.

Invariant: the steps are in the order of time and do not overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from appl.tracing.tooluse import ToolUse
from appl.tracing.trace import Call, Trace
from appl.tracing.viewer.rows import Rows

Step = Call | ToolUse


def critical(rows: Rows) -> dict[str, Any]:
    """The path: its ``duration`` and time by kind in microseconds, and its segments as kind, start,
    length and row."""
    segments: list[tuple[str, int, int, int]] = []
    for row, started, asked, ended in _path(rows):
        if segments and started > (last := segments[-1][1] + segments[-1][2]):
            segments.append(("program", last, started - last, row))
        segments.append(("queue", started, asked - started, row))
        segments.append(("answer", asked, ended - asked, row))
    kinds: dict[str, int] = {}
    for kind, _, took, _ in segments:
        kinds[kind] = kinds.get(kind, 0) + took
    return {"duration": sum(kinds.values()), "kinds": kinds, "segments": segments, "waits": []}


def _path(rows: Rows) -> list[tuple[int, int, int, int]]:
    """Row, start, dispatch and end of each call of the path, first one first."""
    ended = sorted(_ended(rows.trace), key=lambda step: step.ended or 0)
    path: list[tuple[int, int, int, int]] = []
    at = ended[-1] if ended else None
    while at is not None:
        started, end = at.started or 0, at.ended or 0
        path.append((rows.number[at.address], started, min(_asked(at), end), end))
        at = _before(at, ended, rows.trace)
    return path[::-1]


def _ended(trace: Trace) -> list[Step]:
    steps: list[Step] = [*trace.by_address.values(), *trace.tools.values()]
    return [each for each in steps if each.started is not None and each.ended is not None]


def _asked(step: Step) -> int:
    times = (each.at for each in step.attempts) if isinstance(step, Call) else ()
    return next((at for at in times if at is not None), step.started or 0)


def _before(step: Step, ended: list[Step], trace: Trace) -> Step | None:
    """What *step* waited for last before it could start: an answer in its prompt, or any end."""
    start = step.started or 0
    last = bisect_right(ended, start, key=lambda each: each.ended or 0)
    while last and (ended[last - 1].started or 0) >= start:
        last -= 1  # one that took no time at all
    found = [ended[last - 1]] if last else []
    for edge in step.edges if isinstance(step, Call) else ():
        made = trace.by_address.get(edge)
        if made is not None and made.ended is not None and (made.started or 0) < start:
            found.append(made)
    return max(found, key=lambda each: min(each.ended or 0, start), default=None)
