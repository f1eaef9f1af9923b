"""Moments in seconds since 1970, as records and settings hold them."""

from __future__ import annotations

_LAST = 253_402_300_799  # the last second of the year 9999, after which there are no dates


def moment_of(value: object) -> float | None:
    """*value* as a moment; ``None`` if it is no number, or names no date."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _LAST else None
