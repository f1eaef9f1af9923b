"""The words by which calls on the user's own threads and tasks are told apart."""

from __future__ import annotations

from types import CodeType
from typing import Any

OWN_CODE: set[CodeType] = set()
"""Code of coroutines that have an address already."""

_PLAIN = (str, bytes, int, float, bool, type(None))


def is_plain(value: Any, depth: int = 50) -> bool:
    """True if *value*, of at most *depth* levels, has the same ``repr`` in every process."""
    if type(value) in (list, tuple, dict):
        parts = [*value, *value.values()] if type(value) is dict else value
        return depth > 0 and all(is_plain(part, depth - 1) for part in parts)
    return type(value) in _PLAIN


def call_in_words(name: str, args: tuple[object, ...]) -> str:
    """The function *name* with its plain arguments, by which calls in threads are told apart."""
    return f"{name} {tuple(filter(is_plain, args))!r:.400}"
