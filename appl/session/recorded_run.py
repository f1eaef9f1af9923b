"""A recorded run as the source of another: its trace, its settings, its names for models.

Invariant: keys, limits and budgets are always the present ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appl import config as settings
from appl.backend import Profile
from appl.config import Config
from appl.runtime.answers.models import Elsewhere, Find, Models
from appl.runtime.answers.recorded_models import models_from
from appl.session.late_backends import KIND, NO_ADDRESS, Names, recorded_meaning
from appl.session.ownership import require_own
from appl.tracing.format.record import profile_from

if TYPE_CHECKING:
    from appl.tracing.reading.trace import Trace


def opened(
    trace: Trace | str | os.PathLike[str], overrides: Mapping[str, object], trust: bool
) -> Trace:
    """*trace* itself, or the one at that path, opened with the key in the home folder.

    Raises ``UntrustedTrace``.
    """
    from appl.tracing.reading.trace import Trace  # a run that only records reads no trace

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


def sampling_in(head: Mapping[str, object]) -> dict[str, object]:
    """The recorded defaults of options besides ``temperature`` and ``max_tokens``."""
    table = head.get("settings")
    recorded = table if isinstance(table, Mapping) else {}
    kinds = (("top_p", int | float), ("stop", tuple), ("backend_options", dict))
    values: dict[str, Any] = {name: plain_value(recorded.get(name)) for name, _ in kinds}
    defaults = {name: values[name] for name, kind in kinds if isinstance(values[name], kind)}
    return Config(**defaults).sampling


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
