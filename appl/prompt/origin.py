"""Origins of a prompt's text: runs of characters, each with the place that it comes from.

Invariant: origins stand beside a text and are never part of it: no digest, value or order depends
on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from types import CodeType
from typing import Any

Site = tuple[CodeType, int]
"""A statement that said something: its code, and the offset of the instruction."""

Origin = Site | tuple[str, int] | str | None
"""A statement, a source line as file and number, the address of the call that said it, or unknown.
"""

Spans = tuple[Any, ...]
"""Length, origin, length, origin, …: of a text from its beginning on."""

NOWHERE: Spans = ()
"""The spans of a text of which nothing is known."""


def line_of(origin: Origin) -> tuple[str, int] | None:
    """The source line of an *origin*, ``None`` for one that is no statement."""
    if not isinstance(origin, tuple):
        return None
    code, at = origin
    if isinstance(code, str):
        return code, at
    line = next(islice(code.co_positions(), at // 2, None), (None,))[0]
    return code.co_filename, line or code.co_firstlineno


def trail(before: int, at: int, spans: Spans) -> int:
    """A hash of *spans* at *at*, continued from *before*: equal where the origins are equal."""
    if len(spans) == 2:
        origin = spans[1]
        return hash((before, at, origin if type(origin) is not tuple else origin[1]))
    if not spans:
        return before
    # The place of a statement in its code tells it apart; to look into the code is slow.
    return hash((before, at, *(part[1] if type(part) is tuple else part for part in spans)))


def joined(parts: Iterable[tuple[int, Spans]]) -> Spans:
    """The spans of texts that follow each other, given their lengths and own spans."""
    result: list[Any] = []
    for length, spans in parts:
        result += spans or ((length, None) if length else ())
    return tuple(result)
