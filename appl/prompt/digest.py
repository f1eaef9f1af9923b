"""Content digests: BLAKE2b over length-prefixed fields.

Invariant: two different lists of fields never digest the same bytes.
"""

from __future__ import annotations

import hashlib


def digest_of(*fields: str | bytes) -> bytes:
    """16 bytes of BLAKE2b over the length-prefixed *fields*, so that no two lists collide."""
    parts: list[bytes] = []
    for field in fields:
        data = field.encode("utf-8", "surrogatepass") if isinstance(field, str) else field
        parts += (len(data).to_bytes(8, "little"), data)
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def tagged(digest: bytes) -> str:
    """A digest in its written form, ``b2:`` and hex."""
    return "b2:" + digest.hex()
