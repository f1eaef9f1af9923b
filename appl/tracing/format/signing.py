"""Signatures of a user's own runs. The key lies outside of every trace and every project.

Invariant: a signature covers its block and all blocks before it. A block that was changed, moved,
left out or put in does not fit its signature, and neither does any block after it.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

SIZE = 16
START = bytes(SIZE)
"""The signature before that of the first block."""


def signature(key: bytes, before: bytes, head: bytes, payload: bytes) -> bytes:
    """The signature of a block after the one whose signature is *before*."""
    begun = _begun(key).copy()
    begun.update(before + head + payload)
    return begun.digest()[:SIZE]


@lru_cache(maxsize=8)
def _begun(key: bytes) -> hmac.HMAC:
    """The HMAC of nothing yet: to find the digest and to take in the key is half of the work."""
    return hmac.new(key, digestmod="sha256")


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

    def ends_of(self, first: bytes) -> set[bytes]:
        """The last signatures of the run whose first signature is *first*."""
        try:
            data = self.ends.read_bytes()
        except OSError:
            return set()
        return set(_after(data, first))


def _after(data: bytes, first: bytes) -> Iterator[bytes]:
    """The bytes behind each *first*, at any offset: a torn entry shifts those after it."""
    at = data.find(first)
    while at >= 0:
        yield data[at + SIZE : at + 2 * SIZE]
        at = data.find(first, at + 2 * SIZE)
