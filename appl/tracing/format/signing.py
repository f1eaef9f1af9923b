"""The owner of runs, whose key signs them. It lies outside of every trace and every project."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

SIGNATURE = 16
"""Bytes of a signature."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The key of a user, and the file that lists how the user's runs ended.

    A run that crashed ends anywhere. One that ended in order is listed there with the signatures
    of its first and its last block, so that it is known when somebody cuts it.
    """

    secret: bytes = field(repr=False)
    ends: Path

    @property
    def key(self) -> bytes:
        """The key for signatures of traces."""
        return blake2b(self.secret, digest_size=32, person=b"appl-trace").digest()

    def note_end(self, first: bytes, last: bytes) -> None:
        """List the end of a run. Without the list a cut run is taken for one that crashed."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            fd = os.open(self.ends, flags, 0o600)
            try:
                os.write(fd, first + last)
            finally:
                os.close(fd)
