"""What recorded sampling parameters say.

Invariant: any text is taken for what it is, also one that is no JSON.
"""

from __future__ import annotations

import functools
import json
from typing import Any


@functools.lru_cache(maxsize=256)
def _read(sampling: str) -> dict[str, Any]:
    try:
        found = json.loads(sampling)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parameters(sampling: str) -> dict[str, Any]:
    """The parameters in the canonical text *sampling*; empty for a text that is none."""
    return dict(_read(sampling))


def longest(sampling: str) -> int | None:
    """How many tokens an answer may have, ``None`` where nobody limited it."""
    given = _read(sampling)
    choices, found = given.get("choices"), given.get("max_tokens")
    if isinstance(choices, list) and choices:
        return sum(8 + len(str(choice)) for choice in choices)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
