"""Settings: one frozen value, and where each part of it came from.

Arguments win over ``appl.init``, that over the environment, that over the nearest ``appl.toml`` or
``[tool.appl]``, that over the defaults; a key that is not known is an error, never ignored.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from appl.errors import ConfigError, nearest

FILES = ("appl.toml", "pyproject.toml")
PREFIX = "APPL_"
_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
_SECRET = re.compile(r"(^|_)(key|secret|password|token|credential)$", re.IGNORECASE)
_overrides: dict[str, Any] = {}


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
    )
}


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting; ``None`` leaves the choice to the backend. ``origins`` says where from."""

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
    backends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

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
        for backend, table in sorted(self.backends.items()):
            for name, value in sorted(table.items()):
                key = f"backends.{backend}.{name}"
                yield key, str(value) if isinstance(value, Secret) else value, self.origin(key)


assert {f.name for f in fields(Config)} - {"backends", "origins"} == set(KEYS)


class _Layers:
    """Collects values, later layers over earlier ones, each with its origin."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.backends: dict[str, dict[str, Any]] = {}
        self.origins: dict[str, str] = {}

    def put(self, key: str, raw: object, origin: str, written: str | None = None) -> None:
        """Set *key*, which the user wrote as *written*, from the raw value."""
        try:
            self.values[key] = KEYS[key].read(raw)
        except ValueError as error:
            raise ConfigError(
                f"{written or f'{origin}: {key}'} must be {error}, got {raw!r}"
            ) from None
        self.origins[key] = origin

    def table(self, tables: object, origin: str) -> None:
        """Take over ``[backends.*]``."""
        if not isinstance(tables, Mapping):
            raise ConfigError(f"{origin}: backends must hold tables, as in [backends.embedded]")
        for backend, table in tables.items():
            if not isinstance(table, Mapping):
                raise ConfigError(f"{origin}: write [backends.{backend}] with its settings below")
            for name, raw in table.items():
                key = f"backends.{backend}.{name}"
                self.backends.setdefault(backend, {})[name] = _setting(key, raw, origin)
                self.origins[key] = origin

    def config(self) -> Config:
        """All of it as one frozen value."""
        return Config(**self.values, backends=self.backends, origins=self.origins)


def _setting(key: str, raw: object, origin: str) -> object:
    if isinstance(raw, Mapping) and set(raw) == {"env"} and isinstance(raw["env"], str):
        return Secret(raw["env"])
    if _SECRET.search(key) and isinstance(raw, str):
        name = key.rpartition(".")[2]
        raise ConfigError(
            f"{origin}: {key} looks like a secret, and secrets do not belong in a file; "
            f'write {name} = {{env = "NAME_OF_A_VARIABLE"}}'
        )
    return raw


def load(
    arguments: Mapping[str, Any] | None = None,
    *,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The settings in *directory*; *arguments* win, where they are not ``None``."""
    layers = _Layers()
    _from_file(layers, directory or Path.cwd())
    _from_environment(layers, os.environ if environ is None else environ)
    _from_values(layers, _overrides, "appl.init", "appl.init({}=…)".format)
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    _from_values(layers, given, "argument", lambda key: "--" + key.replace("_", "-"))
    return layers.config()


def init(**overrides: Any) -> None:
    """Settings made in the program, over files and environment; for runs that are opened later.

    ``backends={"embedded": {...}}`` gives a backend's own settings. ``None`` takes one back.
    """
    _known(overrides, [*KEYS, "backends"], "appl.init")
    layers = _Layers()
    present = {key: value for key, value in overrides.items() if value is not None}
    _from_values(layers, present, "appl.init", "appl.init({}=…)".format)
    for key, value in overrides.items():
        if value is None:
            _overrides.pop(key, None)
        else:
            _overrides[key] = value


def _from_values(
    layers: _Layers, values: Mapping[str, Any], origin: str, written: Callable[[str], str]
) -> None:
    _known(values, [*KEYS, "backends"], origin)
    for key, value in values.items():
        if key == "backends":
            layers.table(value, origin)
        else:
            name = written(key)
            layers.put(key, value, name if origin == "argument" else origin, name)


def _from_environment(layers: _Layers, environ: Mapping[str, str]) -> None:
    known = {PREFIX + key.upper(): key for key in KEYS}
    for name, raw in environ.items():
        if name in known:
            layers.put(known[name], raw, name, name)
        elif name.startswith(PREFIX):
            _slip(name.removeprefix(PREFIX).lower(), name)


def _slip(key: str, written: str) -> None:
    """Refuse a known name with a slip; other programs' variables may begin with APPL_ too."""
    close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.75)
    if close:
        meant = PREFIX + close[0].upper()
        raise ConfigError(
            f"the environment variable {written} is not known; did you mean {meant!r}?"
        )


def _from_file(layers: _Layers, directory: Path) -> None:
    found = find_file(directory)
    if found is None:
        return
    file, table = found
    origin = str(file)
    _known(table, [*KEYS, "backends"], origin)
    for key, raw in table.items():
        if key == "backends":
            layers.table(raw, origin)
        else:
            layers.put(key, raw, origin)
    if "home" in table:  # a relative folder is meant from where the file lies
        layers.values["home"] = file.parent / layers.values["home"]


def find_file(directory: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """The nearest file with settings of ours, from *directory* up to the repository or home.

    Outside of both only *directory* itself is looked at: folders further up may be anybody's.
    """
    for folder in _upward(directory.resolve()):
        for name in FILES:
            table = _table(folder / name)
            if table is not None:
                return folder / name, table
    return None


def _upward(directory: Path) -> list[Path]:
    home = Path.home()
    folders = [directory, *directory.parents]
    for depth, folder in enumerate(folders):
        if (folder / ".git").exists() or folder == home:
            return folders[: depth + 1]
    return [directory]


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if file.name != "appl.toml":
            return None
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if file.name != "appl.toml":
            return None
        raise ConfigError(f"{file} is not valid TOML: {error}") from None
    if file.name == "appl.toml":
        return data
    table = data.get("tool", {}).get("appl")
    if table is not None and not isinstance(table, Mapping):
        raise ConfigError(f"{file}: tool.appl must be a table")
    return table


def _known(given: Iterable[str], known: list[str], origin: str) -> None:
    for key in given:
        if key not in known:
            raise ConfigError(
                f"{origin}: unknown key {key!r}{nearest(key, known)} (known: {', '.join(known)})"
            )
