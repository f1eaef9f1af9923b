"""Recorded runs: the recorder, the replayer, and the trace as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.base.lazy_names import names_of

if TYPE_CHECKING:
    from appl.tracing.format.folders import home as home
    from appl.tracing.format.record import (
        profile_data as profile_data,
        profile_from as profile_from,
    )
    from appl.tracing.format.repair import salvage as salvage
    from appl.tracing.format.signing import Owner as Owner
    from appl.tracing.format.totals import Totals as Totals
    from appl.tracing.reading.runs import resolve as resolve
    from appl.tracing.reading.tooluse import ToolUse as ToolUse
    from appl.tracing.reading.trace import (
        Attempt as Attempt,
        Observation as Observation,
        RecordedCall as RecordedCall,
        Scope as Scope,
        Trace as Trace,
        records as records,
    )
    from appl.tracing.recording.appender import Appender as Appender
    from appl.tracing.recording.recorder import Recorder as Recorder, new_path as new_path
    from appl.tracing.recording.secret import Masker as Masker
    from appl.tracing.replaying.predictor import Predictor as Predictor
    from appl.tracing.replaying.replayer import Replayer as Replayer
    from appl.tracing.replaying.rerunner import Rerunner as Rerunner
    from appl.tracing.replaying.resumer import Resumer as Resumer
else:
    __getattr__ = names_of(
        __name__,
        {
            "format.folders": "home",
            "format.record": "profile_data profile_from",
            "format.signing": "Owner",
            "format.repair": "salvage",
            "format.totals": "Totals",
            "reading.runs": "resolve",
            "reading.tooluse": "ToolUse",
            "reading.trace": "Attempt Observation RecordedCall Scope Trace records",
            "recording.appender": "Appender",
            "recording.recorder": "Recorder new_path",
            "recording.secret": "Masker",
            "replaying.predictor": "Predictor",
            "replaying.replayer": "Replayer",
            "replaying.rerunner": "Rerunner",
            "replaying.resumer": "Resumer",
        },
    )
