"""Overwriting files with random bytes before they are removed.

Invariant: the bytes are on the disk before the file is cut off; a link is not followed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

_PIECE = 1 << 20


def overwrite_file(fd: int) -> None:
    """Overwrite the whole open file *fd*, and empty it."""
    size = os.fstat(fd).st_size
    os.lseek(fd, 0, os.SEEK_SET)
    left = size
    while left > 0:
        left -= os.write(fd, secrets.token_bytes(min(left, _PIECE)))
    os.fsync(fd)  # random bytes on the disk first: truncating may give the old blocks back
    os.ftruncate(fd, 0)
    os.fsync(fd)


def shred_file(path: Path) -> None:
    """Overwrite and remove a small file such as a key; does nothing if it is missing."""
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            overwrite_file(fd)
        finally:
            os.close(fd)
        path.unlink(missing_ok=True)
