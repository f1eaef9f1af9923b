"""Rules of ruff whose fixes change a prompt: they take its first text for a docstring.

Invariant: reads only; settings that cannot be read switch nothing on.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHANGING = ("D210", "D300", "D301", "D400", "D403", "D415")
"""The rules whose fixes alter a first string: its quotes, so that it is documentation and no text
of the prompt any more, its blanks, backslashes, first letter, or its end."""

_FILES = (".ruff.toml", "ruff.toml", "pyproject.toml")
_ON, _OFF = ("select", "extend-select"), ("ignore", "extend-ignore")


def changing_rules(folder: Path) -> tuple[str, ...]:
    """Those of ``CHANGING`` that ruff applies to files in *folder*."""
    settings = settings_for(folder.resolve())
    if settings is None:
        return ()
    table = settings[1]
    lint = table.get("lint")
    tables = [table, lint] if isinstance(lint, Mapping) else [table]
    return tuple(  # a rule is on if the longest beginning of it that is named selects it
        rule
        for rule in CHANGING
        if _longest(rule, tables, ("unfixable", "extend-unfixable")) < 0
        and _longest(rule, tables, _ON) > _longest(rule, tables, _OFF)
    )


@functools.lru_cache(maxsize=256)
def settings_for(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """The file with the settings of ruff for *folder*, and its table; ``None`` without one."""
    for above in (folder, *folder.parents):
        for name in _FILES:
            table = _table(above / name)
            if table is not None:
                return above / name, table
    return None


def _table(path: Path) -> Mapping[str, Any] | None:
    """The settings of ruff in the file at *path*, if it has any."""
    try:
        data: Any = tomllib.loads(path.read_text("utf-8"))
        if path.name == "pyproject.toml":
            data = data["tool"]["ruff"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return data if isinstance(data, Mapping) else None


def _longest(rule: str, tables: list[Mapping[str, Any]], keys: tuple[str, ...]) -> int:
    """The length of the longest beginning of *rule* among *keys*; 0 for ``ALL``, -1 for none."""
    named = [selector for table in tables for key in keys for selector in _texts(table.get(key))]
    fitting = [
        0 if selector == "ALL" else len(selector)
        for selector in named
        if rule.startswith(selector) or selector == "ALL"
    ]
    return max(fitting, default=-1)


def _texts(value: object) -> list[str]:
    return (
        [item for item in value if isinstance(item, str) and item]
        if isinstance(value, list)
        else []
    )
