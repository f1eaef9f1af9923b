"""A recorded run as the source of another: its trace, its settings, its names for models.

Invariant: keys, limits and budgets are always the present ones.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appl import config as settings
from appl.backend import Profile
from appl.config import Config
from appl.runtime.answers.models import Elsewhere, Find, Models
from appl.runtime.answers.recorded_models import models_from, seconds_in
from appl.session.isolation import RECORDED
from appl.session.late_backends import KIND, NO_ADDRESS, Names, recorded_meaning
from appl.session.ownership import require_own
from appl.tracing.format.record import profile_from

if TYPE_CHECKING:
    from appl.config import Alias
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
        name: _value(recorded[name]) for name in RECORDED if name not in fixed and name in recorded
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
            options = {str(key): _value(value) for key, value in model["options"].items()}
            prefer, within = str(model.get("prefer", "order")), seconds_in(model.get("within"))
            aliases[str(name)] = Alias(written, options, others, prefer, within)
    return aliases


def _written(model: object) -> str | None:
    """The recorded model as a setting would name it."""
    if not isinstance(model, Mapping) or not isinstance(model.get("options"), Mapping):
        return None
    parts = [part for part in (model.get("backend"), model.get("model")) if isinstance(part, str)]
    return "/".join(parts) or None


def _value(value: Any) -> Any:
    """A recorded *value* as it was, with tuples in place of lists."""
    if isinstance(value, Mapping):
        return {str(name): _value(item) for name, item in value.items()}
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
    values: dict[str, Any] = {name: _value(recorded.get(name)) for name, _ in kinds}
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
