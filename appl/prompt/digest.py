"""Content digests: BLAKE2b over length-prefixed fields.

Invariant: two different lists of fields never digest the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

_PIECE = 1 << 15
"""Characters of a long text that are encoded at once: what fits in memory that is warm already."""


def digest_of(*fields: str | bytes) -> bytes:
    """16 bytes of BLAKE2b over the length-prefixed *fields*, so that no two lists collide."""
    h = blake2b(digest_size=16)
    for field in fields:
        if isinstance(field, str) and len(field) > _PIECE:
            size = len(field) if field.isascii() else sum(map(len, _pieces(field)))
            h.update(size.to_bytes(8, "little"))
            for piece in _pieces(field):
                h.update(piece)
            continue
        data = field.encode("utf-8", "surrogatepass") if isinstance(field, str) else field
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.digest()


def _pieces(text: str) -> Iterator[bytes]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE].encode("utf-8", "surrogatepass")


def tagged(digest: bytes) -> str:
    """A digest in its written form, ``b2:`` and hex."""
    return "b2:" + digest.hex()
