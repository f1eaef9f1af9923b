"""Runs of functions on data, which answer the next run of the same function and data.

Invariant: only own runs that have ended are read, and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from appl.cli.commands import Options
from appl.cli.display import Display
from appl.cli.overrides import new_trace
from appl.cli.terminal import to_stderr
from appl.config import load as load_config
from appl.errors import TraceError
from appl.session.entry import Entry
from appl.session.ownership import is_own
from appl.session.process import hosted, process_session
from appl.session.rerunning import rerun_session
from appl.session.session import RECORDED, Session, make_session, settled
from appl.tracing.format.keys import first_record
from appl.tracing.reading.runs import paths
from appl.tracing.reading.trace import Trace
from appl.tracing.replaying.ancestry import with_ancestors
from appl.tracing.replaying.rerunner import Rerunner

_R = TypeVar("_R")
_SAME = ("file", "function", "directory")


def earlier(entry: Entry, home: str | None) -> Rerunner | None:
    """Answers from the newest run in this folder of what *entry* begins with, if there is one."""
    wanted = entry.as_data()
    config = load_config({"home": home} if home else None)
    for path in reversed(paths(config.home)):
        if str(entry.function) not in path.stem:
            continue
        try:
            head = first_record(path)
            recorded = head.get("entry") if head is not None else None
            if not isinstance(recorded, Mapping):
                continue
            same = all(recorded.get(name) == wanted[name] for name in _SAME)
            then, now = recorded.get("argv"), wanted["argv"]
            if not same or list(then or ())[:1] != list(now or ())[:1]:  # type: ignore[call-overload]
                continue
            trace = Trace.open(path, home=config.home)
        except (TraceError, OSError):
            continue
        if trace.state != "running" and is_own(path):
            return Rerunner(with_ancestors(trace, config.home))
    return None


def performed(
    entry: Entry,
    rerunner: Rerunner | None,
    shower: Display,
    given: Options,
    overrides: Mapping[str, object],
    action: Callable[[Session], _R],
) -> tuple[_R, Session]:
    """The value of *action*, and the session in which it was made, with these settings."""
    changed = dict(overrides) | {
        name: getattr(given, name) for name in ("home", "privacy") if getattr(given, name)
    }
    if given.no_trace or given.trace_file:
        changed["trace"] = not given.no_trace
    path = new_trace(given)

    def opener() -> Session:
        if rerunner is None:
            config = load_config(changed)
            return make_session(
                config, entry=entry, instruments=[shower], path=path, say=shower.tell
            )
        return rerun_session(
            rerunner,
            changed,
            entry=entry,
            path=path,
            instruments=[shower],
            say=shower.tell,
            present=RECORDED,
        )

    with hosted(opener), shower, to_stderr(given.json):
        current = process_session()
        given.session, given.counts = current, shower.counts
        with settled(current.run.outside.world):
            found = action(current)
        current.close()
    return found, current
