"""What recorded sampling parameters say.

Invariant: any text is taken for what it is, also one that is no JSON, or nested so deeply that it
could not be written again: then ``UNREADABLE`` holds it.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from appl.tracing.format import codec

UNREADABLE = "unreadable"


@functools.lru_cache(maxsize=256)
def _read(sampling: str) -> dict[str, Any]:
    try:
        found = json.loads(sampling)
        codec.plain(found)  # measures how deep it is
    except (ValueError, RecursionError):
        return {UNREADABLE: sampling}
    return found if isinstance(found, dict) else {UNREADABLE: sampling}


def parameters(sampling: str) -> dict[str, Any]:
    """The parameters in the canonical text *sampling*; a text that is none as ``UNREADABLE``."""
    return dict(_read(sampling))


def longest(sampling: str) -> int | None:
    """How many tokens an answer may have, ``None`` where nobody limited it."""
    given = _read(sampling)
    choices, found = given.get("choices"), given.get("max_tokens")
    if isinstance(choices, list) and choices:
        return sum(8 + len(str(choice)) for choice in choices)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
