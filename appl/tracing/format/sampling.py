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
        parameters_read = json.loads(sampling)
        codec.plain(parameters_read)  # measures how deep it is
    except (ValueError, RecursionError):
        return {UNREADABLE: sampling}
    return parameters_read if isinstance(parameters_read, dict) else {UNREADABLE: sampling}


def parameters(sampling: str) -> dict[str, Any]:
    """The parameters in the canonical text *sampling*; a text that is none as ``UNREADABLE``."""
    return dict(_read(sampling))


def max_tokens(sampling: str) -> int | None:
    """The limit on an answer's tokens, ``None`` where there is none."""
    limit = _read(sampling).get("max_tokens")
    return limit if isinstance(limit, int) and not isinstance(limit, bool) else None


def tier(sampling: str) -> str:
    """The way of service that was asked for and may have a price of its own; else ``""``."""
    extra = _read(sampling).get("extra")
    service_tier = extra.get("service_tier") if isinstance(extra, dict) else None
    return (
        service_tier
        if isinstance(service_tier, str) and service_tier not in ("auto", "default")
        else ""
    )


def strings(sampling: str, name: str) -> tuple[str, ...]:
    """The texts of the parameter *name*: the choices, the tools, or the schema as the only one."""
    value = _read(sampling).get(name)
    items = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(map(str, items))
