"""Runs that go on at the end of the same trace, with the recorded settings.

Invariant: the trace is locked from the beginning, and nothing is asked that it answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from appl.errors import ProgramChanged, TraceLocked
from appl.session.blocks import block, settled
from appl.session.entry import Entry, changed_files, script
from appl.session.ownership import is_foreign, recording_owner
from appl.session.recorded_run import names_in, nests, opened
from appl.session.recorded_settings import recorded_config
from appl.session.session import Session, Tell, make_session, shown, tell
from appl.tracing.recording.appender import Appender
from appl.tracing.replaying.resumer import Resumer
from appl.tracing.replaying.tally import Tally

if TYPE_CHECKING:
    from appl.runtime.event import Instrument
    from appl.runtime.run import Run
    from appl.tracing.reading.trace import Trace


@block
def resumed(
    trace: Trace | str | os.PathLike[str],
    *,
    edited: bool = False,
    rerun: Iterable[str] = (),
    assume: Mapping[str, str] | None = None,
    trust: bool = False,
    instruments: Iterable[Instrument] = (),
    say: Tell = tell,
    **overrides: object,
) -> Iterator[tuple[Run, Session]]:
    """A block that resumes the run of *trace*: recorded answers are not asked for again.

    Use ``with appl.session.resumed(path) as session:``, in a coroutine ``async with``. New calls
    are added to the same file. *overrides* are settings; other settings that affect requests stay
    as recorded. *edited* accepts a changed program. *rerun* lists addresses of tool calls in doubt
    that may run again, *assume* gives results for such calls. *trust* allows a run that is not the
    user's own. ``session.tally`` counts the calls that are live and those that are not.
    Raises ``ProgramChanged``, ``DivergenceError``, ``InDoubtEffect``, ``TraceLocked``,
    ``UntrustedTrace``.
    """
    resumer = Resumer(opened(trace, overrides, trust), edited=edited, rerun=rerun, assume=assume)
    session = resume_session(resumer, overrides, instruments=instruments, say=say)
    with settled(resumer):
        try:
            yield session.run, session
        finally:
            session.close()


def resume_session(
    resumer: Resumer,
    overrides: Mapping[str, object] | None = None,
    *,
    entry: Entry | None = None,
    instruments: Iterable[Instrument] = (),
    say: Tell = tell,
) -> Session:
    """A session that *resumer* answers first, and that adds to its trace; not entered.

    Raises ``TraceLocked`` if that run still goes on, ``ProgramChanged`` if its files changed and
    that was not accepted.
    """
    trace = resumer.trace
    if trace.state == "running":
        raise TraceLocked(
            f"{trace.path.name} is still being written: its run goes on, in another process; "
            "wait for its end, or stop it"
        )
    check_unchanged(trace, resumer.edited)
    resumer.is_foreign = is_foreign(trace)
    config = replace(recorded_config(trace, overrides), trace=True)
    if any(batch.is_away for batch in trace.batches.values()):
        config = replace(config, batch=config.batch or True)

    def recorder(session: Session) -> Appender:
        return Appender(
            resumer,
            durability=config.durability,
            on_error=config.on_trace_error,
            notify=say,
            redact=session.redact,
            home=config.home,
            owner=recording_owner(),
        )

    tally = Tally()
    session = make_session(
        config,
        entry=entry or script("api"),
        instruments=[*instruments, tally],
        say=say,
        world=resumer,
        recorder=recorder,
        names=names_in(trace),
    )
    session.tally, session.hints = tally, False
    session.run.nests = nests(trace.header)
    if session.gathering is not None:
        session.gathering.go_on(trace, resumer.rerun, resumer.assume)
    assert session.recording is not None
    session.recording.gate()
    return session


def check_unchanged(trace: Trace, edited: bool) -> None:
    """Raise ``ProgramChanged`` if files of the program changed, unless *edited* allows it."""
    changed = [] if edited else changed_files(trace.header)
    if changed:
        names = ", ".join(shown(Path(name)) for name in changed)
        raise ProgramChanged(
            f"changed since {trace.path.stem} was recorded: {names}\n  to go on with the changed "
            "program all the same, add --edited (in a program: edited=True); what it asks "
            "differently is asked again\n  to keep this run as it is and pay only for what differs:"
            f" appl trace rerun {trace.path.stem}"
        )
