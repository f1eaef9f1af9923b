"""Selects and orders runs.

Invariant: a run of which something is not known is not selected by a bound on it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from appl.tracing.keeping.row import RunRow

STATES = (
    "finished",
    "failed",
    "cancelled",
    "interrupted",
    "waiting",
    "running",
    "crashed",
    "unreadable",
)
ORDERS: dict[str, Callable[[RunRow], object]] = {
    "began": lambda row: row.began,
    "cost": lambda row: -1 if row.cost is None else row.cost,
    "calls": lambda row: row.calls,
    "tokens": lambda row: row.tokens,
    "seconds": lambda row: row.seconds,
    "size": lambda row: row.size,
    "name": lambda row: row.name,
}
"""The keys by which runs can be sorted."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LENGTH = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhdw])")
_SIZES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions on runs; a field that is not given sets none.

    ``program`` may hold ``*``. ``model`` is a part of a model's name. ``failed`` asks for runs that
    failed or crashed, or in which a call, an item of a map or a tool failed, or an answer was
    refused. ``cost`` is in millionths. ``words`` must all be in the names of run, program and
    models.
    """

    program: str | None = None
    states: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None
    failed: bool = False
    cost: int | None = None
    calls: int | None = None
    words: tuple[str, ...] = ()

    def has(self, row: RunRow) -> bool:
        """True if *row* meets all conditions."""
        return all(
            (
                self.program is None or fnmatch.fnmatchcase(row.program, self.program),
                not self.states or row.state in self.states,
                self._in_time(row),
                self.model is None or any(self.model in name for name in row.models),
                not self.failed or _has_failed(row),
                self.cost is None or (row.cost is not None and row.cost >= self.cost),
                self.calls is None or row.calls >= self.calls,
                self._named(row),
            )
        )

    def _in_time(self, row: RunRow) -> bool:
        if self.since is None and self.until is None:
            return True
        try:
            began = datetime.fromisoformat(row.began)
            since, until = self.since, self.until
            return (since is None or began >= since) and (until is None or began < until)
        except (ValueError, TypeError):  # no time, or one without a zone
            return False

    def _named(self, row: RunRow) -> bool:
        names = " ".join((row.name, row.program, *row.models)).casefold()
        return all(word.casefold() in names for word in self.words)


def _has_failed(row: RunRow) -> bool:
    parts = row.failed > 0 or any(row.failures.as_data().values())
    return parts or row.state in ("failed", "crashed")


def found(
    rows: Iterable[RunRow], wanted: RunFilter, order: str = "began", rising: bool = False
) -> list[RunRow]:
    """The *rows* that are *wanted*, by *order*: largest and newest first unless *rising*."""
    chosen = [row for row in rows if wanted.has(row)]
    return sorted(chosen, key=lambda row: (ORDERS[order](row), row.name), reverse=not rising)


def moment(text: str, now: datetime) -> datetime:
    """The time that *text* means: a length before *now* (``2h``, ``3d``), or a date.

    A date may have a time behind it. It is in UTC unless it names a zone. Raises ``ValueError``.
    """
    try:
        if _LENGTH.fullmatch(text.strip()):
            return now - length(text)
        time = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise ValueError("a length of time (30m, 2h, 3d, 1w) or a date (2026-01-31)") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def length(text: str) -> timedelta:
    """A length of time, as ``30m``, ``12h``, ``3d`` or ``2w``. Raises ``ValueError``."""
    match = _LENGTH.fullmatch(text.strip())
    try:
        if match is not None:
            return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
    except OverflowError:  # of millions of years
        pass
    raise ValueError("a length of time, as in 12h, 30d or 8w")


def size(text: str) -> int:
    """A number of bytes, as ``500MB`` or ``2GiB``. Raises ``ValueError``."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(match[1]) > 15:
        raise ValueError("a size, as in 500MB or 2GB")
    unit = match[2].lower()
    factor = 1024 ** "kmgt".index(unit) * 1024 if match[3] and unit else _SIZES[unit]
    return int(float(match[1]) * factor)
