"""Settings in the layout of APPL 0.2, as in its ``appl.yaml`` and ``appl.init``.

Invariant: a setting with a meaning here has its effect, one without is reported, and a key that
APPL did not know either is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from appl.config.places import place_of
from appl.errors import ConfigError, nearest
from appl.parts.compat.servers import full_name, read as servers_of

KEYS: tuple[str, ...] = ("settings", "servers", "default_servers", "prompts", "metadata")
MODEL = ("gpt-4o-mini", "APPL's default")
_PAGE = "see docs/coming-from-appl.md"

_SETTINGS = {
    "logging": "enable_stderr enable_file log_level max_length suffix_length format log_file "
    "display",
    "caching": "enabled folder max_size time_to_live cleanup_interval allow_temp_greater_than_0",
    "tracing": "enabled path_format patch_threading strict_match trace_to_resume "
    "display_trace_info",
    "concurrency": "llm_max_workers thread_max_workers process_max_workers",
    "messages": "colors",
    "misc": "suppress_litellm_debug_info",
    "model": "default small large",  # as it was before 0.2
}
_STREAMING = {"print": True, "live": True, "none": False}
"""The values of ``settings.logging.display.streaming_mode``, as the setting ``stream``."""

_DISPLAY = ("settings", "logging", "display", "streaming_mode")
_MEANT = {"tracing.enabled": "trace", "concurrency.llm_max_workers": "concurrency"}
_DEFAULTS = ("default", "small", "large")


def translated(values: Mapping[str, Any], origin: str) -> tuple[Mapping[str, object], list[str]]:
    """*values* with APPL's keys in the layout of today, and a note about those without effect."""
    if not any(key in values for key in KEYS):
        return values, []
    settings_translated = {key: value for key, value in values.items() if key not in KEYS}
    idle: list[str] = [key for key in ("prompts", "metadata") if values.get(key)]
    models: dict[str, object] = {}
    settings = _table(values, origin, "settings")
    idle += _settings(settings, settings_translated, origin)
    idle += _servers(_table(values, origin, "servers"), models, settings_translated, origin)
    _default_servers(settings, models, settings_translated, origin, "settings", "model")
    _default_servers(values, models, settings_translated, origin, "default_servers")
    if models:
        settings_translated["models"] = {**models, **settings_translated.get("models", {})}
    note = f"{origin}: {', '.join(idle)}: no such setting here, {_PAGE}"
    return settings_translated, [note] if idle else []


def _table(values: Mapping[str, object], origin: str, *path: str) -> Mapping[str, object]:
    """The table *values* has for the last key of *path*, the path of its keys."""
    table = values.get(path[-1])
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise ConfigError(
            f"{place_of(origin, *path)}: {'.'.join(path)} must hold names with values below, got "
            f"{table!r:.80}"
        )
    return table


def _check(keys: Iterable[str], valid_keys: Iterable[str], origin: str, *path: str) -> None:
    valid_keys = list(valid_keys)
    for key in keys:
        if key not in valid_keys:
            raise ConfigError(
                f"{place_of(origin, *path, key)}: {'.'.join(path)}: unknown key {key!r}"
                f"{nearest(key, valid_keys)} (known: {', '.join(valid_keys)})"
            )


def _settings(
    settings: Mapping[str, object], translation: dict[str, object], origin: str
) -> Iterator[str]:
    _check(settings, _SETTINGS, origin, "settings")
    for group in settings:
        table = _table(settings, origin, "settings", group)
        _check(table, _SETTINGS[group].split(), origin, "settings", group)
        for key, value in table.items():
            if key == "display" and isinstance(value, Mapping):
                value = _shown(value, translation, origin)
                if not value:
                    continue
            meant = _MEANT.get(f"{group}.{key}")
            if meant is not None:
                translation.setdefault(meant, value)
            elif group != "model":
                yield f"settings.{group}.{key}"


def _shown(
    display: Mapping[str, object], translation: dict[str, object], origin: str
) -> Mapping[str, object]:
    """The keys of *display* without effect here; its streaming mode becomes ``stream``."""
    mode = display.get("streaming_mode")
    if mode is not None:
        if mode not in _STREAMING:
            raise ConfigError(
                f"{place_of(origin, *_DISPLAY)}: {'.'.join(_DISPLAY)} must be one of "
                f"{', '.join(_STREAMING)}, got {mode!r}{nearest(str(mode), _STREAMING)}"
            )
        translation.setdefault("stream", _STREAMING[mode])
    return {key: value for key, value in display.items() if key != "streaming_mode"}


def _servers(
    servers: Mapping[str, Any], models: dict[str, object], translation: dict[str, Any], origin: str
) -> list[str]:
    if isinstance(servers.get("default"), str):  # as it was before 0.2
        translation.setdefault("model", full_name(servers["default"]))
        servers = {name: server for name, server in servers.items() if name != "default"}
    read = servers_of(servers, origin)
    models.update(read.models)
    for key, tables in (("backends", read.backends), ("prices", read.prices)):
        if tables:
            translation[key] = {**tables, **translation.get(key, {})}
    return read.idle


def _default_servers(
    around: Mapping[str, object],
    models: dict[str, object],
    translation: dict[str, object],
    origin: str,
    *path: str,
) -> None:
    table = _table(around, origin, *path)
    _check(table, _DEFAULTS, origin, *path)
    for name, model in table.items():
        if model is None:
            continue
        model = model if model in models or not isinstance(model, str) else full_name(model)
        if name == "default":
            translation["model"] = model
        else:
            models[name] = model
