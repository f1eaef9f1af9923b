"""JSON schemas in the subset that a provider's strict mode takes, as the provider publishes it.

Invariant: a strict schema allows the same values as the schema that it is made of, but that a field
that may be left out is there, as ``null`` or an empty list. What cannot be said so is not strict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from appl_backends.openai.root_definitions import (
    NotInSubset,
    children_of,
    hoisted,
    pointer_of,
    schemas_in,
)

_NUMBER = frozenset({"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"})
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


@dataclass(frozen=True, slots=True)
class Subset:
    """The schemas that a provider takes as strict.

    ``keywords`` are the constraints on strings, numbers and arrays, ``formats`` the values of
    ``format``. ``properties`` is the most properties in all, ``depth`` the most schemas around one.
    Without ``references`` no ``$ref`` may stand in it. ``optional`` is the most fields that may be
    left out, and ``unions`` the most ``anyOf``, ``None`` for no limit. With ``distinct``, objects
    among which there is a choice must not begin with the same property.
    """

    keywords: frozenset[str]
    formats: frozenset[str] = _FORMATS
    properties: int = 5000
    depth: int = 10
    references: bool = True
    optional: int = 0
    unions: int | None = None
    distinct: bool = True


OPENAI = Subset(_NUMBER | {"pattern", "format", "minItems", "maxItems"})
"""https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas"""

LOCAL = Subset(
    OPENAI.keywords | {"minLength", "maxLength", "prefixItems"},
    _FORMATS | {"uri"},
    properties=1 << 30,
    depth=1 << 30,
    optional=1 << 30,
    distinct=False,
)
"""Of servers whose grammar is made of any schema, strict or not."""

AZURE = Subset(frozenset(), properties=100, depth=5)
"""https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs"""

CLAUDE = Subset(
    _NUMBER
    | {"pattern", "format", "minLength", "maxLength", "minItems", "maxItems", "prefixItems"},
    _FORMATS | {"uri"},
    properties=1 << 30,
    depth=1 << 30,
    references=False,
    optional=24,
    unions=16,
    distinct=False,
)
"""https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations

