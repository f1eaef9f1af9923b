"""Removes the runs that the retention settings do not keep.

Invariant: a run that another process holds stays; a run's key is removed with it.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from appl.errors import TraceError
from appl.tracing.keeping import index, keep_marks, run_filter, side_files
from appl.tracing.keeping.retention import Removal, Retention, removals


class Settings(Protocol):
    """The settings of retention: texts as the user wrote them."""

    @property
    def home(self) -> Path: ...
    @property
    def keep_age(self) -> str | None: ...
    @property
    def keep_runs(self) -> int | None: ...
    @property
    def keep_size(self) -> str | None: ...
    @property
    def keep_failed(self) -> bool: ...


def retention_of(config: Settings) -> Retention:
    """The limits that the settings name."""
    age, size = config.keep_age, config.keep_size
    return Retention(
        None if age is None else run_filter.length(age),
        config.keep_runs,
        None if size is None else run_filter.size(size),
        config.keep_failed,
    )


def take_away(removal: Removal) -> bool:
    """Remove one run, unless it was marked meanwhile. Raises ``TraceError``."""
    path = removal.row.path
    if keep_marks.is_kept(path):
        return False
    side_files.remove(path, path.parent.parent)
    return True


def tidy(config: Settings) -> int:
    """Remove the runs that the settings do not keep; returns their number.

    It is called at the end of a run and never raises ``TraceError``: a run that cannot be removed
    now is tried again at the end of another.
    """
    retention, gone = retention_of(config), 0
    if not retention.limits:
        return 0
    for removal in removals(index.rows(config.home), retention, datetime.now(UTC)):
        with suppress(TraceError, OSError):
            gone += take_away(removal)
    return gone
