"""The JSON of servers and other strangers, read within bounds of time and memory.

Invariant: a text that is no JSON, too deep or too large is a ``ValueError``, whatever it holds.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

ANSWER_BYTES = 16 << 20
"""The largest number of bytes of one answer, and of one event of a stream."""

PARTS = 1_000_000
"""The largest number of brackets and commas of one JSON text, which determine its memory."""

LEVELS = 100
"""The deepest nesting of a server's JSON."""


def read_json(body: bytes | str) -> Any:
    """The JSON value in *body*. Raises ``ValueError`` if it is none, too deep or too large.

    A whole number of more digits than Python reads is infinite, as ``1e999`` is: an answer is not
    lost because its count of tokens makes no sense.
    """
    marks: Any = "[{," if isinstance(body, str) else (b"[", b"{", b",")
    levels = body.count(marks[0]) + body.count(marks[1])
    if len(body) > ANSWER_BYTES or (len(body) > PARTS and levels + body.count(marks[2]) > PARTS):
        raise ValueError(f"JSON of more than {ANSWER_BYTES >> 20} MiB or {PARTS} parts")
    plain = False
    try:
        # To find out how bytes are encoded takes as long as to read a short answer.
        if not isinstance(body, str) and body[:1] in _OPENING and body[1:2] != b"\0":
            body = body.decode("utf-8", "surrogatepass")
        if isinstance(body, str) and body[:1] in ("{", "["):
            value, end = _decoder.raw_decode(body)
            plain = end == len(body)
        if not plain:  # spaces follow, or what is no JSON
            value = json.loads(body)
    except (ValueError, RecursionError) as error:
        # Python's limit on the digits of a number is no JSONDecodeError.
        value = _NOTHING
        if type(error) is ValueError:
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(body, parse_int=_whole)
    if value is _NOTHING:  # raised here, as the errors above would keep the text
        raise ValueError("no JSON, or JSON that is nested too deeply")
    if levels > LEVELS and is_deep(value):
        raise ValueError(f"JSON that is nested more than {LEVELS} levels deep")
    return value


def _whole(digits: str) -> float:
    """The number of so many *digits*, perhaps more than Python reads."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


_NOTHING: Any = object()
_OPENING = (b"{", b"[")
_decoder = json.JSONDecoder()


def is_deep(value: Any) -> bool:
    """True if the JSON *value* has more than ``LEVELS`` levels; works without recursion."""
    level = [value]
    for _ in range(LEVELS):
        inner = [value.values() if isinstance(value, dict) else value for value in level]
        level = [value for many in inner for value in many if isinstance(value, dict | list)]
        if not level:
            return False
    return True
