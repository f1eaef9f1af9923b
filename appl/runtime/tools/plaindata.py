"""Plain data as JSON text and back: also bytes, tuples, and dicts with any plain keys.

Invariant: ``decode(encode(value))`` equals *value* in content and type for every value of the exact
types of this module; of a subclass, the base type comes back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 100
_LARGE = 1 << 63
_INT, _BYTES, _TUPLE, _DICT = "$int", "$bytes", "$tuple", "$dict"
_HINTS = {
    "set": "sorted({})",
    "frozenset": "sorted({})",
    "generator": "list({})",
    "bytearray": "bytes({})",
    "datetime": "{}.isoformat()",
    "date": "{}.isoformat()",
    "Decimal": "str({})",
    "ndarray": "{}.tolist()",
}


class NotPlain(Exception):
    """A value that is no plain data: ``value``, and ``path`` to it, as a subscript of the whole."""

    def __init__(self, value: object, path: str) -> None:
        kind = type(value)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        super().__init__(f"{module}{kind.__qualname__}{f' at value{path}' if path else ''}")
        self.value = value


def encode(value: object, other: Callable[[object, str], object] | None = None) -> str:
    """*value* as JSON text; *other* gives data in place of what is not plain.

    Raises ``NotPlain`` without *other*, and ``ValueError`` for what is nested too deeply.
    """
    return json.dumps(_tagged(value, "", MAX_DEPTH, other or _refuse), ensure_ascii=False)


def decode(text: str) -> object:
    """The value that was given to ``encode``. Raises ``ValueError``."""
    try:
        return json.loads(text, object_hook=_untagged)
    except (TypeError, RecursionError) as error:  # what a tag holds; nesting
        raise ValueError(str(error)) from None


def hint(value: object) -> str:
    """An expression to return in place of *value*, for a value named ``x``."""
    if hasattr(value, "model_dump"):
        return "x.model_dump()"
    if hasattr(value, "__dataclass_fields__"):
        return "dataclasses.asdict(x)"
    if hasattr(value, "status_code") and hasattr(value, "text"):
        return "x.text or x.json()"
    if hasattr(value, "__fspath__"):
        return "str(x)"
    return _HINTS.get(type(value).__name__, "str(x)").format("x")


def _refuse(value: object, path: str) -> object:
    raise NotPlain(value, path)


def _tagged(value: object, path: str, depth: int, other: Callable[[object, str], object]) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGE <= value < _LARGE else {_INT: hex(value)}
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if depth <= 0:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep, or holds itself")
    if isinstance(value, list | tuple):
        pairs: Iterable[tuple[object, object]] = enumerate(value)
        items = [_tagged(item, f"{path}[{i}]", depth - 1, other) for i, item in pairs]
        return {_TUPLE: items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        pairs = [
            (
                _tagged(key, path, depth - 1, other),
                _tagged(item, f"{path}[{key!r:.40}]", depth - 1, other),
            )
            for key, item in value.items()
        ]
        is_plain = all(isinstance(key, str) and key[:1] != "$" for key in value)
        return dict(pairs) if is_plain else {_DICT: pairs}
    return other(value, path)


def _untagged(data: dict[str, Any]) -> object:
    tag = next(iter(data), "")
    if tag[:1] != "$":
        return data
    body = data[tag]
    if tag == _INT:
        return int(body, 16)
    if tag == _BYTES:
        return base64.b64decode(body)
    if tag == _TUPLE:
        return tuple(body)
    if tag == _DICT:
        return {key: item for key, item in body}  # pairs are lists
    raise ValueError(f"unknown tag {tag!r}")
