"""Removes runs: the trace and its mark.

Invariant: a trace that another process writes, or reads for a resume, is not removed; nothing else
than a trace is removed; a link is not followed.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from appl.errors import NotATrace, TraceLocked
from appl.tracing.format import block
from appl.tracing.keeping.keep_marks import SUFFIX


def remove(path: Path) -> None:
    """Remove the trace at *path*. Raises ``NotATrace``, ``TraceLocked``."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NotATrace(f"cannot remove {path}: {error.strerror}") from error
    try:
        # The check locks the open file, and the lock is held to the end: no run can begin to write
        # or resume it between check and removal. The mark goes last, so that a crash between the
        # two leaves a mark without a trace, never a trace without its mark.
        _check(fd, path)
        path.unlink()
        path.with_suffix(SUFFIX).unlink(missing_ok=True)
    finally:
        os.close(fd)


def _check(fd: int, path: Path) -> None:
    """Lock the file for its removal. Raises ``NotATrace``, ``TraceLocked``."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise NotATrace(f"{path} is not a regular file")
    start = os.pread(fd, len(block.MAGIC), 0)
    ours = start[:-1] == block.MAGIC[:-1] or (path.suffix == ".trace" and not start)
    # A damaged file is known by the name and the folder of a run.
    looks_ours = path.suffix == ".trace" and path.parent.name in ("runs", "imported")
    if not ours and not looks_ours:
        raise NotATrace(f"{path} is not a trace; remove it with other means")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TraceLocked(f"{path} is being written or read; nothing was removed") from None
