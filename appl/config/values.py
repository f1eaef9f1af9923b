"""The settings as one frozen value, what each means, and how its value is read.

Invariant: a value that was read is one that the runtime can use; a secret is never part of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from appl.config.aliases import USUAL, Alias
from appl.errors import ConfigError, nearest

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is read from the environment when a backend is made, and never shown."""

    env: str

    def reveal(self, environ: Mapping[str, str] | None = None) -> str:
        """The value itself; ``ConfigError`` when the variable is not set."""
        value = (os.environ if environ is None else environ).get(self.env)
        if not value:
            raise ConfigError(f"the environment variable {self.env} is not set")
        return value

    def __str__(self) -> str:
        return f"${self.env}"


def _text(raw: object) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("a text that is not empty")
    return raw


def _number(raw: object) -> float:
    try:
        value = float(raw) if isinstance(raw, int | float | str) else -1.0
    except ValueError:
        value = -1.0
    if isinstance(raw, bool) or not 0 <= value < float("inf"):
        raise ValueError("a number of at least 0")
    return value


def _whole(raw: object) -> int:
    shown = raw.strip() if isinstance(raw, str) else str(raw)
    if isinstance(raw, bool | float) or not re.fullmatch(r"[0-9]{1,18}", shown):
        raise ValueError("a whole number of at least 0")
    return int(shown)


def _count(raw: object) -> int:
    try:
        value = _whole(raw)
    except ValueError:
        value = 0
    if not value:
        raise ValueError("a whole number of at least 1")
    return value


def switch(raw: object) -> bool:
    """Whether *raw* says on or off; `ValueError` when it says neither."""
    word = str(raw).strip().lower()
    if word in _ON or word in _OFF:
        return word in _ON
    raise ValueError("on or off")


def _path(raw: object) -> Path:
    return Path(_text(str(raw) if isinstance(raw, Path) else raw)).expanduser()


def _one_of(*words: str) -> Callable[[object], str]:
    def chosen(raw: object) -> str:
        if raw not in words:
            raise ValueError(" or ".join(repr(word) for word in words) + nearest(str(raw), words))
        return str(raw)

    return chosen


@dataclass(frozen=True, slots=True)
class Key:
    """A setting's name, how its value is read, what it is without one, and what it means."""

    name: str
    read: Callable[[object], object]
    default: object
    help: str


KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("model", _text, None, "the model within the backend, or 'backend/model'"),
        Key("backend", _text, None, "who answers: an installed backend, or 'module:attribute'"),
        Key("temperature", _number, None, "sampling temperature where gen() gives none"),
        Key("max_tokens", _count, None, "longest answer where gen() gives none"),
        Key("seed", _whole, None, "seed of the run; without one it is drawn and recorded"),
        Key("concurrency", _count, None, "most calls at once; without one the backend says"),
        Key("trace", switch, True, "whether runs are recorded"),
        Key("home", _path, Path(".appl"), "folder that holds the recorded runs"),
        Key(
            "durability", _one_of("process", "system", "strict"), "system", "what a trace survives"
        ),
        Key("on_trace_error", _one_of("stop", "warn"), "stop", "when a trace cannot be written"),
        Key("stream", switch, False, "whether answers are shown on stderr while they are made"),
    )
}


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting; ``None`` leaves the choice to the backend. ``origins`` says where from.

    ``models`` are names for models. ``notes`` are what was found and has no meaning here.
    """

    model: str | None = None
    backend: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    concurrency: int | None = None
    trace: bool = True
    home: Path = Path(".appl")
    durability: str = "system"
    on_trace_error: str = "stop"
    stream: bool = False
    models: Mapping[str, Alias] = field(default_factory=dict)
    backends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def origin(self, key: str) -> str:
        """Where the value of *key* came from, ``default`` when nobody set it."""
        return self.origins.get(key, "default")

    def settings_of(self, backend: str) -> dict[str, Any]:
        """The arguments of ``[backends.<backend>]``, secrets filled in."""
        table = self.backends.get(backend, {})
        return {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in table.items()
        }

    def shown(self) -> Iterator[tuple[str, object, str]]:
        """Name, value and origin of every setting; secrets only by the name of their variable."""
        for key in KEYS:
            value = getattr(self, key)
            yield key, str(value) if isinstance(value, Path) else value, self.origin(key)
        for name in (*USUAL, *sorted(self.models.keys() - {*USUAL})):
            alias, key = self.models.get(name), f"models.{name}"
            yield key, str(alias) if alias is not None else None, self.origin(key)
        for backend, table in sorted(self.backends.items()):
            for name, value in sorted(table.items()):
                key = f"backends.{backend}.{name}"
                yield key, str(value) if isinstance(value, Secret) else value, self.origin(key)


assert {f.name for f in fields(Config)} - {"models", "backends", "origins", "notes"} == set(KEYS)
