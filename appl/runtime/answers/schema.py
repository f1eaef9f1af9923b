"""JSON Schema: whether a value fits, and what is wrong with it, in words that a model understands.

Invariant: a schema that cannot be checked as it is written is refused when its checker is made, and
nothing is ever fetched.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from appl.errors import InvalidOption

_MOST = 5
_SHOWN = 200
_DATA = ("const", "enum", "default", "examples")


class Checker:
    """Checks values of plain JSON data against one schema of draft 2020-12.

    Raises ``InvalidOption`` for what is not a schema, or refers to something outside of it.
    ``format`` is a remark, as the draft has it.
    """

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        jsonschema = importlib.import_module("jsonschema")  # 60 ms that `import appl` must not cost
        referencing = importlib.import_module("referencing")
        kind = jsonschema.Draft202012Validator
        try:
            kind.check_schema(schema, format_checker=kind.FORMAT_CHECKER)
        except jsonschema.SchemaError as error:
            raise InvalidOption(f"this is no JSON schema: {_problem(error)}") from None
        nowhere = referencing.Registry()
        _check_references(schema, referencing, nowhere)
        self._validator = kind(schema, registry=nowhere)

    def errors(self, value: Any) -> str | None:
        """What is wrong with *value*, in one line; ``None`` when it fits."""
        try:
            found = list(itertools.islice(self._validator.iter_errors(value), _MOST))
        except RecursionError:
            return "it is nested too deeply"
        return "; ".join(map(_problem, found)) or None


def _problem(error: Any) -> str:
    place = error.json_path.removeprefix("$").removeprefix(".")
    what = error.message if len(error.message) <= _SHOWN else error.message[: _SHOWN - 1] + "…"
    return f"{place}: {what}" if place else what


def _check_references(schema: Any, referencing: Any, nowhere: Any) -> None:
    known = referencing.jsonschema.DRAFT202012.create_resource(schema)
    resolver = nowhere.resolver_with_root(known)
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except referencing.exceptions.Unresolvable:
            raise InvalidOption(
                f"the JSON schema refers to {reference!r:.200}, which is not in it: "
                "it may refer to its own parts only, as in {'$ref': '#/$defs/name'}"
            ) from None


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for name, inner in schema.items():
            if name in ("$ref", "$dynamicRef") and isinstance(inner, str):
                yield inner
            elif name not in _DATA:
                yield from _references(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _references(inner)
