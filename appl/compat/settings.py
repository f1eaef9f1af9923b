"""Settings in the layout of APPL 0.2, as its ``appl.yaml`` and ``appl.init`` have them.

Invariant: what has a meaning here gets it; what has none is told, and what APPL did not know either
is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from appl.errors import ConfigError, nearest

KEYS = ("settings", "servers", "default_servers", "prompts", "metadata")
_PAGE = "see docs/coming-from-appl.md"

_SETTINGS: dict[str, tuple[str, ...]] = {
    "logging": (
        "enable_stderr", "enable_file", "log_level", "max_length", "suffix_length", "format",
        "log_file", "display",
    ),
    "caching": (
        "enabled", "folder", "max_size", "time_to_live", "cleanup_interval",
        "allow_temp_greater_than_0",
    ),
    "tracing": (
        "enabled", "path_format", "patch_threading", "strict_match", "trace_to_resume",
        "display_trace_info",
    ),
    "concurrency": ("llm_max_workers", "thread_max_workers", "process_max_workers"),
    "messages": ("colors",),
    "misc": ("suppress_litellm_debug_info",),
}  # fmt: skip
_STREAMING = {"print": True, "live": True, "none": False}
"""What ``settings.logging.display.streaming_mode`` says, as the setting ``stream``."""

_MEANT = {"tracing.enabled": "trace", "concurrency.llm_max_workers": "concurrency"}
_DEFAULTS = ("default", "small", "large")
_OPTIONS = ("temperature", "top_p", "max_tokens", "stop", "seed")


def translated(values: Mapping[str, Any], origin: str) -> tuple[Mapping[str, Any], list[str]]:
    """*values* with APPL's keys in the layout of today, and what has no meaning any more."""
    if not any(key in values for key in KEYS):
        return values, []
    found = {key: value for key, value in values.items() if key not in KEYS}
    idle: list[str] = [key for key in ("prompts", "metadata") if values.get(key)]
    models: dict[str, Any] = {}
    idle += _settings(_table(values, "settings", origin), found, origin)
    idle += _servers(_table(values, "servers", origin), models, found, origin)
    _default_servers(_table(values, "default_servers", origin), models, found, origin)
    if models:
        found["models"] = {**models, **found.get("models", {})}
    told = f"{origin}: {', '.join(idle)}: no such setting here, {_PAGE}"
    return found, [told] if idle else []


def _table(values: Mapping[str, Any], key: str, origin: str) -> Mapping[str, Any]:
    table = values.get(key)
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise ConfigError(f"{origin}: {key} must hold names with values below, got {table!r:.80}")
    return table


def _check(given: Iterable[str], known: Iterable[str], where: str) -> None:
    known = list(known)
    for key in given:
        if key not in known:
            raise ConfigError(
                f"{where}: unknown key {key!r}{nearest(key, known)} (known: {', '.join(known)})"
            )


def _settings(settings: Mapping[str, Any], found: dict[str, Any], origin: str) -> Iterator[str]:
    _check(settings, _SETTINGS, f"{origin}: settings")
    for group in settings:
        table = _table(settings, group, f"{origin}: settings")
        _check(table, _SETTINGS[group], f"{origin}: settings.{group}")
        for key, value in table.items():
            if key == "display" and isinstance(value, Mapping):
                value = _shown(value, found, origin)
                if not value:
                    continue
            meant = _MEANT.get(f"{group}.{key}")
            if meant is None:
                yield f"settings.{group}.{key}"
            else:
                found.setdefault(meant, value)


def _shown(display: Mapping[str, Any], found: dict[str, Any], origin: str) -> Mapping[str, Any]:
    """What of *display* has no meaning here; how answers are shown while they are made has."""
    mode = display.get("streaming_mode")
    if mode is not None:
        if mode not in _STREAMING:
            raise ConfigError(
                f"{origin}: settings.logging.display.streaming_mode must be one of "
                f"{', '.join(_STREAMING)}, got {mode!r}{nearest(str(mode), _STREAMING)}"
            )
        found.setdefault("stream", _STREAMING[mode])
    return {key: value for key, value in display.items() if key != "streaming_mode"}


def _servers(
    servers: Mapping[str, Any], models: dict[str, Any], found: dict[str, Any], origin: str
) -> Iterator[str]:
    for name, server in servers.items():
        if name == "default" and isinstance(server, str):  # as it was before 0.2
            found.setdefault("model", server)
            continue
        table = _with_template(name, servers, origin)
        alias = {key: table[key] for key in ("model", *_OPTIONS) if table.get(key) is not None}
        models[name] = {"model": name, **alias}
        yield from (f"servers.{name}.{key}" for key in table if key not in (*alias, "template"))


def _with_template(name: str, servers: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The server *name* over those that it takes as its template."""
    table: dict[str, Any] = {}
    seen: list[str] = []
    at: Any = name
    while at is not None:
        if at in seen or at not in servers:
            raise ConfigError(
                f"{origin}: servers.{seen[-1]}: its template {at!r} "
                + ("leads back to it" if at in seen else f"is no server{nearest(at, servers)}")
            )
        seen.append(at)
        table = {**_table(servers, at, f"{origin}: servers"), **table}
        at = _table(servers, at, origin).get("template")
    return table


def _default_servers(
    defaults: Mapping[str, Any], models: dict[str, Any], found: dict[str, Any], origin: str
) -> None:
    _check(defaults, _DEFAULTS, f"{origin}: default_servers")
    for name, model in defaults.items():
        if model is None:
            continue
        if name == "default":
            found["model"] = model
        else:
            models[name] = model
