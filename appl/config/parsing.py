"""The table in a settings file.

Invariant: a file is only read, and only once: its digest is that of what was parsed. Files of other
tools are left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from appl.base.extras import library
from appl.config.files import SettingsFile
from appl.errors import ConfigError

_LARGEST = 1 << 20  # bytes of a settings file
_MOST = 100_000  # values in it, those counted twice that YAML's aliases repeat
_BITS = 1024  # of a whole number: as many as the largest float has
_DEEPEST = 100  # tables and lists in one another
_PARTS = 2000  # of a key, as far as its dots tell


def read_file(file: Path) -> SettingsFile | None:
    """The settings in *file*; ``None`` if it holds none. Raises ``ConfigError``."""
    own = file.name != "pyproject.toml"
    try:
        data = _bytes(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if not own:
            return None
        raise ConfigError(f"{file} cannot be read: {error}") from None
    try:
        table = _table(file, data, own)
    except ConfigError:
        if not own and not _OURS.search(data):
            return None  # what is wrong with it is another tool's
        raise
    if table is None:
        return None
    _check(file, table)
    text = data.decode("utf-8-sig")
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


_NAME = rb"[\"']?appl[\"']?\s*"
_OURS = re.compile(
    rb"(?m)^\s*(?:\[+\s*)?(?:[\"']?tool[\"']?\s*\.\s*%b[.\]=]|%b[.=])" % (_NAME, _NAME)
)
"""The beginning of ``[tool.appl]``, or of a key in it, in a ``pyproject.toml``."""


class _NestedValue(NamedTuple):
    """A part of a table: its key in the part around it, and how deep it lies."""

    value: object
    key: str | None = None
    around: _NestedValue | None = None
    depth: int = 0

    def within(self) -> Iterable[_NestedValue]:
        """The parts of this one. Raises ``ConfigError`` for a key that is no text."""
        if isinstance(self.value, Mapping):
            for key, value in self.value.items():
                if not isinstance(key, str):
                    raise ConfigError(f"the key {_shown(key)} is no text; write it in quotes")
                yield _NestedValue(value, key, self, self.depth + 1)
        elif isinstance(self.value, list):
            yield from (_NestedValue(item, None, self, self.depth + 1) for item in self.value)

    def keys(self) -> list[str]:
        """The keys that lead to this part."""
        path, part = list[str](), self
        while part.around is not None:
            path += [] if part.key is None else [part.key]
            part = part.around
        return path[::-1]


def _check(file: Path, table: Mapping[str, object]) -> None:
    """Refuse too many values, a table in itself, keys that are no text, and huge numbers."""
    waiting, deepest = [_NestedValue(table)], _NestedValue(table)
    for _ in range(_MOST):
        if not waiting:
            break
        part = waiting.pop()
        deepest = part if part.depth > deepest.depth else deepest
        try:
            waiting += part.within()
            _check_value(part.value)
        except ConfigError as error:
            place = ".".join(part.keys())
            raise ConfigError(f"{file}: {place and f'{place}: '}{error}") from None
    if waiting:
        raise ConfigError(f"{file} holds more than {_MOST} values")
    if deepest.depth > _DEEPEST:
        raise ConfigError(f"{file}: {deepest.keys()[0]} is nested too deeply")


def _check_value(value: object) -> None:
    """Refuse what no setting can be: dates and other types of TOML and YAML, huge numbers, NUL."""
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise ConfigError("this number is too large")
    if isinstance(value, str) and "\0" in value:
        raise ConfigError("this text holds a NUL character")
    if value is not None and not isinstance(value, str | int | float | list | Mapping):
        raise ConfigError(f"a {type(value).__name__} is no setting; write a text in quotes")


def _shown(key: object) -> str:
    try:
        return f"{key!r:.80}"
    except (ValueError, RecursionError):  # a huge number, or a key in itself
        return f"of the type {type(key).__name__}"


def _table(file: Path, data: bytes, own: bool) -> Mapping[str, object] | None:
    """The settings in *data*; ``None`` if another tool's file holds none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: this is no UTF-8 text ({error.reason})") from None
    name, read = _READERS.get(file.suffix, ("TOML", _toml))
    try:
        parsed = read(file, text)
    except RecursionError:
        raise ConfigError(f"{file} is nested too deeply") from None
    except ValueError as error:
        place, long = "", re.search(r"[0-9_]{1000}", text)  # digits that Python does not read
        if long is not None and not isinstance(error, _PLACED):
            place = f":{text.count(chr(10), 0, long.start()) + 1}"
        raise ConfigError(f"{file}{place} is not valid {name}: {error}") from None
    table = parsed
    if not own:  # tool.appl of pyproject.toml
        tool = parsed.get("tool")
        if isinstance(tool, list) and any(
            isinstance(row, Mapping) and "appl" in row for row in tool
        ):
            raise ConfigError(f"{file}: tool must be a table for [tool.appl], and is an array")
        table = tool.get("appl") if isinstance(tool, Mapping) else None
    if table is not None and not isinstance(table, Mapping):
        raise ConfigError(f"{file}: {'the settings' if own else 'tool.appl'} must be a table")
    return table


_PLACED = (tomllib.TOMLDecodeError, json.JSONDecodeError)
"""Errors that name the line."""


def _toml(file: Path, text: str) -> object:
    # The time for a key grows with the square of its parts: hours for one that fills the file.
    for line in text.splitlines():
        if any(part.count(".") > _PARTS for part in line.split("=")):
            raise RecursionError
    return tomllib.loads(text)


def _json(file: Path, text: str) -> object:
    return json.loads(text)


def _yaml(file: Path, text: str) -> object:
    yaml = library("yaml", f"the settings file {file}")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """Names the line of a value that cannot be made, as of a date in month 13."""

        def construct_object(self, node: Any, deep: bool = False) -> object:
            try:
                return super().construct_object(node, deep)
            except (yaml.YAMLError, RecursionError):
                raise
            except Exception as error:
                why = f"{error}" if isinstance(error, ValueError) else type(error).__name__
                raise yaml.constructor.ConstructorError(None, None, why, node.start_mark) from None

    try:
        return yaml.load(text, Loader) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from None


_READERS: dict[str, tuple[str, Callable[[Path, str], Any]]] = {
    ".yaml": ("YAML", _yaml),
    ".yml": ("YAML", _yaml),
    ".json": ("JSON", _json),
}
