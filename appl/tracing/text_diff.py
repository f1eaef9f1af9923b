"""The difference of two texts in a few lines for a terminal.

Invariant: the lines are cut and escaped, and the work is bounded, however long the texts are.
"""

from __future__ import annotations

import difflib

SHOWN, BEFORE = 160, 40
_LINES, _AT_ONCE = 8, 200


def visible(text: str) -> str:
    """*text* with every unprintable character written as an escape."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def common(a: str, b: str) -> int:
    """The length of the common beginning, by halving: the texts may be long."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


def text_diff(then: str, now: str) -> list[str]:
    """The first lines of the old (-) and the new text (+), from the first difference on."""
    start = then.rfind("\n", 0, common(then, now)) + 1
    old, new = then[start:].splitlines(), now[start:].splitlines()
    if len(old) > 1 or len(new) > 1:
        while old and new and old[-1] == new[-1]:
            old.pop()
            new.pop()
        diff = difflib.unified_diff(old[:_AT_ONCE], new[:_AT_ONCE], lineterm="", n=0)
        lines = [line for line in diff if not line.startswith(("---", "+++", "@@"))]
        if lines:
            return _first([f"  {line[0]} {_cut(line[1:])}" for line in lines])
    begin = max(common(then, now) - BEFORE, start, 0)
    return [f"  - {excerpt(then, begin)}", f"  + {excerpt(now, begin)}"]


def one_sided(sign: str, text: str) -> list[str]:
    """The beginning of a *text* that only one side has, each line after *sign*."""
    return _first([f"  {sign} {_cut(line)}" for line in text.splitlines() or [""]])


def _first(lines: list[str]) -> list[str]:
    """The first of *lines*, and the number of those that are left out."""
    more = [f"  … and {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
    return lines[:_LINES] + more


def _cut(line: str) -> str:
    return visible(line[:SHOWN]) + ("…" if len(line) > SHOWN else "")


def excerpt(text: str, start: int) -> str:
    """A line of *text* from *start* on, with dots where something is left out."""
    body = visible(text[start : start + SHOWN])
    return ("…" if start else "") + body + ("…" if len(text) > start + SHOWN else "")
