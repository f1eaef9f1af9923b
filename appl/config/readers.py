"""Readers of settings: each reads a value from a file, an environment variable or an argument.

Invariant: a reader returns a value that can be used, or raises ``ValueError`` that says what it
expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from appl.errors import nearest

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
_LENGTH = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?\s*[smhdw]")
_SIZE = re.compile(r"[0-9]{1,12}(\.[0-9]{1,3})?\s*[kmgt]?i?b?", re.IGNORECASE)


class Unshown(ValueError):
    """The value is wrong and may hold a key, so it is not shown."""


def text(raw: object) -> str:
    """A text that is not empty."""
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("a text that is not empty")
    return raw


def switch_or_name(raw: object) -> bool | str:
    """On, off, or a name."""
    try:
        return switch(raw)
    except ValueError:
        return text(raw)


def number(raw: object) -> float:
    """A number of at least 0."""
    try:
        value = float(raw) if isinstance(raw, int | float | str) else -1.0
    except ValueError:
        value = -1.0
    if isinstance(raw, bool) or not 0 <= value < float("inf"):
        raise ValueError("a number of at least 0")
    return value


def positive(raw: object) -> float:
    """A number above 0."""
    value = number(raw)
    if not value:
        raise ValueError("a number above 0")
    return value


def whole(raw: object) -> int:
    """A whole number of at least 0."""
    shown = raw.strip() if isinstance(raw, str) else str(raw)
    if isinstance(raw, bool | float) or not re.fullmatch(r"[0-9]{1,18}", shown):
        raise ValueError("a whole number of at least 0")
    return int(shown)


def count(raw: object) -> int:
    """A whole number of at least 1."""
    try:
        value = whole(raw)
    except ValueError:
        value = 0
    if not value:
        raise ValueError("a whole number of at least 1")
    return value


def switch(raw: object) -> bool:
    """A switch: true for on, false for off. Raises ``ValueError`` for anything else."""
    word = str(raw).strip().lower()
    if word in _ON or word in _OFF:
        return word in _ON
    raise ValueError("on or off")


def length(raw: object) -> str:
    """A length of time, as it was written."""
    if not isinstance(raw, str) or not _LENGTH.fullmatch(raw.strip()):
        raise ValueError("a length of time, as in 12h, 30d or 8w")
    return raw.strip()


def size(raw: object) -> str:
    """A number of bytes, as it was written."""
    shown = raw.strip() if isinstance(raw, str) else str(raw)
    if isinstance(raw, bool | float) or not _SIZE.fullmatch(shown):
        raise ValueError("a size, as in 500MB or 2GB")
    return shown


def url(raw: object) -> str:
    """The address of a server, without a key in it."""
    parts = urlsplit(raw) if isinstance(raw, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a URL, as in http://localhost:4318")
    if parts.username or parts.password or parts.query:
        raise Unshown("a URL without a key, which belongs into the environment")
    return str(raw)


def path(raw: object) -> Path:
    """A path; ``~`` is the home folder."""
    return Path(text(str(raw) if isinstance(raw, Path) else raw)).expanduser()


def one_of(*words: str) -> Callable[[object], str]:
    """Return a reader that accepts one of *words*."""

    def chosen(raw: object) -> str:
        if raw not in words:
            raise ValueError(" or ".join(repr(word) for word in words) + nearest(str(raw), words))
        return str(raw)

    return chosen


@dataclass(frozen=True, slots=True)
class Key:
    """A setting: its name, the reader of its value, its default, and its meaning."""

    name: str
    read: Callable[[object], object]
    default: object
    help: str
