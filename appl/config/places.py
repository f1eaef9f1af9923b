"""The line of a key in a settings file, for messages.

Invariant: files are only read. If a key's line cannot be found, its place is the file itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_HEADER = re.compile(r"\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")
_MOST = 10_000  # keys that are looked at


def place_of(origin: str, *keys: str) -> str:
    """``FILE:LINE`` of the nested *keys* in the file *origin*; *origin* if there is no such line.

    If the innermost key is not in the file, the line is that of the key around it.
    """
    try:
        text = Path(origin).read_text("utf-8-sig")
    except (OSError, ValueError):  # an origin that is no file
        return origin
    line = line_of(text, Path(origin).suffix, *keys)
    return f"{origin}:{line}" if line else origin


def line_of(text: str, suffix: str, *keys: str) -> int:
    """The line of the nested *keys* in the *text* of a settings file, or of the key around them.

    0 if there is none.
    """
    last_line = 0
    for path, line in itertools.islice(_lines(text, suffix), _MOST):
        if path == keys[: len(path)]:
            last_line = line
    return last_line


def _lines(text: str, suffix: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """The keys in *text*, each with those around it, and their lines."""
    try:
        if suffix in (".yaml", ".yml", ".json"):
            from yaml import compose  # only an appl.yaml needs it

            yield from _of_yaml(compose(text), ())
        elif suffix == ".toml":
            around: tuple[str, ...] = ()
            for number, line in enumerate(text.splitlines(), 1):
                header, key = _HEADER.match(line), _KEY.match(line)
                if header is not None:
                    around = _split(header[1])
                    yield around, number
                elif key is not None:
                    yield (*around, *_split(key[1])), number
    except Exception:  # of YAML, which reads JSON too, but for tabs and some escapes
        return


def _of_yaml(node: Any, around: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    if getattr(node, "id", "") != "mapping":
        return
    for key, value in node.value:
        path = (*around, str(key.value))
        yield path, key.start_mark.line + 1
        yield from _of_yaml(value, path)


def _split(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split("."))
