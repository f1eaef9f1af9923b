"""How commands of ``appl trace`` write source lines, times and money.

Invariant: text only; nothing is read but the working directory.
"""

from __future__ import annotations

from pathlib import Path

from appl.session import shown


def place(where: str) -> str:
    """A source line ``file:line``, its file from here when it lies below; an empty one stays so."""
    file, _, line = where.rpartition(":")
    return f"{shown(Path(file))}:{line}" if file else where


def seconds(microseconds: float | None) -> str:
    """A time for a human: in seconds, with more digits where it is short."""
    if microseconds is None:
        return "-"
    value = microseconds / 1e6
    return f"{value:.2f} s" if abs(value) >= 0.1 or not value else f"{value:.4f} s"
