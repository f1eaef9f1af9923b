"""Recorded runs: the recorder, the replayer, and the trace as values."""

from appl.tracing.format.folders import home
from appl.tracing.format.record import profile_data, profile_from
from appl.tracing.format.signing import Owner
from appl.tracing.format.store import salvage
from appl.tracing.format.totals import Totals
from appl.tracing.reading.runs import resolve
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import (
    Attempt,
    Observation,
    RecordedCall,
    Scope,
    Trace,
    records,
)
from appl.tracing.recording.appender import Appender
from appl.tracing.recording.recorder import Recorder, new_path
from appl.tracing.recording.secret import Masker
from appl.tracing.replaying.predictor import Predictor
from appl.tracing.replaying.replayer import Replayer
from appl.tracing.replaying.rerunner import Rerunner
from appl.tracing.replaying.resumer import Resumer

__all__ = [
    "Appender",
    "Attempt",
    "Masker",
    "Observation",
    "Owner",
    "Predictor",
    "RecordedCall",
    "Recorder",
    "Replayer",
    "Rerunner",
    "Resumer",
    "Scope",
    "ToolUse",
    "Totals",
    "Trace",
    "home",
    "new_path",
    "profile_data",
    "profile_from",
    "records",
    "resolve",
    "salvage",
]
