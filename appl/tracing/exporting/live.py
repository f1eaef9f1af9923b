"""Spans of a run that is still going on, as its calls end.

Invariant: each span is given once, when nothing can be added to it: calls and tools when they have
ended, functions and the run itself when the run is over. The run is not disturbed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

from appl.tracing.exporting.spans import Spans, spans_of
from appl.tracing.reading.following import Following

_PAUSE_S = 0.5
_SHARE = 5
"""The rest between reads, as a multiple of the time of one, so that it takes little of a core."""


def follow(
    path: Path, *, content: bool = False, inference: bool = False, pause_s: float = _PAUSE_S
) -> Iterator[Spans]:
    """Yields newly completed spans of the trace at *path* until its run is over.

    *content* and *inference* are as for ``spans_of``. Raises ``TraceError``.
    """
    sent: set[bytes] = set()
    with contextlib.closing(Following(path)) as following:
        while True:
            began = time.monotonic()
            touched = following.poll()
            over = following.trace.state != "running" and not following.behind
            if touched or over:
                every = spans_of(following.trace, content=content, inference=inference)
                ready = [s for s in every.spans if s.whole and s.identity not in sent]
                sent.update(span.identity for span in ready)
                if ready:
                    yield dataclasses.replace(every, spans=ready)
            if over:
                return
            time.sleep(max(pause_s, _SHARE * (time.monotonic() - began)))
