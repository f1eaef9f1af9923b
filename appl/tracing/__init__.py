"""Recorded runs: the recorder, the replayer, and the trace as values."""

from appl.tracing.recorder import Recorder, home, new_path
from appl.tracing.replayer import Replayer, profile_data, profile_from
from appl.tracing.runs import RunSummary, list_runs, resolve, summary
from appl.tracing.store import salvage
from appl.tracing.tooluse import ToolUse
from appl.tracing.trace import Attempt, Call, Observation, Scope, Totals, Trace

__all__ = [
    "Attempt",
    "Call",
    "Observation",
    "Recorder",
    "Replayer",
    "RunSummary",
    "Scope",
    "ToolUse",
    "Totals",
    "Trace",
    "home",
    "list_runs",
    "new_path",
    "profile_data",
    "profile_from",
    "resolve",
    "salvage",
    "summary",
]
