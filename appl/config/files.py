"""Which file holds the settings of a folder, and its table.

Invariant: files are only read; one that is not ours is left alone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from appl.errors import ConfigError
from appl.extras import library

FILES = ("appl.toml", "pyproject.toml", "appl.yaml", "appl.yml", "appl.json")


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
    own = file.name != "pyproject.toml"
    try:
        text = file.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        if not own:
            return None
        raise ConfigError(f"{file} cannot be read: {error}") from None
    try:
        data = _READERS.get(file.suffix, _toml)(file, text)
    except tomllib.TOMLDecodeError as error:
        if not own:
            return None
        raise ConfigError(f"{file} is not valid TOML: {error}") from None
    table = data if own else data.get("tool", {}).get("appl")
    if table is not None and not isinstance(table, Mapping):
        raise ConfigError(f"{file}: {'the settings' if own else 'tool.appl'} must be a table")
    return table


def _toml(file: Path, text: str) -> Any:
    return tomllib.loads(text)


def _json(file: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{file} is not valid JSON: {error}") from None


def _yaml(file: Path, text: str) -> Any:
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
