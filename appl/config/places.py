"""The line of a settings file on which a key stands, for messages.

Invariant: files are only read; a place that cannot be found is the file itself.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_HEADER = re.compile(r"\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


def place_of(origin: str, *keys: str) -> str:
    """``FILE:LINE`` of the nested *keys* in the file *origin*; *origin* without a line otherwise.

    When the innermost key is not in the file, the line is that of the one around it.
    """
    found = 0
    for path, line in _lines(Path(origin)):
        if path == keys[: len(path)]:
            found = line
    return f"{origin}:{found}" if found else origin


def _lines(file: Path) -> Iterator[tuple[tuple[str, ...], int]]:
    """The keys of *file*, each with those around it, and their lines."""
    try:
        text = file.read_text("utf-8")
        if file.suffix in (".yaml", ".yml", ".json"):
            yield from _of_yaml(importlib.import_module("yaml").compose(text), ())
        elif file.suffix == ".toml":
            yield from _of_toml(text)
    except (OSError, ValueError, ImportError):  # an origin that is no file
        return


def _of_yaml(node: Any, around: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    if getattr(node, "id", "") != "mapping":
        return
    for key, value in node.value:
        path = (*around, str(key.value))
        yield path, key.start_mark.line + 1
        yield from _of_yaml(value, path)


def _of_toml(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    around: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            around = _split(header[1])
            yield around, number
        elif key is not None:
            yield (*around, *_split(key[1])), number


def _split(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split("."))
