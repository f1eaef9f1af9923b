"""JSON schemas in the subset that Anthropic takes for structured outputs.

Invariant: a constraint that it does not take is told to the model in a description, and the program
checks the answer against the whole schema in any case.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from appl_backends.openai.strict_schema import CLAUDE, strict_schema

_TOLD = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maximum",
        "minLength",
        "minimum",
        "multipleOf",
    }
)
"""The constraints that are told in words."""


@lru_cache(maxsize=256)
def structured(schema: str) -> tuple[str, bool]:
    """The text of *schema* as it is sent, and whether an answer can be held to it."""
    written, fits = strict_schema(schema, CLAUDE)
    if not fits:
        return written, False
    return json.dumps(_told(json.loads(written)), ensure_ascii=False, separators=(",", ":")), True


def _told(node: Any) -> Any:
    """*node* with the constraints that are not taken as a part of its description."""
    if isinstance(node, list):
        return [_told(each) for each in node]
    if not isinstance(node, dict):
        return node
    found, told = dict[str, Any](), dict[str, Any]()
    for name, value in node.items():
        if name == "properties":
            found[name] = {key: _told(inner) for key, inner in value.items()}
        elif name in ("enum", "const", "required"):
            found[name] = value
        elif name == "prefixItems":
            found["items"] = {"anyOf": [_told(each) for each in value]}
            told["in this order"] = len(value)
        elif name in _TOLD or (name == "minItems" and value > 1):
            told[name] = value
        else:
            found[name] = _told(value)
    if told:
        words = ", ".join([f"{name}: {json.dumps(value)}" for name, value in told.items()])
        found["description"] = " ".join(filter(None, [found.get("description"), f"({words})"]))
    return found
