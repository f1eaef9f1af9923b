"""Random values of JSON schemas, and values that are nearly ones.

They are drawn as the words of the draft have it, for the words that pydantic writes; whether a value
is one is for a validator to say.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

TEXTS = {
    "date": "2024-02-29", "time": "10:11:12Z", "date-time": "2024-02-29T10:11:12Z", "duration": "P1DT2H",
    "uuid": "123e4567-e89b-12d3-a456-426614174000", "ipv4": "10.0.0.1", "email": "a@example.org",
    "uri": "https://example.org/",
}  # fmt: skip
SCALARS: tuple[Any, ...] = (None, True, 0, -1, 2.5, "", "a", "red", [], {}, [None], {"kind": "a"})


class Instances:
    """Draws values of *root*.

    What may be left out is sometimes left out; with *whole*, it says then that there is nothing, as
    null or as an empty list. All else of a value is the same for the same *random*.
    """

    def __init__(self, root: Any, random: Random, whole: bool = False) -> None:
        self.root, self.random, self.whole = root, random, whole

    def value(self, node: Any = None, depth: int = 6) -> Any:
        """A value, small below *depth*."""
        node = self.root if node is None else node
        if not isinstance(node, dict) or not node:
            return self.random.choice(SCALARS)
        if "$ref" in node:
            return self.value({**self.target(node["$ref"]), **_without(node, "$ref")}, depth - 1)
        if "anyOf" in node:
            return self.value(self.branch(node["anyOf"], depth), depth - 1)
        if "enum" in node or "const" in node:
            return self.random.choice(node["enum"] if "enum" in node else [node["const"]])
        kind = node.get("type", "object")
        kind = self.random.choice(kind) if isinstance(kind, list) else kind
        draw = getattr(self, f"_{kind}")
        return draw(node, depth)

    def target(self, reference: str) -> Any:
        found = self.root
        for step in reference.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found

    def branch(self, branches: list[Any], depth: int) -> Any:
        """Any of *branches*, or deep down one that comes to an end."""
        flat = [each for each in branches if "$ref" not in each and "anyOf" not in each]
        return self.random.choice(flat if depth <= 0 and flat else branches)

    def nothing(self, node: dict[str, Any]) -> Any:
        """Null if *node* allows it, or an empty list."""
        waiting, found = [node], set[str]()
        while waiting:
            each = waiting.pop()
            each = self.target(each["$ref"]) if "$ref" in each else each
            waiting += each.get("anyOf", [])
            found |= {str(each.get("type"))} | ({"null"} if None in each.get("enum", ()) else set())
        return None if "null" in found else []

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        found = {}
        for name, inner in node.get("properties", {}).items():
            optional = name not in node.get("required", [])
            if not optional or (depth > 0 and self.random.random() < 0.5):
                found[name] = self.value(inner, depth - 1)
            elif self.whole:
                found[name] = self.nothing(inner)
        more = node.get("additionalProperties")
        if isinstance(more, dict) and depth > 0:
            found["k1"] = self.value(more, depth - 1)
        return found

    def _array(self, node: dict[str, Any], depth: int) -> Any:
        if "prefixItems" in node:
            return [self.value(each, depth - 1) for each in node["prefixItems"]]
        least = node.get("minItems", 0)
        most = min(node.get("maxItems", least + 2), least + 2)
        count = least if depth <= 0 else self.random.randint(least, most)
        return [self.value(node.get("items"), depth - 1) for _ in range(count)]

    def _string(self, node: dict[str, Any], depth: int) -> Any:
        if "format" in node:
            return TEXTS.get(node["format"], "a")
        return self.random.choice(("abc", "z", "red"))

    def _integer(self, node: dict[str, Any], depth: int) -> Any:
        return self.random.randint(int(node.get("minimum", -5)), int(node.get("maximum", 50)))

    def _number(self, node: dict[str, Any], depth: int) -> Any:
        return self.random.choice((1, 2.5, 7.0))

    def _boolean(self, node: dict[str, Any], depth: int) -> Any:
        return self.random.random() < 0.5

    def _null(self, node: dict[str, Any], depth: int) -> Any:
        return None


def _without(node: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != name}


def spoilt(value: Any, random: Random) -> Any:
    """*value* with one change somewhere in it."""
    value = copy.deepcopy(value)
    holders = [{"": value}]
    found: list[tuple[Any, Any]] = []
    while holders:
        holder: Any = holders.pop()
        pairs = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, inner in pairs:
            found.append((holder, key))
            if isinstance(inner, dict | list):
                holders.append(inner)  # type: ignore[arg-type]
    outer = found[0][0]
    holder, key = random.choice(found)
    way = random.random()
    if way < 0.3 and isinstance(holder, dict) and key != "":
        del holder[key]
    elif way < 0.5 and isinstance(holder[key], dict):
        holder[key][random.choice(("more", "value", "kind"))] = random.choice(SCALARS)
    elif way < 0.6 and isinstance(holder[key], list):
        holder[key].append(random.choice(SCALARS))
    else:
        holder[key] = copy.deepcopy(random.choice(SCALARS))
    return outer[""]
