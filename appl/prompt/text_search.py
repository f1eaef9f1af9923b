"""Patterns that are compiled at their first use, and spans of a text that something else replaces.

Invariant: pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

Instead = Callable[[str], str]
"""A function from the name of what was found to the text in its place."""
Span = tuple[int, int, str]
"""The start and the end of what was found, and its name."""


@cache
def regex(pattern: str) -> re.Pattern[str]:
    """The compiled *pattern*, whose classes of characters are those of ASCII.

    Few texts hold what a pattern is for, and to compile all of them takes ten milliseconds.
    """
    return re.compile(pattern, re.A)


def places(text: str, part: str) -> Iterator[int]:
    """The places of *part* in *text*."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def replaced(text: str, spans: Iterable[Span], instead: Instead) -> str:
    """*text* with other text in place of *spans*; of two that overlap, the first one counts."""
    done, parts = 0, list[str]()
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= done:
            parts += [text[done:start], instead(name)]
            done = end
    return "".join([*parts, text[done:]]) if parts else text
