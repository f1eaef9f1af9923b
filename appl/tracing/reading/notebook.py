"""The display of a recorded run in a notebook: its state, and a line for each call.

Invariant: the text of a model is shortened and escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.prompt.notebook import Bundle, table

if TYPE_CHECKING:
    from appl.tracing.reading.trace import RecordedCall, Trace

_MOST = 200
_WIDTH = 120


def bundle(trace: Trace) -> Bundle:
    """*trace* as a table; of a long one, the first calls."""
    rows = [_row(call) for call in trace.calls[:_MOST]]
    more = len(trace.calls) - len(rows)
    program = trace.header.get("program") or "run"
    title = f"{program}: {trace.state}, {len(trace.calls)} calls, {trace.seconds():.1f} s"
    lines = [title, *("  ".join(row) for row in rows)]
    if more:
        rows.append((f"and {more} more", "", ""))
        lines.append(f"and {more} more")
    return table((title, "seconds", "answer"), rows, "\n".join(lines))


def _row(call: RecordedCall) -> tuple[str, str, str]:
    seconds = ""
    if call.started is not None and call.ended is not None:
        seconds = f"{(call.ended - call.started) / 1e6:.2f}"
    if call.response is not None:
        said = " ".join(call.response.text.split())
    else:
        said = f"{type(call.error).__name__}: {call.error}" if call.error else "no answer"
    return call.address, seconds, said if len(said) <= _WIDTH else said[: _WIDTH - 1] + "…"
