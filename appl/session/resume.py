"""Runs that go on at the end of the same trace, with the recorded settings.

Invariant: the trace is locked from the beginning, and nothing is asked that it answers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from appl import config as settings
from appl.config import Alias, Config
from appl.errors import ProgramChanged, TraceLocked
from appl.runtime.event import Instrument
from appl.runtime.run import Run
from appl.runtime.world import World
from appl.session.blocks import block
from appl.session.entry import Entry, changed_files, script
from appl.session.late_backends import names_in
from appl.session.naming import locate
from appl.session.ownership import recording_owner, require_own
from appl.session.session import Session, Tell, make_session, shown, tell
from appl.tracing import Trace
from appl.tracing.explaining.tally import Tally
from appl.tracing.recording.appender import Appender
from appl.tracing.replaying.resumer import Resumer

RECORDED = ("model", "backend", "temperature", "max_tokens")
"""Settings that affect requests: the first run's values hold unless new ones are given."""


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
    **overrides: Any,
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


@contextlib.contextmanager
def settled(world: World) -> Iterator[None]:
    """Raise the divergence of *world*, even if the program swallowed it or failed of it."""
    try:
        yield
    except Exception:
        if (difference := world.difference()) is not None:
            raise difference from None
        raise
    if (difference := world.difference()) is not None:
        raise difference


def opened(
    trace: Trace | str | os.PathLike[str], overrides: Mapping[str, Any], trust: bool
) -> Trace:
    """*trace* itself, or the one at that path, opened with the key in the home folder.

    Raises ``UntrustedTrace``.
    """
    path = trace.path if isinstance(trace, Trace) else Path(trace)
    require_own(path, trust, "write trust=True")
    if isinstance(trace, Trace):
        return trace
    return Trace.open(trace, home=settings.load(overrides).home)


def resume_session(
    resumer: Resumer,
    overrides: Mapping[str, Any] | None = None,
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
    config = replace(recorded_config(trace, overrides), trace=True)

    def recorder(session: Session) -> Appender:
        return Appender(
            resumer,
            durability=cast(Any, config.durability),
            on_error=cast(Any, config.on_trace_error),
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


def recorded_config(trace: Trace, overrides: Mapping[str, Any] | None = None) -> Config:
    """The present settings, with the recorded values of those that affect requests.

    *overrides* win over both. Keys, limits and budgets are the present ones. A run that continues a
    private one is private too.
    """
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    config, head = settings.load(given), trace.header
    table = head.get("settings")
    recorded = table if isinstance(table, Mapping) else {}
    kept: dict[str, Any] = {
        name: recorded[name] for name in RECORDED if name not in given and name in recorded
    }
    if "model" in given and "backend" not in given:
        kept.pop("backend", None)
    elif "model" not in given and (understood := _understood(head, config)) is not None:
        kept["model"] = understood
    if "seed" not in given and isinstance(head.get("seed"), int):
        kept["seed"] = head["seed"]
    if trace.private and "privacy" not in given and config.privacy == "full":
        kept["privacy"] = "redacted"
    models = {**config.models, **_aliases(head.get("models"))}
    return replace(config, **kept, models=config.models if "models" in given else models)


def _understood(head: Mapping[str, Any], config: Config) -> str | None:
    """The full name of a default model of a known provider, whose key may be missing now."""
    table = head.get("settings")
    settings = table if isinstance(table, Mapping) else {}
    name = settings.get("model")
    if not isinstance(name, str) or settings.get("backend") is not None:
        return None
    location = locate(name, config)
    bare = location is not None and location.provider is not None and name not in config.models
    return f"{head.get('backend')}/{head.get('model')}" if bare else None


def _aliases(data: object) -> dict[str, Alias]:
    """The recorded names for models."""
    if not isinstance(data, Mapping):
        return {}
    found: dict[str, Alias] = {}
    for name, model in data.items():
        written = _written(model)
        if name and written:
            others = tuple(filter(None, map(_written, model.get("others") or ())))
            options = {str(key): _value(value) for key, value in model["options"].items()}
            found[str(name)] = Alias(written, options, others, str(model.get("prefer", "order")))
    return found


def _written(model: object) -> str | None:
    """The recorded model as a setting would name it."""
    if not isinstance(model, Mapping) or not isinstance(model.get("options"), Mapping):
        return None
    parts = [part for part in (model.get("backend"), model.get("model")) if isinstance(part, str)]
    return "/".join(parts) or None


def _value(value: object) -> Any:
    return tuple(value) if isinstance(value, list) else value
