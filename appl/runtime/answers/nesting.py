"""A limit on the depth of answers whose type lets each level be read in several ways.

Invariant: pydantic never tries more than ``MOST`` ways of reading one object. It tries each member
of a union, and for each of them everything below, so that a type whose members hold the union again
takes a time that grows exponentially with the depth: twenty levels can take hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MOST = 10_000_000
"""The most ways of reading one object: some seconds."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}]', re.DOTALL)
_MANY = ("model", "dataclass", "typed-dict", "named-tuple")


def branching(core: Any) -> int:
    """The most members of one union by which objects can be read, and which hold that union again.

    *core* is a pydantic core schema. 1 for most types, and for unions with a discriminator.
    """
    definitions = {part["ref"]: part for part in _parts(core) if isinstance(part.get("ref"), str)}
    held = {ref: set(_references(part)) for ref, part in definitions.items()}
    while any(_grow(held, refs) for refs in held.values()):
        pass
    endless = {ref for ref, refs in held.items() if ref in refs}
    unions = [part for part in _parts(core) if part.get("type") == "union"]
    return max((sum(_is_many(part, definitions, endless) for part in _members(u)) for u in unions),
               default=1) or 1  # fmt: skip


def most_levels(branches: int) -> int:
    """The number of objects that may stand in one another, with *branches* at each; 0: any."""
    levels = 0
    while branches > 1 and branches ** (levels + 1) <= MOST:
        levels += 1
    return levels


def too_deep(source: str, levels: int, around: int = 0) -> str:
    """The words for a JSON text with more than *levels* objects in one another; "" for others.

    So many objects *around* them do not count.
    """
    depth = deepest = 0
    for token in _TOKEN.finditer(source):
        if token[0] == "{":
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] == "}":
            depth -= 1
    if deepest <= levels + around:
        return ""
    return (
        f"more than {levels} objects stand in one another, which is too deep for a union without a "
        "discriminator"
    )


def _grow(held: Mapping[str, set[str]], refs: set[str]) -> bool:
    """Add to *refs* what the definitions hold that they name; true if there is more now."""
    before = len(refs)
    refs.update(*(held.get(ref, ()) for ref in tuple(refs)))
    return len(refs) > before


def _parts(core: object) -> Iterator[Mapping[str, Any]]:
    """Every map in *core*."""
    todo = [core]
    while todo:
        item = todo.pop()
        if isinstance(item, Mapping):
            yield item
            todo += [value for name, value in item.items() if name != "metadata"]
        elif isinstance(item, list | tuple):
            todo += item


def _references(core: object) -> Iterator[str]:
    return (part["schema_ref"] for part in _parts(core) if part.get("type") == "definition-ref")


def _members(union: Mapping[str, Any]) -> Iterator[Any]:
    """The members of a *union*, those of unions in it too."""
    for choice in union["choices"]:
        member = choice[0] if isinstance(choice, tuple) else choice
        yield from _members(member) if member.get("type") == "union" else [member]


def _is_many(
    member: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]], endless: set[str]
) -> bool:
    """True if *member* is a class whose objects may hold objects of that class again."""
    ref = member.get("schema_ref") or member.get("ref")
    definition = definitions.get(ref, {}) if isinstance(ref, str) else {}
    while definition.get("type") not in _MANY and isinstance(definition.get("schema"), Mapping):
        definition = definition["schema"]
    return ref in endless and definition.get("type") in _MANY
