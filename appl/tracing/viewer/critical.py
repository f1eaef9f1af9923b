"""The critical path as the viewer draws it: segments and waits by the numbers of rows.

Invariant: the path is the one that ``appl trace critical`` tells.
"""

from __future__ import annotations

from typing import Any

from appl.tracing.explaining.critical import critical as of_trace
from appl.tracing.explaining.critical import longest
from appl.tracing.viewer.rows import Rows

_MOST = 20_000


def critical(rows: Rows) -> dict[str, Any]:
    """The path: ``duration`` and time by kind in microseconds; ``segments`` as kind, start, length
    and row (-1: none), of very many the longest; ``waits`` as the row that waited for another
    without its answer, that other, and the microseconds that asking for both at once would save."""
    found = of_trace(rows.trace)
    number = rows.number
    return {
        "duration": found.duration,
        "kinds": found.kinds,
        "segments": [
            [each.kind, each.start, each.took, number.get(each.address, -1)]
            for each in longest(found.segments, _MOST)
        ],
        "waits": [
            [
                number.get(wait.address, -1),
                number.get(wait.after, -1),
                found.duration - wait.predicted,
            ]
            for wait in found.waits
            if wait.predicted < found.duration
        ],
    }
