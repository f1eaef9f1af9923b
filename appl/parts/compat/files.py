"""Files of data as APPL 0.2 read and wrote them: the suffix of the name says which kind.

Invariant: only what the suffix says is done; another suffix is a ``ValueError``.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from appl.base.extras import library

_TEXTS = (".txt", ".log", ".md", ".html")


def load_file(
    file: str,
    mode: str = "r",
    file_type: str | None = None,
    open_kwargs: Mapping[str, Any] | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The data of a JSON, YAML or TOML file, or the text of another one."""
    kind = file_type or Path(file).suffix
    with Path(file).open(mode, **(open_kwargs or {})) as opened:
        if kind in _TEXTS:
            return opened.read()
        if kind == ".json":
            return json.load(opened, *args, **kwargs)
        if kind in (".yaml", ".yml"):
            return library("yaml", f"the file {file}").safe_load(opened)
        if kind == ".toml":
            return tomllib.loads(opened.read())
    raise ValueError(f"{file}: load_file reads JSON, YAML, TOML and text, not {kind!r}")


def dump_file(
    data: Any,
    file: str,
    mode: str = "w",
    ensure_folder_exists: bool = True,
    file_type: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Write *data* into a JSON or YAML file, or a text into another one."""
    kind = file_type or Path(file).suffix
    if kind not in (*_TEXTS, ".json", ".yaml", ".yml"):
        raise ValueError(f"{file}: dump_file writes JSON, YAML and text, not {kind!r}")
    if ensure_folder_exists:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
    with Path(file).open(mode) as opened:
        if kind in _TEXTS:
            opened.write(data)
        elif kind == ".json":
            json.dump(data, opened, *args, **kwargs)
        else:
            library("yaml", f"the file {file}").dump(data, opened, *args, **kwargs)
