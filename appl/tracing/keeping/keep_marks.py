"""Marks on runs that are to be kept: an empty file beside the trace.

Invariant: a mark says nothing by itself; without its trace it is nobody's, and is removed with it.
"""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".keep"


def is_kept(path: Path) -> bool:
    """True if the trace at *path* is marked."""
    return path.with_suffix(SUFFIX).exists()


def keep(path: Path, wanted: bool = True) -> None:
    """Mark the trace at *path*, or take the mark away."""
    mark = path.with_suffix(SUFFIX)
    if wanted:
        mark.touch(mode=0o600)
    else:
        mark.unlink(missing_ok=True)
