"""The run that the same command would resume: the newest of its kind, if it was broken off.

Invariant: files are only read. A run that finished, still goes on, or belongs to another program is
left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from appl.errors import BudgetExceeded, ConfigError, TraceError
from appl.session.entry import Entry, changed_files
from appl.session.ownership import require_own
from appl.session.session import RECORDED
from appl.tracing.format.codec import plain
from appl.tracing.format.keys import first_record
from appl.tracing.reading.runs import finished, paths

if TYPE_CHECKING:
    from appl.config import Config
    from appl.session.session import Tell
    from appl.tracing.reading.trace import Trace

RUN = "run"
"""The kind of the observation that a run of its own began; its value is where its trace is."""
_COMPARED_SETTINGS = (*(name for name in RECORDED if name != "batch"), "seed")


def broken_off(entry: Entry, config: Config, say: Tell) -> Trace | None:
    """The newest run of the command *entry* if it crashed, was interrupted, or exceeded a budget.

    One that waits for something outside goes on although its program has changed: what it has asked
    is not asked twice. Otherwise ``None`` if the program changed, or a setting that affects
    requests, or if the run is not the user's own, about which *say* gets a line.
    """
    newest = _newest(entry, config)
    if newest is None:
        return None
    path, head = newest
    try:
        closed = finished(path)
        if closed is not None and closed.reason == "finished":
            return None
        waits = closed is not None and closed.reason == "waiting"
        changed = changed_files(head)
        if changed and not waits and not config.batch:
            return None
        from appl.tracing.reading.trace import Trace  # most runs have finished

        trace = Trace.open(path, home=config.home)
    except (TraceError, OSError):
        return None
    if changed and not waits:
        if _has_batches(trace):
            advice = f"`appl trace resume {path.stem} --edited` goes on with them"
            say(
                "appl: the program was changed, so this run begins anew; batches of "
                f"{path.stem} are still away, and paid: {advice}"
            )
        return None
    return trace if _goes_on(trace) and _is_own(path, say) else None


def _is_own(path: Path, say: Tell) -> bool:
    try:
        require_own(path, False, f"`appl trace resume {path.stem} --trust` goes on with it")
    except (TraceError, ConfigError) as error:
        say(f"appl: this run begins anew: {error}")
        return False
    return True


def _newest(entry: Entry, config: Config) -> tuple[Path, Mapping[str, object]] | None:
    word = re.sub(r"[^A-Za-z0-9_]+", "_", entry.program).strip("_")[:40] or "run"
    for path in reversed(paths(config.home)):
        if path.stem.partition("-")[2].rpartition("-")[0] != word:
            continue
        head = _head(path)
        if head is not None and head.get("entry") == entry.as_data():
            recorded = head.get("settings")
            is_same = isinstance(recorded, Mapping) and all(
                recorded.get(name) == plain(getattr(config, name)) for name in _COMPARED_SETTINGS
            )
            return (path, head) if is_same else None
    return None


def _head(path: Path) -> Mapping[str, object] | None:
    try:
        return first_record(path)
    except (TraceError, OSError):
        return None


def _has_batches(trace: Trace) -> bool:
    """True if the provider still has answers to calls of *trace*."""
    return any(batch.is_away for batch in trace.batches.values())


def _goes_on(trace: Trace) -> bool:
    if trace.state == "finished" and trace.reason == "waiting":
        return True
    if trace.state != "running" and _has_batches(trace):  # which are paid
        return True
    answered = any(call.outcome == "answered" for call in trace.calls)
    # A run of its own inside may have answers in its own trace.
    if trace.state == "running" or not (answered or any(o.kind == RUN for o in trace.observations)):
        return False
    if trace.state == "crashed" or trace.reason in ("interrupted", "cancelled"):
        return True
    return trace.reason == "failed" and isinstance(trace.error, BudgetExceeded)
