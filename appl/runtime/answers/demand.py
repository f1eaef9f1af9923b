"""Output constraints: a schema for constrained decoding, or an instruction in words.

Invariant: neither ever allows less than the shape does, but for properties that nobody named;
whatever they cannot say is left to the validation of the answer.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from appl.backend import Profile
from appl.runtime.answers.shape import OBJECT, Shape


@lru_cache(maxsize=256)
def schema_for(shape: Shape, profile: Profile) -> str | None:
    """The schema that the backend is to constrain the answer by, ``None`` when it cannot.

    Compact JSON in the order in which the fields were declared: models write them in that order.
    """
    if shape.schema is None or "schema" not in profile.features:
        return None
    schema = constraint(shape.schema)
    if is_wrapped(shape, profile):
        schema = wrapped(schema)
    return json.dumps(schema, separators=(",", ":"))


def is_wrapped(shape: Shape, profile: Profile) -> bool:
    """True if the value has to be put into an object, as some interfaces take nothing else."""
    return (
        shape.schema is not None
        and {"schema", "schema_object"} <= profile.features
        and shape.schema.get("type") != "object"
    )


_SUPPORTED_KEYWORDS = frozenset(
    """
    $ref $defs definitions additionalProperties allOf anyOf const description enum
    exclusiveMaximum exclusiveMinimum format items maxItems maxLength maxProperties maximum
    minItems minLength minProperties minimum multipleOf pattern patternProperties prefixItems
    properties required type
""".split()
)
"""The keywords that backends can constrain; validation checks the rest of a schema afterwards."""

_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
_LIST_KEYWORDS = ("allOf", "anyOf", "prefixItems")
_HARD_PATTERN = re.compile(r"\(\?[=!<]|\\[1-9bBAzZ]")  # look-around, back references, boundaries


def constraint(schema: dict[str, object]) -> dict[str, object]:
    """The part of *schema* that constrained decoding can keep to; it may allow more.

    Objects that list their properties are closed, so that a model cannot go on inventing some.
    """
    relaxed: dict[str, object] = _relaxed(schema, close='"allOf"' not in json.dumps(schema))
    return relaxed


def _relaxed(schema: object, close: bool) -> Any:
    if not isinstance(schema, dict):
        return {} if schema is True else schema
    keywords: dict[str, Any] = {}
    for name, value in schema.items():
        name = "anyOf" if name == "oneOf" and "anyOf" not in schema else name
        if name not in _SUPPORTED_KEYWORDS:
            continue
        if name in _NAMED:
            keywords[name] = {key: _relaxed(part, close) for key, part in value.items()}
        elif name in _LIST_KEYWORDS:
            keywords[name] = [_relaxed(part, close) for part in value]
        elif name == "items" or (name == "additionalProperties" and value is not True):
            keywords[name] = value if value is False else _relaxed(value, close)
        elif name == "format":
            if value in _FORMATS:
                keywords[name] = value
        elif name != "pattern" or not _HARD_PATTERN.search(value):
            keywords[name] = value
    if any(map(_HARD_PATTERN.search, keywords.get("patternProperties", ()))):
        del keywords["patternProperties"]
        keywords.pop("additionalProperties", None)
        return keywords
    shut = close and "properties" in keywords and not keywords.keys() & {"anyOf", "$ref"}
    if shut and "additionalProperties" not in keywords and "patternProperties" not in keywords:
        keywords["additionalProperties"] = False
    return keywords


def wrapped(schema: dict[str, object]) -> dict[str, Any]:
    """An object with the one property ``value``, which is of *schema*."""
    inner = _moved(schema, "#/properties/value")
    return {
        "type": "object",
        "properties": {"value": inner},
        "required": ["value"],
        "additionalProperties": False,
    }


def _moved(schema: object, where: str) -> object:
    if isinstance(schema, list):
        return [_moved(item, where) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved: dict[object, object] = {}
    for name, value in schema.items():
        if name == "$ref" and isinstance(value, str):
            moved[name] = where + value[1:]
        else:
            moved[name] = value if name in ("enum", "const") else _moved(value, where)
    return moved


def unwrapped(text: str) -> str:
    """The JSON text of ``value`` in *text*, or *text* itself when there is none."""
    try:
        return str(json.dumps(json.loads(text)["value"], ensure_ascii=False))
    except (ValueError, KeyError, TypeError, RecursionError):
        return text


_REMARKS = {"title", "description"}
_WORDS = {
    frozenset({"integer"}): "one whole number",
    frozenset({"number"}): "one number",
    frozenset({"boolean"}): "true or false",
}


def instruction(shape: Shape) -> str:
    """The instruction that asks a model for *shape*."""
    schema = shape.schema
    assert schema is not None, "any text needs no instruction"
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values and set(schema) <= {"type", "enum", "const"} | _REMARKS:
        listed = "\n".join(f"- {v if isinstance(v, str) else json.dumps(v)}" for v in values)
        return f"Answer with one of these, and with nothing else:\n{listed}"
    if shape.kinds in _WORDS and set(schema) <= {"type"} | _REMARKS:
        return f"Answer with {_WORDS[shape.kinds]}, and with nothing else."
    if schema == OBJECT:
        return "Answer with one JSON object, and with nothing else."
    written = json.dumps(_untitled(schema), ensure_ascii=False)
    return f"Answer with JSON that fits this JSON schema, and with nothing else:\n{written}"


def _untitled(schema: object) -> object:
    """*schema* without the titles that are made from the names of the fields."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {key: _untitled(inner) for key, inner in value.items()}
        if name in _NAMED and isinstance(value, dict)
        else _untitled(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str))
    }
