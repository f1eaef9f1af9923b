"""The settings file of a folder, and its table.

Invariant: each file is only read, and only once: its digest is that of what was parsed. Files of
other tools are left alone. A process reads a file again when it, or another one that could be found
before it, has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from appl.errors import ConfigError
from appl.extras import library

FILES = ("appl.toml", "pyproject.toml", "appl.yaml", "appl.yml", "appl.json")
_GIT = ".git"
_LARGEST = 1 << 20  # bytes of a settings file
_MOST = 100_000  # values in it, those counted twice that YAML's aliases repeat
_SETTLED_NS = 2_000_000_000  # a file that was changed just now may change again within one tick
_State = tuple[int, int, int]


class SettingsFile(NamedTuple):
    """A settings file: its path, its *table* of settings, its *text* and their *digest*.

    The digest covers the whole file, but of ``pyproject.toml`` only ``[tool.appl]``.
    """

    path: Path
    table: Mapping[str, object]
    text: str
    digest: str


def find_file(directory: Path | None = None) -> SettingsFile | None:
    """The nearest settings file, from *directory* up to the repository or the home folder.

    By default, *directory* is the working directory. Outside of both, only *directory* itself is
    searched: folders further up may be anybody's.
    """
    start = os.getcwd() if directory is None else os.path.realpath(directory)
    home = os.path.expanduser("~")
    settled_ns = time.time_ns() - _SETTLED_NS
    states = tuple(_states(start, home, settled_ns))
    if any(state is not None and state[0] > settled_ns for _, state in states):
        return _find(start, home)
    return _found_as_of(start, home, states)


def _states(folder: str, home: str, settled_ns: int) -> Iterator[tuple[str, _State | None]]:
    """The states of all files that decide which settings file is found, in order."""
    while True:
        names = _names(folder, settled_ns)
        for name in names:
            if name != _GIT:  # which every commit changes
                yield f"{folder}/{name}", _state(f"{folder}/{name}")
        above = os.path.dirname(folder)
        if _GIT in names or folder == home or above == folder:
            yield folder, None
            return
        folder = above


def _names(folder: str, settled_ns: int) -> tuple[str, ...]:
    """The names of *folder* that decide it. A folder from before *settled_ns* is looked at once."""
    try:
        found = os.stat(folder)
    except OSError:
        return ()
    if found.st_mtime_ns > settled_ns:
        return _names_in(folder)
    return _names_as_of(folder, (found.st_mtime_ns, found.st_mode, found.st_ino))


@lru_cache(maxsize=64)
def _names_as_of(folder: str, state: _State) -> tuple[str, ...]:
    """The same while the *state* of the folder stays the same: a new name would change it."""
    return _names_in(folder)


def _names_in(folder: str) -> tuple[str, ...]:
    return tuple([name for name in (*FILES, _GIT) if os.path.lexists(f"{folder}/{name}")])


def _state(path: str) -> _State | None:
    """The state of the file at *path*, which differs after a change; ``None`` without a file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_ctime_ns, found.st_size, found.st_ino


@lru_cache(maxsize=16)
def _found_as_of(directory: str, home: str, states: object) -> SettingsFile | None:
    """The nearest settings file while the *states* of the files stay the same."""
    return _find(directory, home)


def _find(directory: str, home: str) -> SettingsFile | None:
    for folder in _upward(Path(directory), Path(home)):
        for name in FILES:
            found = _read(folder / name)
            if found is not None:
                return found
    return None


def _upward(directory: Path, home: Path) -> list[Path]:
    folders = [directory, *directory.parents]
    for depth, folder in enumerate(folders):
        if (folder / ".git").exists() or folder == home:
            return folders[: depth + 1]
    return [directory]


def _read(file: Path) -> SettingsFile | None:
    own = file.name != "pyproject.toml"
    try:
        data = _bytes(file)
        text = data.decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        if not own:
            return None
        raise ConfigError(f"{file} cannot be read: {error}") from None
    table = _table(file, text, own)
    if table is None:
        return None
    if _is_huge(table):
        raise ConfigError(f"{file} holds more than {_MOST} values")
    source = data if own else repr(table).encode("utf-8", "backslashreplace")
    return SettingsFile(file, table, text, hashlib.sha256(source).hexdigest())


def _bytes(file: Path) -> bytes:
    """The bytes of *file*. Raises ``OSError``, without waiting, if it is no ordinary file."""
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is no ordinary file")
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(f"it is larger than {_LARGEST} bytes")
    return data


def _is_huge(table: object) -> bool:
    """True if *table* holds more than ``_MOST`` values, or holds itself."""
    waiting = [table]
    for _ in range(_MOST):
        if not waiting:
            return False
        part = waiting.pop()
        if isinstance(part, Mapping | list):
            waiting += part.values() if isinstance(part, Mapping) else part
    return bool(waiting)


def _table(file: Path, text: str, own: bool) -> Mapping[str, object] | None:
    """The settings in *text*; ``None`` if another tool's file holds none."""
    try:
        data = _READERS.get(file.suffix, _toml)(file, text)
    except tomllib.TOMLDecodeError as error:
        if not own:
            return None
        raise ConfigError(f"{file} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{file} is nested too deeply") from None
    table = data if own else data.get("tool", {}).get("appl")
    if table is not None and not isinstance(table, Mapping):
        raise ConfigError(f"{file}: {'the settings' if own else 'tool.appl'} must be a table")
    return table


def _toml(file: Path, text: str) -> object:
    return tomllib.loads(text)


def _json(file: Path, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{file} is not valid JSON: {error}") from None


def _yaml(file: Path, text: str) -> object:
    yaml = library("yaml", f"the settings file {file}")
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from None


_READERS: dict[str, Callable[[Path, str], Any]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
}
