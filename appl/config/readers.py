"""Readers of settings: each reads a value from a file, an environment variable or an argument.

Invariant: a reader returns a value that can be used, or raises ``ValueError`` that says what it
expects.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from appl.errors import nearest

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
_SHOWN = 200
_LONGEST_NAME = 255  # bytes of a file's name
_LENGTH = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?\s*[smhdw]")
_SIZE = re.compile(r"[0-9]{1,12}(\.[0-9]{1,3})?\s*[kmgt]?i?b?", re.IGNORECASE)


class Unshown(ValueError):
    """The value is wrong and may hold a key, so it is not shown."""


def shown(raw: object) -> str:
    """*raw* as a message shows it, cut to a readable length."""
    try:
        text = repr(raw)
    except (ValueError, RecursionError):  # a number of thousands of digits; a value in itself
        return f"a {type(raw).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


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


def texts(raw: object) -> tuple[str, ...]:
    """A text, or a list of texts; none is empty."""
    is_list = isinstance(raw, list | tuple)
    values = tuple(raw) if isinstance(raw, list | tuple) else (raw,)
    if not values or not all(isinstance(item, str) and item for item in values):
        raise ValueError("a text, or a list of texts that are not empty" if is_list else "a text")
    return values


def options(raw: object) -> dict[str, object]:
    """Names with values; a list among the values as a tuple."""
    if not isinstance(raw, Mapping) or not all(isinstance(name, str) for name in raw):
        raise ValueError("a table of names with values, as in {top_k = 40}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}


def number(
    raw: object, most: float = sys.float_info.max, meant: str = "a number of at least 0"
) -> float:
    """A number from 0 to *most*, which messages call what is *meant*."""
    try:
        value = float(raw) if isinstance(raw, int | float | str) else -1.0
    except (ValueError, OverflowError):
        value = -1.0
    if isinstance(raw, bool) or not 0 <= value <= most:
        raise ValueError(meant)
    return value


def fraction(raw: object) -> float:
    """A number from 0 to 1."""
    return number(raw, 1.0, "a number from 0 to 1")


def positive(raw: object) -> float:
    """A number above 0."""
    value = number(raw)
    if not value:
        raise ValueError("a number above 0")
    return value


def whole(raw: object, least: int = 0) -> int:
    """A whole number of at least *least*."""
    text = raw.strip() if isinstance(raw, str) else shown(raw)
    is_whole = not isinstance(raw, bool | float) and re.fullmatch(r"[0-9]{1,18}", text)
    if not is_whole or int(text) < least:
        raise ValueError(f"a whole number of at least {least}")
    return int(text)


def count(raw: object) -> int:
    """A whole number of at least 1."""
    return whole(raw, 1)


def switch(raw: object) -> bool:
    """A switch: true for on, false for off. Raises ``ValueError`` for anything else."""
    word = raw.strip().lower() if isinstance(raw, str) else shown(raw).lower()
    if word in _ON or word in _OFF:
        return word in _ON
    raise ValueError("on or off")


def length(raw: object) -> str:
    """A length of time, as it was written."""
    if not isinstance(raw, str) or not _LENGTH.fullmatch(raw.strip()):
        raise ValueError("a length of time, as in 12h, 30d or 8w")
    return raw.strip()


def switch_or_length(raw: object) -> bool | str:
    """On, off, or a length of time, as it was written."""
    try:
        return switch(raw)
    except ValueError:
        pass
    try:
        return length(raw)
    except ValueError:
        raise ValueError("on, off, or a length of time, as in 6h") from None


def size(raw: object) -> str:
    """A number of bytes, as it was written."""
    text = raw.strip() if isinstance(raw, str) else shown(raw)
    if isinstance(raw, bool | float) or not _SIZE.fullmatch(text):
        raise ValueError("a size, as in 500MB or 2GB")
    return text


def url(raw: object) -> str:
    """The address of a server, without a key in it."""
    try:
        parts = urlsplit(raw) if isinstance(raw, str) else None
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a URL, as in http://localhost:4318")
    if parts.username or parts.password or parts.query:
        raise Unshown("a URL without a key, which belongs into the environment")
    return str(raw)


def path(raw: object) -> Path:
    """A path; ``~`` is the home folder."""
    written = text(str(raw) if isinstance(raw, Path) else raw)
    try:
        expanded = Path(written).expanduser()
        longest = max(len(os.fsencode(part)) for part in expanded.parts)
    except (ValueError, RuntimeError):  # half of a surrogate pair; a user who is not known
        longest = _LONGEST_NAME + 1
    if longest > _LONGEST_NAME or "\0" in written:
        raise ValueError("a path of this system")
    return expanded


def one_of(*words: str) -> Callable[[object], str]:
    """Return a reader that accepts one of *words*."""

    def chosen(raw: object) -> str:
        if not isinstance(raw, str) or raw not in words:
            near = nearest(raw, words) if isinstance(raw, str) else ""
            raise ValueError(" or ".join(repr(word) for word in words) + near)
        return raw

    return chosen


@dataclass(frozen=True, slots=True)
class Key:
    """A setting: its name, the reader of its value, its default, and its meaning."""

    name: str
    read: Callable[[object], object]
    default: object
    help: str
