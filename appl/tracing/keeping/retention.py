"""Selects the runs that are old enough to be removed.

Invariant: a run that is running, is marked to be kept, was imported, or cannot be read is never
selected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from appl.tracing.keeping.row import RunRow


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits on kept runs; ``None`` sets no limit.

    No run older than ``age`` is kept, no more than ``runs``, no more bytes than ``size``.
    ``failed`` keeps runs that failed or crashed besides.
    """

    age: timedelta | None = None
    runs: int | None = None
    size: int | None = None
    failed: bool = False

    @property
    def limits(self) -> bool:
        """True if anything is limited."""
        return (self.age, self.runs, self.size) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Removal:
    """A run to be removed, and the reason in words."""

    row: RunRow
    reason: str


def is_safe(row: RunRow, retention: Retention) -> bool:
    """True if *row* stays whatever the limits are."""
    if row.imported or row.kept or row.state in ("running", "waiting", "unreadable"):
        return True
    return retention.failed and (row.failed > 0 or row.state in ("failed", "crashed"))


def removals(rows: Iterable[RunRow], retention: Retention, now: datetime) -> list[Removal]:
    """The runs of *rows* to remove, oldest first; runs that are safe count for the size alone."""
    every = sorted(rows, key=lambda row: (row.began, row.name), reverse=True)
    used = sum(row.size for row in every if is_safe(row, retention) and not row.imported)
    gone: list[Removal] = []
    number = 0
    for row in every:
        if is_safe(row, retention):
            continue
        reason = _reason(row, retention, now, number, used + row.size)
        if reason:
            gone.append(Removal(row, reason))
        else:
            number += 1
            used += row.size
    return gone[::-1]


def _reason(
    row: RunRow, retention: Retention, now: datetime, newer: int, together: int
) -> str | None:
    if retention.age is not None and _older(row, now, retention.age):
        return f"older than {_words(retention.age)}"
    if retention.runs is not None and newer >= retention.runs:
        return f"{newer} newer runs are kept"
    if retention.size is not None and together > retention.size:
        return f"with it, {together} bytes would be kept, more than {retention.size}"
    return None


def _older(row: RunRow, now: datetime, age: timedelta) -> bool:
    try:
        return datetime.fromisoformat(row.began) < now - age
    except (ValueError, TypeError, OverflowError):  # no time, one without a zone, or before year 1
        return False


def _words(age: timedelta) -> str:
    hours = age.total_seconds() / 3600
    return f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"
