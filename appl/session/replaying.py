"""Runs that a recorded run answers.

Invariant: nothing is recorded, no backend is made, and a difference raises.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appl import config as settings
from appl.backend import Profile
from appl.config import Config
from appl.runtime.answers.models import Elsewhere, Find, Models
from appl.runtime.answers.recorded_models import models_from
from appl.runtime.event import Instrument
from appl.runtime.isolated import RECORD
from appl.runtime.run import Run
from appl.runtime.scheduling.policy import Policy
from appl.session.backend_setup import Choice
from appl.session.entry import script
from appl.session.late_backends import KIND, NO_ADDRESS, Names, recorded_meaning
from appl.session.ownership import require_own
from appl.session.session import Session, block, settled
from appl.tracing.format.record import profile_from
from appl.tracing.reading.trace import Trace
from appl.tracing.replaying.replayer import Replayer

if TYPE_CHECKING:
    from appl.tracing.replaying.fuzzer import Fuzzer


def replay_run(
    replayer: Replayer | Fuzzer,
    *,
    instruments: Iterable[Instrument] = (),
    policy: Policy | None = None,
) -> Run:
    """A run that *replayer* answers, with the recorded settings."""
    head, backend = replayer.trace.header, replayer.backend
    table = head.get("settings")
    recorded = table if isinstance(table, Mapping) else {}
    kinds = (("top_p", int | float), ("stop", tuple), ("backend_options", dict))
    values: dict[str, Any] = {name: plain_value(recorded.get(name)) for name, _ in kinds}
    defaults = {name: values[name] for name, kind in kinds if isinstance(values[name], kind)}
    run = Run(
        backend,
        instruments=instruments,
        world=replayer,
        model=recorded_text(head.get("model")),
        models=models_in(replayer.trace, backend.profile),
        seed=_number(head.get("seed")),
        temperature=_recorded(head, "temperature"),
        max_tokens=_recorded(head, "max_tokens"),
        sampling=Config(**defaults).sampling,
        policy=policy,
    )
    run.answered_by, run.nests = RECORD, nests(head)
    path = replayer.trace.path
    run.trace_path = lambda: path
    return run


def replay_session(
    replayer: Replayer | Fuzzer,
    *,
    instruments: Iterable[Instrument] = (),
    policy: Policy | None = None,
) -> Session:
    """The session of such a run; nothing is recorded."""
    run = replay_run(replayer, instruments=instruments, policy=policy)
    services, name = run.services, str(replayer.trace.header.get("backend", ""))
    choice = Choice(name, services.model, True)
    return Session(Config(), choice, script("api"), services.seed or 0, run, services.backend)


@block
def replayed(
    trace: Trace | str | os.PathLike[str], *, instruments: Iterable[Instrument] = ()
) -> Iterator[tuple[Run, Replayer]]:
    """A block that *trace* answers; at its end, a difference raises.

    Also usable with ``async with``.
    """
    if not isinstance(trace, Trace):
        trace = Trace.open(trace, home=lambda: settings.load().home)
    replayer = Replayer(trace)
    with checked(replayer):
        yield replay_run(replayer, instruments=instruments), replayer


@contextlib.contextmanager
def checked(replayer: Replayer) -> Iterator[None]:
    """Raise the divergence of *replayer*, even if the program swallowed it or failed of it."""
    with settled(replayer):
        yield
    replayer.finish()


def _recorded(head: Mapping[str, object], key: str) -> Any:
    table = head.get("settings")
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if isinstance(value, int | float) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def opened(
    trace: Trace | str | os.PathLike[str], overrides: Mapping[str, object], trust: bool
) -> Trace:
    """*trace* itself, or the one at that path, opened with the key in the home folder.

    Raises ``UntrustedTrace``.
    """
    path = trace.path if isinstance(trace, Trace) else Path(trace)
    require_own(path, trust, "write trust=True")
    if isinstance(trace, Trace):
        return trace
    return Trace.open(trace, home=settings.load(overrides).home)


def plain_value(value: Any) -> Any:
    """A recorded *value* as it was, with tuples in place of lists."""
    if isinstance(value, Mapping):
        return {str(name): plain_value(item) for name, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def nests(head: Mapping[str, object]) -> bool:
    """True if runs inside of the run with this header are scopes of it.

    Those of a plain script are not: its run begins with its first call, whatever else it opens.
    """
    entry = head.get("entry")
    return not (isinstance(entry, Mapping) and entry.get("kind") == "script")


def models_in(trace: Trace, profile: Profile, find: Find | None = None) -> Models | None:
    """The names for models as *trace* recorded them; *find* may know more."""
    head, names = trace.header, names_in(trace)
    backend = recorded_text(head.get("backend")) or ""
    places = head.get("places")
    others: dict[str, Profile | Exception] = {}
    if isinstance(places, Mapping):
        others = {str(name): profile_from(data) for name, data in places.items()}
    return models_from(
        head.get("models"),
        profile,
        backend,
        others,
        find=find or (lambda name, has_key: names.meanings.get(name)),
        reserved=names.backends,
    )


def recorded_text(value: object) -> str | None:
    """*value* if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def names_in(trace: Trace) -> Names:
    """The names of the run of *trace*: one that goes on calls its models as it did before."""
    names = trace.header.get("backends")
    meanings: dict[str, Elsewhere] = {}
    for observation in trace.observations:
        if observation.kind.startswith(KIND) and observation.address == NO_ADDRESS:
            place = recorded_meaning(observation.value)
            if place is not None:
                meanings[observation.kind.removeprefix(KIND)] = place
    return Names(frozenset(map(str, names)) if isinstance(names, list) else frozenset(), meanings)
