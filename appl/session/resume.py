"""Runs that go on at the end of the same trace, with the recorded settings.

Invariant: the trace is locked from the beginning, and nothing is asked that it answers.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appl import config as settings
from appl.config import Config
from appl.errors import ProgramChanged, TraceLocked
from appl.runtime.answers.recorded_models import seconds_in
from appl.session.entry import Entry, changed_files, script
from appl.session.ownership import is_foreign, recording_owner
from appl.session.replaying import names_in, nests, opened, plain_value
from appl.session.session import RECORDED, Session, Tell, block, make_session, settled, shown, tell
from appl.tracing.reading.trace import Trace
from appl.tracing.recording.appender import Appender
from appl.tracing.replaying.resumer import Resumer
from appl.tracing.replaying.tally import Tally

if TYPE_CHECKING:
    from appl.config import Alias
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


def recorded_config(
    trace: Trace, overrides: Mapping[str, object] | None = None, present: Collection[str] = ()
) -> Config:
    """The present settings, with the recorded values of those that affect requests.

    *overrides* win over both; the settings in *present* are not those that were recorded. Keys,
    limits and budgets are the present ones. A run that continues a private one is private too.
    """
    chosen = {name: value for name, value in (overrides or {}).items() if value is not None}
    config, head, fixed = settings.load(chosen), trace.header, {*chosen, *present}
    table = head.get("settings")
    recorded = table if isinstance(table, Mapping) else {}
    settings_then: dict[str, Any] = {
        name: plain_value(recorded[name])
        for name in RECORDED
        if name not in fixed and name in recorded
    }
    if "model" in fixed and "backend" not in fixed:
        settings_then.pop("backend", None)
    elif "model" not in fixed and (understood := _understood(head, config)) is not None:
        settings_then["model"] = understood
    if "seed" not in fixed and isinstance(head.get("seed"), int):
        settings_then["seed"] = head["seed"]
    if trace.private and "privacy" not in chosen and config.privacy == "full":
        settings_then["privacy"] = "redacted"
    models = {**config.models, **_aliases(head.get("models"))}
    return replace(config, **settings_then, models=config.models if "models" in chosen else models)


def _understood(head: Mapping[str, object], config: Config) -> str | None:
    """The full name of a default model of a known provider, whose key may be missing now."""
    table = head.get("settings")
    settings = table if isinstance(table, Mapping) else {}
    name = settings.get("model")
    if not isinstance(name, str) or settings.get("backend") is not None:
        return None
    from appl.session.naming import locate  # few programs name a model of a known provider

    location = locate(name, config)
    bare = location is not None and location.provider is not None and name not in config.models
    return f"{head.get('backend')}/{head.get('model')}" if bare else None


def _aliases(data: object) -> dict[str, Alias]:
    """The recorded names for models."""
    if not isinstance(data, Mapping):
        return {}
    aliases: dict[str, Alias] = {}
    for name, model in data.items():
        written = _written(model)
        if name and written:
            from appl.config import Alias  # few runs have names for models

            others = tuple(filter(None, map(_written, model.get("others") or ())))
            options = {str(key): plain_value(value) for key, value in model["options"].items()}
            prefer, within = str(model.get("prefer", "order")), seconds_in(model.get("within"))
            aliases[str(name)] = Alias(written, options, others, prefer, within)
    return aliases


def _written(model: object) -> str | None:
    """The recorded model as a setting would name it."""
    if not isinstance(model, Mapping) or not isinstance(model.get("options"), Mapping):
        return None
    parts = [part for part in (model.get("backend"), model.get("model")) if isinstance(part, str)]
    return "/".join(parts) or None
