"""The export of a run's spans to a collector, when the run ends and the settings ask for it.

Invariant: a collector never fails a run, and delays its end by a few seconds at most.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from appl.tracing.exporting.checkpoint import Checkpoint
from appl.tracing.exporting.collector import Collector
from appl.tracing.exporting.delivery import Courier, Patience
from appl.tracing.exporting.spans import spans_of
from appl.tracing.reading.trace import Trace

_PATIENCE = Patience(answer_s=3.0, total_s=6.0, tries=2)
_LARGEST = 32 << 20


def send_spans(path: Path, url: str, home: Path, say: Callable[[str], None]) -> None:
    """Send the spans of the trace at *path*, without texts; *say* gets a line about any problem.

    The spans that arrived are noted below *home*, so that the command in the line sends the others.
    """
    command = f"`appl trace export {path.stem} --otel {url}`"
    try:
        if path.stat().st_size > _LARGEST:
            say(f"appl: the trace is large; {command} sends its spans")
            return
        collector, spans = Collector(url), spans_of(Trace.open(path))
        checkpoint = Checkpoint(home, spans.trace_id, collector.url)
        sent = Courier(collector, checkpoint=checkpoint, patience=_PATIENCE).deliver(spans)
        if sent.stopped is None:
            checkpoint.clear()
        if not sent.complete:
            goes_on = "" if sent.stopped is None else f"; {command} goes on"
            say(f"appl: {sent.line()}{goes_on}")
    except Exception as error:  # whatever it is, the run itself has gone well
        say(f"appl: no spans were sent: {error}")
