"""Values of typed answers that a rehearsal makes up: others in each, and all of their schema.

Invariant: a value that does not fit its schema in every respect is refused by its type, which the
prediction notices: nothing here has to be complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

_WORDS = ("zebra", "", "Yes", "no: 42", "a\n* b", "well")
_NUMBERS = (1, 0, 42, -7, 3, 1_000)
_FORMATS = {
    "date": "2001-02-03",
    "date-time": "2001-02-03T04:05:06Z",
    "time": "04:05:06Z",
    "duration": "P1D",
    "email": "zebra@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}
_DEEPEST = 8
MOST_OPTIONS = len(_WORDS)
"""Rehearsals that show different options; of more, some are never shown."""


def value_of(schema: Any, number: int, root: Any = None, depth: int = 0) -> Any:
    """The value of *schema* in rehearsal *number*."""
    root = schema if root is None else root
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#").split("/"):
            target = target.get(part, {}) if part and isinstance(target, Mapping) else target
        return value_of(target, number, root, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if schema.get(keyword):
            options = schema[keyword]
            return value_of(options[(number + depth) % len(options)], number, root, depth + 1)
    kinds = schema.get("type", "object")
    kind = kinds[number % len(kinds)] if isinstance(kinds, list) else kinds
    maker = _MAKERS.get(kind)
    return maker(schema, number, root, depth) if maker is not None else None


def is_rich(schema: Any) -> bool:
    """True if *schema* has more options than rehearsals show, or patterns that they do not fit."""
    if isinstance(schema, list):
        return any(map(is_rich, schema))
    if not isinstance(schema, Mapping):
        return False
    options = [*schema.get("enum", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return len(options) >= MOST_OPTIONS or any(map(is_rich, schema.values()))


def _object(schema: Any, number: int, root: Any, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: value_of(part, number + at, root, depth + 1)
        for at, (name, part) in enumerate(schema.get("properties", {}).items())
        if name in required or number % 2
    }


def _array(schema: Any, number: int, root: Any, depth: int) -> list[Any]:
    first = schema.get("prefixItems", ())
    least, most = schema.get("minItems", len(first)), schema.get("maxItems", math.inf)
    count = min(max(least, number % 3, len(first)), most)
    kinds = [*islice(first, count), *[schema.get("items", {})] * (count - len(first))]
    return [value_of(item, number + at, root, depth + 1) for at, item in enumerate(kinds)]


def _string(schema: Any, number: int, root: Any, depth: int) -> str:
    text: str = _FORMATS.get(schema.get("format", ""), _WORDS[number % len(_WORDS)])
    text += "z" * (schema.get("minLength", 0) - len(text))
    return text[: schema.get("maxLength")]


def _number(schema: Any, number: int, root: Any, depth: int) -> float:
    step = schema.get("multipleOf", 1)
    least = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf) + step)
    most = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf) - step)
    value = min(max(_NUMBERS[number % len(_NUMBERS)] * step, least), most)
    return value if schema.get("type") == "number" else int(value)


_MAKERS: dict[str, Callable[[Any, int, Any, int], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": lambda schema, number, root, depth: bool(number % 2),
}
