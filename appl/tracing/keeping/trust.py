"""Which traces are one's own: those that were recorded, or were declared so, in one's own folder.

Invariant: a trace from anywhere else is read and compared, and nothing is started because of it.
"""

from __future__ import annotations

from pathlib import Path

from appl.tracing.recording.recorder import home as usual_home

IMPORTED = "imported"


def imported(home: Path | None = None) -> Path:
    """Where traces of others are kept: beside the folder ``runs``."""
    return (home or usual_home()) / IMPORTED


def is_trusted(path: Path, home: Path | None = None) -> bool:
    """Whether the trace at *path* is a regular file right in the folder of one's own runs.

    One that was imported, or lies anywhere else, may be anybody's.
    """
    runs = ((home or usual_home()) / "runs").resolve()
    return not path.is_symlink() and path.resolve().parent == runs
