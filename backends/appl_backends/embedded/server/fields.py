"""Fields of a JSON object that a stranger sent, read by type.

Invariant: a value of the wrong type or out of range is refused with the field's name; ``null`` is
the same as a missing field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from appl.parts.web.refusals import Refusal

T = TypeVar("T")
_SHOWN = 80


def parsed(body: bytes) -> Fields:
    """The JSON object in *body*. Raises ``Refusal``."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not JSON: {str(error)[:_SHOWN]}") from None
    if not isinstance(data, dict):
        raise Refusal(f"the body must be a JSON object, got {_shown(data)}")
    return Fields(data)


class Fields:
    """An object's fields; *where* stands before a field's name in what is said about it."""

    def __init__(self, given: Mapping[str, Any], where: str = "") -> None:
        self._given, self._where = given, where

    def __contains__(self, name: str) -> bool:
        return self._given.get(name) is not None

    def has(self, name: str) -> bool:
        """True if the field is there, be it as ``null``."""
        return name in self._given

    def names(self) -> list[str]:
        """The names of the fields that are set."""
        return [name for name, value in self._given.items() if value is not None]

    def raw(self, name: str) -> Any:
        """The value as it came, ``None`` if there is none."""
        return self._given.get(name)

    def wrong(self, name: str, wanted: str) -> Refusal:
        """The refusal that names the field, what it must be, and what it is."""
        return Refusal(
            f"{self._where}{name} must be {wanted}, got {_shown(self._given.get(name))}",
            param=f"{self._where}{name}",
        )

    def text(self, name: str, default: str | None = None) -> str | None:
        """A string."""
        return self._of(name, default, "a string", lambda value: isinstance(value, str))

    def flag(self, name: str, default: bool = False) -> bool:
        """``true`` or ``false``."""
        return self._of(name, default, "true or false", lambda value: isinstance(value, bool))

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """An integer from *low* to *high*."""
        return self._of(
            name,
            default,
            f"an integer from {low} to {high}",
            lambda value: is_whole(value) and low <= value <= high,
        )

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A finite number from *low* to *high*."""
        return self._of(
            name,
            default,
            f"a number from {low:g} to {high:g}",
            lambda value: _is_number(value) and low <= value <= high,
        )

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """A string or a list of at most *most* strings."""
        value = self._given.get(name)
        found = [value] if isinstance(value, str) else (value or [])
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise self.wrong(name, "a string or a list of strings")
        if len(found) > most:
            raise self.wrong(name, f"at most {most} strings")
        return tuple(text for text in found if text)

    def tokens(self, name: str, size: int) -> tuple[int, ...]:
        """A list of token ids below *size*."""
        found: list[int] = self._of(
            name, [], f"a list of token ids below {size}", lambda value: are_tokens(value, size)
        )
        return tuple(found)

    def object(self, name: str) -> Fields | None:
        """A JSON object."""
        given = self._of(name, None, "an object", lambda value: isinstance(value, dict))
        return None if given is None else Fields(given, f"{self._where}{name}.")

    def objects(self, name: str) -> list[Fields]:
        """A list of JSON objects."""
        found: list[dict[str, Any]] = self._of(name, [], "a list of objects", _are_objects)
        return [
            Fields(entry, f"{self._where}{name}[{index}].") for index, entry in enumerate(found)
        ]

    def only(self, name: str, *neutral: Any) -> None:
        """Refuse *name* unless it is missing or changes nothing."""
        value = self._given.get(name)
        if value is not None and not any(value == known for known in neutral):
            told = f", only {neutral[0]!r}" if neutral else ""
            raise Refusal(
                f"{self._where}{name} is not supported by the embedded engine{told}", param=name
            )

    def _of(self, name: str, default: T, wanted: str, fits: Callable[[Any], bool]) -> T:
        value = self._given.get(name)
        if value is None:
            return default
        if not fits(value):
            raise self.wrong(name, wanted)
        found: T = value
        return found


def is_whole(value: object) -> bool:
    """True if *value* is an integer; ``true`` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def are_tokens(value: object, size: int) -> bool:
    """True if *value* is a list of token ids below *size*."""
    return isinstance(value, list) and all(is_whole(token) and 0 <= token < size for token in value)


def _is_number(value: object) -> bool:
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
