"""Values of programs as plain data, for records, tables and JSON.

Invariant: what has no such form becomes its text; nothing here raises.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping

_DEPTH = 40


def plain(value: object, depth: int = 0) -> object:
    """*value* as None, bool, int, float, str, list and dict."""
    if isinstance(value, enum.Enum):
        return plain(value.value, depth)
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value) if kind is not str else str.__str__(value)
    if depth > _DEPTH:
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth + 1) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return plain(pairs, depth + 1)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return plain(dump(), depth + 1)
    return str(value)


def text(value: object) -> str:
    """*value* as text: a text as it is, data as JSON."""
    data = plain(value)
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
