"""The schemas that OpenAI and Azure take as strict, by the rules that they publish.

Each check stands beside its source. It knows nothing of how the product writes its schemas.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

GUIDE = "https://developers.openai.com/api/docs/guides/structured-outputs"
SDK = "https://github.com/openai/openai-java/blob/main/openai-java-core/src/main/kotlin/com/openai/core/JsonSchemaValidator.kt"
AZURE = "https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs"


@dataclass(frozen=True)
class Rules:
    """What differs between the two providers."""

    strings: frozenset[str]
    numbers: frozenset[str]
    arrays: frozenset[str]
    properties: int
    levels: int


OPENAI_RULES = Rules(
    # GUIDE#supported-schemas, "Supported properties"
    frozenset({"pattern", "format"}),
    frozenset({"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"}),
    frozenset({"minItems", "maxItems"}),
    # GUIDE#objects-have-limitations-on-nesting-depth-and-size
    5000,
    10,
)
# AZURE#unsupported-type-specific-keywords and AZURE#nesting-depth
AZURE_RULES = Rules(frozenset(), frozenset(), frozenset(), 100, 5)

# GUIDE#supported-schemas, "Currently supported" formats
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
# SDK: the keywords of every schema, of one with anyOf, and of one with a type
REMARKS = {"title", "description"}
VALUES = {"enum", "const"}
TYPES = {"string", "number", "integer", "boolean", "null", "object", "array"}
# GUIDE#some-type-specific-keywords-are-not-yet-supported
COMPOSITION = {"allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else"}


def problems(root: Any, rules: Rules = OPENAI_RULES) -> list[str]:
    """Everything about the schema *root* that strict mode refuses."""
    return list(_problems(root, rules))


def _problems(root: Any, rules: Rules) -> Iterator[str]:
    if not isinstance(root, dict):
        yield "the root is no schema"
        return
    # GUIDE#root-objects-must-not-be-anyof-and-must-be-an-object
    if root.get("type") != "object" or "anyOf" in root:
        yield "the root is not an object, or it is anyOf"
    names = root.get("$defs", {})
    nodes = list(_nodes(root))
    for node in nodes:
        for problem in _of_node(node, names, rules, node is root):
            yield f"{problem}: {json.dumps(node)[:200]}"
    yield from _sizes(root, nodes, rules)
    for node in nodes:
        yield from _first_keys(node, root)


def _children(node: dict[str, Any]) -> Iterator[Any]:
    yield from node.get("properties", {}).values()
    yield from node.get("anyOf", [])
    yield from [node["items"]] if "items" in node else []
    yield from node.get("$defs", {}).values()


def _nodes(root: dict[str, Any]) -> Iterator[Any]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, dict):
            waiting += _children(node)


def _of_node(node: Any, names: dict[str, Any], rules: Rules, is_root: bool) -> Iterator[str]:
    if not isinstance(node, dict) or not node:
        yield "a schema is empty, or a boolean"  # SDK: "Schema or sub-schema is empty"
        return
    # SDK: "Expected exactly one of 'type' or 'anyOf' or '$ref'", and the service itself: "schema
    # must have a 'type' key"
    if sum(word in node for word in ("type", "anyOf", "$ref")) != 1:
        yield "not exactly one of type, anyOf and $ref"
        return
    # GUIDE#some-type-specific-keywords-are-not-yet-supported
    if node.keys() & COMPOSITION:
        yield "composition is not supported"
    if "$ref" in node:
        yield from _reference(node, names)
    else:
        known = _known(node, rules) | REMARKS | ({"$defs"} if is_root else set())
        if node.keys() - known:
            yield f"not supported: {sorted(node.keys() - known)}"
    yield from _of_type(node)


def _known(node: dict[str, Any], rules: Rules) -> set[str]:
    """The keywords that may stand in *node* (SDK, by type)."""
    if "anyOf" in node:
        return {"anyOf"}
    kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
    known = {"type"} | (VALUES if not {"object", "array"} & set(kinds) else set())
    known |= {"properties", "required", "additionalProperties"} if "object" in kinds else set()
    known |= {"items", *rules.arrays} if "array" in kinds else set()
    known |= rules.strings if "string" in kinds else set()
    known |= rules.numbers if {"number", "integer"} & set(kinds) else set()
    return known


def _reference(node: dict[str, Any], names: dict[str, Any]) -> Iterator[str]:
    reference = node["$ref"]
    # "$ref cannot have keywords {'description'}": https://github.com/openai/openai-python/issues/1637
    if len(node) > 1:
        yield "$ref does not stand alone"
    # GUIDE#definitions-are-supported and GUIDE#recursive-schemas-are-supported; "reference can only
    # point to definitions defined at the top level of the schema":
    # https://github.com/dotnet/extensions/issues/6918
    head, _, name = str(reference).rpartition("/")
    if reference != "#" and (head != "#/$defs" or name not in names):
        yield "a reference leads neither to # nor to a definition at the root"


def _of_type(node: dict[str, Any]) -> Iterator[str]:
    kinds = node.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    # GUIDE#supported-schemas, "Supported types"
    if not set(kinds) <= TYPES:
        yield "an unknown type"
    if "object" in kinds:
        yield from _object(node)
    # "array schema missing items"
    if "array" in kinds and not isinstance(node.get("items"), dict):
        yield "a list without items"
    if node.get("format", "date") not in FORMATS:
        yield "an unknown format"
    # "regex lookaround is not supported": https://github.com/vercel/ai/pull/21037
    if re.search(r"\(\?<?[=!]", str(node.get("pattern", ""))):
        yield "a pattern looks around"
    # "enum value javascript does not validate against {'type': 'null'}":
    # https://github.com/can1357/oh-my-pi/issues/1835
    values = [*node.get("enum", []), *([node["const"]] if "const" in node else [])]
    if kinds and not all(any(_is_of(value, kind) for kind in kinds) for value in values):
        yield "a value that is not of the type"
    if node.get("enum") == [] or node.get("anyOf") == []:
        yield "nothing to choose from"


def _object(node: dict[str, Any]) -> Iterator[str]:
    # GUIDE#additionalproperties-false-must-always-be-set-in-objects
    if node.get("additionalProperties") is not False:
        yield "additionalProperties is not false"
    # GUIDE#all-fields-must-be-required; "'required' is required to be supplied and to be an array
    # including every key in properties"
    if sorted(node.get("required", ["\0"])) != sorted(node.get("properties", {})):
        yield "required does not list all properties"


def _is_of(value: Any, kind: str) -> bool:
    tests = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "integer": isinstance(value, int | float)
        and not isinstance(value, bool)
        and value == int(value),
    }
    return tests.get(kind, False)


def _sizes(root: dict[str, Any], nodes: list[Any], rules: Rules) -> Iterator[str]:
    found = [node for node in nodes if isinstance(node, dict)]
    properties = [name for node in found for name in node.get("properties", {})]
    enums = [node["enum"] for node in found if "enum" in node]
    # GUIDE#objects-have-limitations-on-nesting-depth-and-size
    if len(properties) > rules.properties:
        yield f"{len(properties)} properties"
    # SDK: a nested schema is a level, what a reference leads to is none
    if _levels(root, 0) > rules.levels:
        yield f"{_levels(root, 0)} levels"
    # GUIDE#limitations-on-total-string-size
    texts = [*properties, *root.get("$defs", {})]
    texts += [value for values in enums for value in values]
    texts += [node["const"] for node in found if "const" in node]
    if sum(len(str(text)) for text in texts) > 120_000:
        yield "more than 120,000 characters"
    # GUIDE#limitations-on-enum-size
    if sum(map(len, enums)) > 1000:
        yield "more than 1000 values"
    if any(len(each) > 250 and sum(len(str(v)) for v in each) > 15_000 for each in enums):
        yield "more than 15,000 characters of more than 250 values"


def _levels(node: Any, level: int) -> int:
    inner = _children(node) if isinstance(node, dict) else ()
    return max([level, *(_levels(each, level + 1) for each in inner)])


def _first_keys(node: Any, root: dict[str, Any]) -> Iterator[str]:
    # Not in the guide, but answered by the service, Azure's at least: "Objects provided via 'anyOf'
    # must not share identical first keys. Consider adding a discriminator key":
    # https://github.com/openai/openai-python/issues/2193
    if not isinstance(node, dict) or "anyOf" not in node:
        return
    firsts: Counter[str] = Counter()
    told_apart: set[str] = set()
    for each in _objects(node, root, 0):
        name, first = next(iter(each["properties"].items()))
        values = first.get("enum", [first["const"]] if "const" in first else [None])
        for value in values:
            firsts[f"{name}={json.dumps(value)}"] += 1
        if values == [None]:
            told_apart.add(name)
    names = Counter(key.partition("=")[0] for key in firsts)
    shared = any(firsts[key] > 1 for key in firsts)
    if shared or any(names[name] > 1 for name in told_apart):
        yield f"objects of one anyOf begin with the same key: {dict(firsts)}"


def _objects(node: Any, root: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """The objects that *node* is a choice of."""
    if depth > 50 or not isinstance(node, dict):
        return
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        target = root if node["$ref"] == "#" else root.get("$defs", {}).get(name)
        yield from _objects(target, root, depth + 1)
    for each in node.get("anyOf", []):
        yield from _objects(each, root, depth + 1)
    if node.get("properties"):
        yield node
