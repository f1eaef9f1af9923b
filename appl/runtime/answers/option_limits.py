"""The limits of numbers among the options of ``gen``, and the check of them."""

from __future__ import annotations

from typing import NamedTuple

from appl.errors import InvalidOption


class OptionLimits(NamedTuple):
    """The numbers that an option takes."""

    low: float | None = None
    high: float | None = None
    whole: bool = False


def check_number(
    name: str, value: object, low: float | None, high: float | None = None, whole: bool = False
) -> None:
    """Refuse a *value* that is neither ``None`` nor a number within the limits."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        kind = "a whole number" if whole else "a number"
        raise InvalidOption(f"gen({name}=...) takes {kind}, got {value!r:.80}")
    if value != value or (low is not None and value < low) or (high is not None and value > high):
        limits = f"at least {low}" + (f" and at most {high}" if high is not None else "")
        raise InvalidOption(f"gen({name}=...) must be {limits}, got {value!r}")
