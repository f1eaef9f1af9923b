"""Removes runs: the trace, its mark and its key; overwritten first if that is requested.

Invariant: a trace that another process writes, or reads for a resume, is not removed; nothing else
than a trace is removed; a link is not followed.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from appl.errors import NotATrace, TraceLocked
from appl.tracing.format import block
from appl.tracing.format.overwriting import overwrite_file
from appl.tracing.keeping.keep_marks import SUFFIX

_COPYING = {
    "btrfs": "copies what is overwritten",
    "zfs": "copies what is overwritten",
    "bcachefs": "copies what is overwritten",
    "overlay": "may keep a copy in a layer below",
    "apfs": "copies what is overwritten",
    "nfs": "leaves it to a server",
    "nfs4": "leaves it to a server",
    "tmpfs": "may have swapped it out",
}
PROMISES = (
    "a solid-state disk may keep the old cells until it needs them",
    "snapshots, backups and copies of the file are not touched",
)
"""Limits of overwriting on every file system."""


def remove(path: Path) -> None:
    """Remove the trace at *path*. Raises ``NotATrace``, ``TraceLocked``."""
    _take(path, lambda fd: None)


def shred(path: Path, first: Callable[[], None]) -> list[str]:
    """Overwrite the trace at *path* and remove it; returns what overwriting cannot promise.

    *first* is called as soon as the trace may be removed, before a byte of it is written. Raises
    ``NotATrace``, ``TraceLocked``.
    """

    def overwrite(fd: int) -> None:
        first()
        overwrite_file(fd)

    told = [*_copies(path), *PROMISES]
    _take(path, overwrite)
    return told


def _take(path: Path, prepare: Callable[[int], None]) -> None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NotATrace(f"cannot remove {path}: {error.strerror}") from error
    try:
        # The check locks the open file, and the lock is held to the end: no run can begin to write
        # or resume it between check and removal. The mark goes last, so that a crash between the
        # two leaves a mark without a trace, never a trace without its mark.
        _check(fd, path)
        prepare(fd)
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
    if not ours and not _looks_ours(path):
        raise NotATrace(f"{path} is not a trace; remove it with other means")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TraceLocked(f"{path} is being written or read; nothing was removed") from None


def _looks_ours(path: Path) -> bool:
    """True if the name and folder are those of a run, though the file is damaged."""
    return path.suffix == ".trace" and path.parent.name in ("runs", "imported")


def _copies(path: Path) -> list[str]:
    kind = filesystem(path)
    said = _COPYING.get(kind)
    return [f"the file system ({kind}) {said}"] if said else []


def filesystem(path: Path) -> str:
    """The kind of file system that *path* lies on, ``unknown`` where nobody says."""
    best, kind = "", "unknown"
    where = str(path.resolve())
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines():
            _, point, sort, *_ = line.split(" ")
            below = where == point or where.startswith(point.rstrip("/") + "/")
            if below and len(point) >= len(best):
                best, kind = point, sort
    return kind
