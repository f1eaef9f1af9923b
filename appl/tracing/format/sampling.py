"""Reads recorded sampling parameters.

Invariant: any text is accepted, also one that is no JSON, or nested so deeply that it could not be
written again: ``UNREADABLE`` then holds it.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from appl.tracing.format import codec

UNREADABLE = "unreadable"


@functools.lru_cache(maxsize=256)
def _read(sampling: str) -> dict[str, object]:
    try:
        found = json.loads(sampling)
        codec.plain(found)  # measures how deep it is
    except (ValueError, RecursionError):
        return {UNREADABLE: sampling}
    return found if isinstance(found, dict) else {UNREADABLE: sampling}


def parameters(sampling: str) -> dict[str, Any]:
    """The parameters in the canonical text *sampling*; a text that is none as ``UNREADABLE``."""
    return dict(_read(sampling))


def max_tokens(sampling: str) -> int | None:
    """The limit on an answer's tokens, ``None`` where there is none."""
    found = _read(sampling).get("max_tokens")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def tier(sampling: str) -> str:
    """The way of service that was asked for and may have a price of its own; else ``""``."""
    extra = _read(sampling).get("extra")
    found = extra.get("service_tier") if isinstance(extra, dict) else None
    return found if isinstance(found, str) and found not in ("auto", "default") else ""


def strings(sampling: str, name: str) -> tuple[str, ...]:
    """The texts of the parameter *name*: the choices, the tools, or the schema as the only one."""
    found = _read(sampling).get(name)
    each = found if isinstance(found, list) else [] if found is None else [found]
    return tuple(map(str, each))


def withheld(sampling: str) -> bool:
    """True if a parameter is left out, as in a private trace."""
    return "redacted" in _read(sampling)