litellm writes the constraints that Anthropic refuses into the descriptions, and follows references
badly. https://docs.litellm.ai/docs/completion/json_mode
"""

_STRINGS = 120_000
_VALUES = 1000
_LONG_ENUM = 250
_LONG_ENUM_STRINGS = 15_000
_MOST_STEPS = 20_000
"""A schema that takes more steps to write is larger than any that is taken."""


@lru_cache(maxsize=256)
def strict_schema(schema: str, subset: Subset = OPENAI) -> tuple[str, bool]:
    """The text of *schema* as it is sent, and whether it is in *subset*, and so may be strict.

    One that is not keeps its meaning; its definitions stand at the root all the same.
    """
    raw = json.loads(schema)
    try:
        moved = hoisted(raw)
    except (NotInSubset, RecursionError):
        return schema, False
    try:
        return _json(_SchemaWriter(moved, subset).schema()), True
    except (NotInSubset, RecursionError):
        return (schema if moved is raw else _json(moved)), False


# -- a schema in the subset

_REMARKS = frozenset(
    {"title", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly"}
)
_STRING = frozenset({"pattern", "format", "minLength", "maxLength"})
_ARRAY = frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})
_OBJECT = frozenset(
    {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)
_OF_TYPE: dict[str, frozenset[str]] = {
    "object": _OBJECT,
    "array": _ARRAY,
    "string": _STRING,
    "number": _NUMBER,
    "integer": _NUMBER,
    "boolean": frozenset(),
    "null": frozenset(),
}
_GROUPS = frozenset({"$ref", "anyOf", "allOf"})
_WORDS = frozenset().union(_STRING, _NUMBER, _ARRAY, _OBJECT, _GROUPS, {"type", "enum", "const"})
_NESTING = _GROUPS | {"properties", "items", "prefixItems", "additionalProperties"}
_HARD_PATTERN = re.compile(r"\(\?[=!<]|\\[1-9bBAzZ]")
"""Look-around, which OpenAI answers with "regex lookaround is not supported", and what else is no
regular language or differs between engines."""


class _SchemaWriter:
    """Writes one schema in one subset; each of its methods raises ``NotInSubset``."""

    def __init__(self, root: Any, subset: Subset) -> None:
        self._root, self._subset = root, subset
        self._raw: dict[str, Any] = root.get("$defs", {}) if isinstance(root, dict) else {}
        self._defs: dict[str, dict[str, Any]] = {}
        self._todo: list[str] = []
        self._open: list[str] = []  # the references that are being written out
        self._left_out: list[dict[str, Any]] = []  # the fields that need not be there
        self._steps = 0

    def schema(self) -> dict[str, Any]:
        """The schema, with the definitions that it refers to."""
        root = self._written(self._without_reference(self._root))
        while self._todo:
            name = self._todo.pop()
            self._defs[name] = self._written(self._raw[name])
        self._check(root)
        return {**root, **({"$defs": self._defs} if self._defs else {})}

    def _without_reference(self, root: Any) -> Any:
        seen = set[str]()
        while isinstance(root, dict) and "$ref" in root and root["$ref"] not in seen:
            seen.add(root["$ref"])
            root = self._joined(self._target(root["$ref"]), root)
        return root

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise NotInSubset

    def _written(self, node: Any) -> dict[str, Any]:
        self._step()
        if not isinstance(node, dict):
            raise NotInSubset
        rest = {name: given for name, given in node.items() if name not in _REMARKS | {"$defs"}}
        said = {name: rest.pop(name) for name in ("description",) if name in rest}
        if rest.keys() - _WORDS:
            raise NotInSubset
        if "$ref" in rest:
            return self._reference(rest, said)
        if "allOf" in rest:
            return self._written({**self._only(rest), **said})
        if "anyOf" in rest:
            return self._union([self._written(each) for each in self._branches(rest)], said)
        typed = [self._typed(kind, rest) for kind in _types(rest)]
        return self._union([each for each in typed if each is not None], said)

    @staticmethod
    def _only(rest: dict[str, Any]) -> dict[str, Any]:
        """The one schema of an ``allOf`` that stands alone."""
        if len(rest) > 1 or len(rest["allOf"]) != 1 or not isinstance(rest["allOf"][0], dict):
            raise NotInSubset
        only: dict[str, Any] = rest["allOf"][0]
        return only

    @staticmethod
    def _branches(rest: dict[str, Any]) -> list[Any]:
        if len(rest) > 1 or not isinstance(rest["anyOf"], list):
            raise NotInSubset
        return rest["anyOf"]

    @staticmethod
    def _union(found: list[dict[str, Any]], said: dict[str, Any]) -> dict[str, Any]:
        if not found:
            raise NotInSubset
        if len(found) == 1 and not (said and "$ref" in found[0]):
            return {**found[0], **said}
        return {"anyOf": found, **said}

    # -- references

    def _target(self, reference: str) -> Any:
        place = pointer_of(reference)
        if not place:
            return {name: given for name, given in self._root.items() if name != "$defs"}
        if place[-1] not in self._raw:
            raise NotInSubset
        return self._raw[place[-1]]

    def _reference(self, rest: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
        reference = rest["$ref"]
        target = self._target(reference)
        leaf = isinstance(target, dict) and not target.keys() & _NESTING
        if len(rest) == 1 and self._subset.references and not (said and leaf):
            return self._union([self._referred(reference)], said)
        if reference in self._open:
            raise NotInSubset  # it would be written out for ever
        self._open.append(reference)
        found = self._written(self._joined(target, {**rest, **said}))
        self._open.pop()
        return found

    def _referred(self, reference: str) -> dict[str, Any]:
        name = reference.rpartition("/")[2]
        if reference != "#" and name not in self._defs:
            self._defs[name] = {}  # its place
            self._todo.append(name)
        return {"$ref": reference}

    @staticmethod
    def _joined(target: Any, reference: dict[str, Any]) -> Any:
        """*target* with what stands beside the *reference* to it: both hold."""
        beside = {name: given for name, given in reference.items() if name != "$ref"}
        constraints = beside.keys() - _REMARKS - {"description", "$defs"}
        if not isinstance(target, dict):
            raise NotInSubset
        if constraints & (target.keys() | _NESTING | {"required", "type"}):
            raise NotInSubset
        return {**target, **beside}

    # -- types

    def _typed(self, kind: str, rest: dict[str, Any]) -> dict[str, Any] | None:
        """The part of *rest* that is about values of one type; ``None`` if it has none."""
        found: dict[str, Any] = {"type": kind}
        if "enum" in rest or "const" in rest:
            values = _values(kind, rest)
            if not values:
                return None
            if kind in ("object", "array"):
                raise NotInSubset
            if kind != "null":
                found |= {"const": values[0]} if "const" in rest else {"enum": values}
        if kind == "object":
            return {**found, **self._object(rest)}
        if kind == "array":
            return {**found, **self._array(rest)}
        return {**found, **self._constraints(kind, rest)}

    def _constraints(self, kind: str, rest: dict[str, Any]) -> dict[str, Any]:
        found = {name: rest[name] for name in rest if name in _OF_TYPE[kind] - _NESTING}
        if not found.get("minItems", True):
            del found["minItems"]
        if found.keys() - self._subset.keywords:
            raise NotInSubset
        if "format" in found and found["format"] not in self._subset.formats:
            raise NotInSubset
        if _HARD_PATTERN.search(found.get("pattern", "")):
            raise NotInSubset
        return found

    def _object(self, rest: dict[str, Any]) -> dict[str, Any]:
        properties, required = rest.get("properties", {}), rest.get("required", [])
        known = rest.keys() & _OBJECT <= {"properties", "required", "additionalProperties"}
        if not known or rest.get("additionalProperties") is not False:
            raise NotInSubset
        if not properties.keys() >= set(required):
            raise NotInSubset
        found = {name: self._written(each) for name, each in properties.items()}
        self._left_out += [found[name] for name in found if name not in required]
        return {
            "properties": found,
            "required": list(required if self._subset.optional else found),
            "additionalProperties": False,
        }

    def _array(self, rest: dict[str, Any]) -> dict[str, Any]:
        found = self._constraints("array", rest)
        items = rest.get("prefixItems")
        if items is None:
            return {"items": self._written(rest.get("items")), **found}
        lengths = {found.get("minItems"), found.get("maxItems")}
        if items and lengths == {len(items)} and items.count(items[0]) == len(items):
            return {"items": self._written(items[0]), **found}
        if "prefixItems" not in self._subset.keywords or rest.get("items"):
            raise NotInSubset
        return {"prefixItems": [self._written(each) for each in items], **found}

    # -- the whole

    def _check(self, root: dict[str, Any]) -> None:
        """Hold *root* and the definitions against the limits of the subset."""
        subset, parts = self._subset, [root, *self._defs.values()]
        if root.get("type") != "object":
            raise NotInSubset
        for node in (node for part in parts for _, node in schemas_in(part)):
            self._check_union(node)
        if subset.optional:
            fits = len(self._left_out) <= subset.optional
        else:
            fits = all(self._has_nothing(node) for node in self._left_out)
        depth = max(_depth(part, int(part is not root)) for part in parts)
        if not (fits and depth <= subset.depth and _is_small(parts, self._defs, subset)):
            raise NotInSubset

    def _alternatives(self, node: dict[str, Any], seen: tuple[str, ...]) -> Iterator[Any]:
        """The schemas of one type among which *node* is a choice."""
        self._step()
        if "anyOf" in node:
            for each in node["anyOf"]:
                yield from self._alternatives(each, seen)
        elif "$ref" not in node or node["$ref"] == "#":
            yield node
        elif node["$ref"] in seen:
            raise NotInSubset  # it never comes to a value
        else:
            target = self._defs[node["$ref"].rpartition("/")[2]]
            yield from self._alternatives(target, (*seen, node["$ref"]))

    def _has_nothing(self, node: dict[str, Any]) -> bool:
        """True if a value of *node* says that there is none: ``null``, or an empty list."""
        found = list(self._alternatives(node, ()))
        return any(
            each.get("type") == "null" or (each.get("type") == "array" and "minItems" not in each)
            for each in found
        )

    def _check_union(self, node: dict[str, Any]) -> None:
        """Refuse objects that do not differ in what they begin with.

        "Objects provided via 'anyOf' must not share identical first keys. Consider adding a
        discriminator key": https://github.com/openai/openai-python/issues/2193
        """
        if "anyOf" not in node and "$ref" not in node:
            return
        seen: dict[str, list[Any]] = {}
        for each in self._alternatives(node, ()):
            first = next(iter(each.get("properties", {}).items()), None)
            if first is not None:
                seen.setdefault(first[0], []).append(_constants(first[1]))
        alike = any(len(each) > 1 and not _are_disjoint(each) for each in seen.values())
        if alike and self._subset.distinct:
            raise NotInSubset


def _types(rest: dict[str, Any]) -> list[str]:
    """The types of the values that *rest* allows. Raises ``NotInSubset`` if that is not said."""
    given = rest.get("type")
    if given is None and ("enum" in rest or "const" in rest):
        values = rest.get("enum", [rest.get("const")])
        given = list(dict.fromkeys(_type_of(each) for each in values))
    kinds = [given] if isinstance(given, str) else given
    if not isinstance(kinds, list) or not all(each in _OF_TYPE for each in kinds):
        raise NotInSubset
    return [each for each in kinds if each != "integer" or "number" not in kinds]


_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null",
          dict: "object", list: "array"}  # fmt: skip


def _type_of(value: object) -> str:
    return _NAMES[type(value)]


def _values(kind: str, rest: dict[str, Any]) -> list[Any]:
    """The values of type *kind* that ``enum`` and ``const`` allow."""
    values = rest["enum"] if "enum" in rest else [rest["const"]]
    if "enum" in rest and "const" in rest:
        values = [each for each in values if _json(each) == _json(rest["const"])]
    return [each for each in values if _is_of(each, kind)]


def _is_of(value: object, kind: str) -> bool:
    found = _type_of(value)
    if kind == "number":
        return found in ("number", "integer")
    return found == kind or (kind == "integer" and isinstance(value, float) and value.is_integer())


def _constants(node: dict[str, Any]) -> set[str] | None:
    """The only values of *node*, as texts; ``None`` if it has others."""
    values = node.get("enum", [node["const"]] if "const" in node else None)
    return None if values is None else {_json(each) for each in values}


def _are_disjoint(values: list[Any]) -> bool:
    return None not in values and len(set().union(*values)) == sum(map(len, values))


def _depth(node: dict[str, Any], depth: int) -> int:
    """The most schemas around one in *node*; a definition has the root around it."""
    inner = [_depth(each, depth + 1) for _, each in children_of(node) if isinstance(each, dict)]
    return max(inner, default=depth)


def _is_small(parts: list[dict[str, Any]], names: Iterable[str], subset: Subset) -> bool:
    nodes = [node for part in parts for _, node in schemas_in(part)]
    properties = [name for node in nodes for name in node.get("properties", ())]
    enums = [node["enum"] for node in nodes if "enum" in node]
    constants = [node["const"] for node in nodes if "const" in node]
    unions = sum("anyOf" in node for node in nodes)
    return (
        len(properties) <= subset.properties
        and (subset.unions is None or unions <= subset.unions)
        and _length(chain(properties, names, constants, *enums)) <= _STRINGS
        and sum(map(len, enums)) <= _VALUES
        and all(len(e) <= _LONG_ENUM or _length(e) <= _LONG_ENUM_STRINGS for e in enums)
    )


def _length(values: Iterable[object]) -> int:
    return sum(len(each if isinstance(each, str) else _json(each)) for each in values)


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
