"""Spans of a recorded run, sent to a collector when the run ends, where the settings say so.

Invariant: what a collector does or does not do never fails a run, and holds its end up for a few
seconds at most.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from appl.tracing import Trace
from appl.tracing.exporting import otlp
from appl.tracing.exporting.spans import spans_of

_TIMEOUT_S, _TRIES = 3.0, 2
_LARGEST = 32 << 20


def send_spans(path: Path, url: str, say: Callable[[str], None]) -> None:
    """Send the spans of the trace at *path*, without texts; what goes wrong is said."""
    try:
        if path.stat().st_size > _LARGEST:
            command = f"appl trace export {path.stem} --otel {url}"
            say(f"appl: the trace is large; `{command}` sends its spans")
            return
        otlp.send(spans_of(Trace.open(path)), url, timeout_s=_TIMEOUT_S, tries=_TRIES)
    except Exception as error:  # whatever it is, the run itself has gone well
        say(f"appl: no spans were sent: {error}")
