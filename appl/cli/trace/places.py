"""The form of source lines, times and money in the commands of ``appl trace``.

Invariant: these functions make text and read nothing but the working directory.
"""

from __future__ import annotations

from pathlib import Path

from appl.session.session import shown


def place(where: str) -> str:
    """The source line *where*, relative to the working directory if it lies below it."""
    file, _, line = where.rpartition(":")
    return f"{shown(Path(file))}:{line}" if file else where


def known(count: int | None) -> str:
    """A number that a backend may not have reported."""
    return "?" if count is None else str(count)


def seconds(microseconds: float | None) -> str:
    """A time for a human in seconds, with more digits if it is short."""
    if microseconds is None:
        return "-"
    value = microseconds / 1e6
    return f"{value:.2f} s" if abs(value) >= 0.1 or not value else f"{value:.4f} s"
