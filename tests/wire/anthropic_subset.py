"""The schemas that Anthropic takes for structured outputs, by the rules that it publishes.

PAGE is https://platform.claude.com/docs/en/build-with-claude/structured-outputs, and all checks are
of its section ``#json-schema-limitations`` where no other source stands beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

# "All basic types: object, array, string, integer, number, boolean, null"
TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}
# "String formats"
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6",
           "uuid"}  # fmt: skip
# "Not supported: numerical constraints, string constraints, array constraints beyond minItems of 0 or
# 1", and what the service answered: "For 'array' type, property 'uniqueItems' is not supported"
REFUSED = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems", "minProperties",
    "maxProperties", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas",
    "unevaluatedProperties", "if", "then", "else", "not", "oneOf",
}  # fmt: skip
# "Schema complexity limits"
OPTIONAL = 24
UNIONS = 16


def problems(root: Any) -> list[str]:
    """Everything about the schema *root* that Anthropic refuses."""
    nodes = list(_nodes(root))
    found = [f"{each}: {json.dumps(node)[:200]}" for node in nodes for each in _of_node(node, root)]
    optional = sum(
        len(set(node.get("properties", {})) - set(node.get("required", []))) for node in nodes
    )
    # "Optional parameters" and "Parameters with union types"
    unions = sum("anyOf" in node or isinstance(node.get("type"), list) for node in nodes)
    found += [f"{optional} fields that may be left out"] if optional > OPTIONAL else []
    found += [f"{unions} unions"] if unions > UNIONS else []
    # "Recursive schemas" are not supported: "Circular reference detected in schema definitions"
    return found + (["it is recursive"] if _is_recursive(root) else [])


def _children(node: dict[str, Any]) -> Iterator[Any]:
    for word in ("properties", "$defs", "definitions"):
        yield from node.get(word, {}).values()
    for word in ("anyOf", "allOf"):
        yield from node.get(word, [])
    yield from [node["items"]] if "items" in node else []


def _nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            yield {"type": f"no schema: {node!r}"}
            continue
        yield node
        waiting += _children(node)


def _of_node(node: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    if node.keys() & REFUSED:
        yield f"not supported: {sorted(node.keys() & REFUSED)}"
    if not node.keys() & {"type", "anyOf", "allOf", "$ref", "enum", "const"}:
        yield "nothing says what it is"
    kinds = node.get("type", "null")
    if not {*(kinds if isinstance(kinds, list) else [kinds])} <= TYPES:
        yield "an unknown type"
    # "required and additionalProperties (must be set to false for objects)"
    if "object" in kinds and node.get("additionalProperties") is not False:
        yield "an open object"
    # An object that had any properties, and lost them: the model could only say {}
    if "object" in kinds and "properties" not in node:
        yield "an object without properties"
    if node.get("format", "date") not in FORMATS:
        yield "an unknown format"
    if node.get("minItems", 0) not in (0, 1):
        yield "minItems"
    # "Pattern support (regex)": no back references, look-around, word boundaries
    if re.search(r"\(\?<?[=!]|\\[1-9bB]", str(node.get("pattern", ""))):
        yield "a pattern"
    # "enum (strings, numbers, bools, or nulls only)", and what the service answered: "Enum value 'low'
    # does not match declared type '['string', 'null']'": https://github.com/BerriAI/litellm/pull/37882
    if any(isinstance(value, dict | list) for value in node.get("enum", [])):
        yield "a value that is no scalar"
    if "enum" in node and isinstance(kinds, list):
        yield "an enum of several types"
    yield from _reference(node, root)


def _reference(node: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    if "$ref" not in node:
        return
    # "$ref, $def, and definitions (external $ref not supported)"
    word, _, name = str(node["$ref"]).removeprefix("#/").partition("/")
    if not str(node["$ref"]).startswith("#/") or name not in root.get(word, {}):
        yield "a reference that leads nowhere"


def _is_recursive(root: dict[str, Any]) -> bool:
    names = {**root.get("definitions", {}), **root.get("$defs", {})}
    leads = {
        name: {str(each["$ref"]).rpartition("/")[2] for each in _nodes(node) if "$ref" in each}
        for name, node in names.items()
    }
    for name in names:
        reached, waiting = set[str](), list(leads[name])
        while waiting:
            each = waiting.pop()
            if each not in reached:
                reached.add(each)
                waiting += leads.get(each, ())
        if name in reached:
            return True
    return False
