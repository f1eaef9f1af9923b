"""The repair of a trace whose end a crash tore, and copies of what is good in one.

Invariant: what is cut off or left out is no good block.
"""

from __future__ import annotations

import os
from pathlib import Path

from appl.tracing.format import block
from appl.tracing.format.store import create, regular_file

_PIECE = 1 << 20


def repair(fd: int) -> block.Scan:
    """Cut the torn tail of the trace *fd*; the scan says how much. Raises ``TraceCorrupt``."""
    scan = block.Scan()
    with os.fdopen(os.dup(fd), "rb") as file:
        for _ in block.scan(file, scan):
            pass
    # Under the lock, which the caller holds: a torn tail may else be a block that another process
    # is writing right now.
    if scan.torn:
        os.ftruncate(fd, scan.good)
        os.fsync(fd)
    return scan


def salvage(source: Path, target: Path) -> block.Scan:
    """Copy the good prefix of *source* into the new trace *target*."""
    scan = block.Scan()
    with regular_file(source) as file:
        for _ in block.scan(file, scan, salvage=True):
            pass
        fd = create(target)
        with os.fdopen(fd, "wb") as copy:
            file.seek(0)
            remaining = scan.good
            while remaining > 0 and (piece := file.read(min(remaining, _PIECE))):
                copy.write(piece)
                remaining -= len(piece)
            copy.flush()
            os.fsync(copy.fileno())
    return scan
