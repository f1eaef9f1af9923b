"""The parts of a JSON schema, and its definitions at its root.

Invariant: a schema whose definitions were moved means the same; one of which that is not certain is
left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote


class NotInSubset(Exception):
    """The schema cannot be said in a subset of JSON Schema."""


_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains",
           "propertyNames", "unevaluatedProperties", "unevaluatedItems")  # fmt: skip
_SCOPES = frozenset({"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"})
_DATA = ("enum", "const", "default", "examples", "required", "type", "dependentRequired")
_DEFINITIONS = ("$defs", "definitions")
Pointer = tuple[str, ...]
"""The steps from the root of a schema to a part of it."""


def hoisted(root: Any) -> Any:
    """*root* with references to ``#`` and ``#/$defs/NAME`` alone; the same object, if it is so.

    Raises ``NotInSubset`` where references are not certain, or lead out of the schema.
    """
    found = list(schemas_in(root))
    if not isinstance(root, dict) or any(map(_is_strange, (node for _, node in found))):
        raise NotInSubset
    references = [pointer_of(node["$ref"]) for _, node in found if "$ref" in node]
    inner = any(at and node.keys() & set(_DEFINITIONS) for at, node in found)
    if not inner and "definitions" not in root and all(map(_is_plain, references)):
        return root
    return _RootDefinitions(root, references).schema()


def _is_strange(node: dict[str, Any]) -> bool:
    """True if references in *node* may be hidden, or mean something else than their text."""
    known = (*_MAPS, *_LISTS, *_SINGLE, *_DATA)
    hidden = (isinstance(node[word], dict | list) for word in node if word not in known)
    return bool(node.keys() & _SCOPES) or isinstance(node.get("items"), list) or any(hidden)


def schemas_in(node: Any, at: Pointer = ()) -> Iterator[tuple[Pointer, dict[str, Any]]]:
    """Every schema in *node*, which is at *at*, with its pointer."""
    if isinstance(node, dict):
        yield at, node
        for way, inner in children_of(node):
            yield from schemas_in(inner, (*at, *way))


def children_of(node: dict[str, Any]) -> Iterator[tuple[Pointer, Any]]:
    """The schemas directly in *node*, with the steps to each."""
    for word in _MAPS:
        if isinstance(node.get(word), dict):
            yield from (((word, name), each) for name, each in node[word].items())
    for word in _LISTS:
        if isinstance(node.get(word), list):
            yield from (((word, str(at)), each) for at, each in enumerate(node[word]))
    yield from (((word,), node[word]) for word in _SINGLE if word in node)


def pointer_of(reference: Any) -> Pointer:
    """The pointer that a ``$ref`` means. Raises ``NotInSubset`` if it leads out of the schema."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise NotInSubset
    steps = reference.split("/")[1:]
    return tuple(unquote(step).replace("~1", "/").replace("~0", "~") for step in steps)


_NAME = re.compile(r"[A-Za-z0-9_-]+")


def _is_plain(place: Pointer) -> bool:
    named = len(place) == 2 and place[0] == "$defs" and _NAME.fullmatch(place[1]) is not None
    return not place or named


class _RootDefinitions:
    def __init__(self, root: Any, references: Iterable[Pointer]) -> None:
        self._root = root
        self._names: dict[Pointer, str] = {}
        for place in sorted({each for each in references if each}, key=lambda at: (len(at), at)):
            self._names[place] = self._name(place)

    def _name(self, place: Pointer) -> str:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", place[-1]) or "_"
        while name in self._names.values():
            name += "_"
        return name

    def schema(self) -> dict[str, Any]:
        """The root, with all that is referred to in its ``$defs``."""
        defs = {name: self._body(self._at(at), at) for at, name in self._names.items()}
        return {**self._body(self._root, ()), **({"$defs": defs} if defs else {})}

    def _at(self, place: Pointer) -> Any:
        node = self._root
        for step in place:
            try:
                node = node[int(step)] if isinstance(node, list) else node[step]
            except (KeyError, IndexError, ValueError, TypeError):
                raise NotInSubset from None
        if not isinstance(node, dict):
            raise NotInSubset
        return node

    def _moved(self, node: Any, at: Pointer) -> Any:
        return {"$ref": f"#/$defs/{self._names[at]}"} if at in self._names else self._body(node, at)

    def _body(self, node: Any, at: Pointer) -> Any:
        if not isinstance(node, dict):
            return node
        found = {name: given for name, given in node.items() if name not in _DEFINITIONS}
        for way, inner in children_of(found):
            moved = self._moved(inner, (*at, *way))
            word, *rest = way
            if not rest:
                found[word] = moved
                continue
            if found[word] is node[word]:
                found[word] = node[word].copy()
            found[word][int(rest[0]) if word in _LISTS else rest[0]] = moved
        if "$ref" in found:
            place = pointer_of(found["$ref"])
            found["$ref"] = f"#/$defs/{self._names[place]}" if place else "#"
        return found
