"""The settings of a run that goes on with a recorded one.

Invariant: keys, limits and budgets are always the present ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from appl import config as settings
from appl.config import Alias, Config
from appl.runtime.answers.recorded_models import seconds_in
from appl.session.isolation import RECORDED
from appl.session.recorded_run import plain_value
from appl.tracing.reading.trace import Trace


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
