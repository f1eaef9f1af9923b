"""The critical path as the viewer draws it: segments and waits by the numbers of rows.

Invariant: the path is the one that ``appl trace critical`` prints.
"""

from __future__ import annotations

from appl.tracing.explaining.critical import critical as of_steps, longest
from appl.tracing.explaining.steps import Steps
from appl.tracing.viewer.rows import Rows

_MOST = 20_000


def critical(steps: Steps, rows: Rows) -> dict[str, object]:
    """The path of *steps*, while *rows* may grow.

    It has ``duration`` and time by kind in microseconds; ``segments`` as kind, start, length and
    row (-1: none), of very many the longest; ``waits`` as the row that waited for another without
    its answer, that other, and the microseconds that asking for both at once would save.
    """
    path = of_steps(steps)
    number = rows.number
    return {
        "duration": path.duration,
        "kinds": path.kinds,
        "segments": [
            [segment.kind, segment.start, segment.took, number.get(segment.address, -1)]
            for segment in longest(path.segments, _MOST)
        ],
        "waits": [
            [number.get(wait.address, -1), number.get(wait.after, -1), saved]
            for wait in path.waits
            if (saved := path.duration - wait.predicted) > 0
        ],
    }
