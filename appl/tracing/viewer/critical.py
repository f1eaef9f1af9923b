"""The critical path: which calls the run's end waited for, and what lies between them.

Invariant: the steps are in the order of time and do not overlap.
"""

from __future__ import annotations

from typing import Any

from appl.tracing.tooluse import ToolUse
from appl.tracing.trace import Call, Trace
from appl.tracing.viewer.rows import Rows

Step = Call | ToolUse


def critical(rows: Rows) -> list[dict[str, Any]]:
    """The steps of the path, first one first: each has its row, times in microseconds since the
    run began, and ``by``: ``data`` when the next step's prompt holds its answer, else ``order``."""
    ended = sorted(
        (
            each
            for each in _steps(rows.trace)
            if each.ended is not None and each.started is not None
        ),
        key=lambda each: each.ended or 0,
    )
    path: list[dict[str, Any]] = []
    at, by = (ended[-1] if ended else None), "end"
    while at is not None:
        path.append({
            "row": rows.number[at.address], "started": at.started, "ended": at.ended, "by": by,
            "asked": _asked(at),
        })  # fmt: skip
        at, by = _before(at, ended, rows.trace)
    return path[::-1]


def _steps(trace: Trace) -> list[Step]:
    return [*trace.by_address.values(), *trace.tools.values()]


def _asked(step: Step) -> int | None:
    if isinstance(step, ToolUse):
        return step.started
    return next((each.at for each in step.attempts if each.at is not None), step.started)


def _before(step: Step, ended: list[Step], trace: Trace) -> tuple[Step | None, str]:
    """What *step* waited for last before it could start."""
    used = [trace.by_address.get(edge) for edge in step.edges] if isinstance(step, Call) else []
    made = [
        each for each in used
        if each is not None and each.ended is not None and each.ended <= (step.ended or 0)
        and each.started is not None and each.started < (step.started or 0)
    ]  # fmt: skip
    start = step.started or 0
    low, high = 0, len(ended)
    while low < high:
        middle = (low + high) // 2
        if (ended[middle].ended or 0) <= start:
            low = middle + 1
        else:
            high = middle
    last = ended[low - 1] if low else None
    best = max(made, key=lambda each: each.ended or 0, default=None)
    if best is not None and (last is None or (best.ended or 0) >= (last.ended or 0)):
        return best, "data"
    return last, "order"
