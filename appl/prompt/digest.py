"""Content digests: BLAKE2b over length-prefixed fields.

Invariant: two different lists of fields never digest the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct

_size = Struct("<Q").pack

_DIGEST_SIZE = _size(16)
_begun = blake2b(digest_size=16).copy
"""The digest of nothing yet: a copy of one takes a third of the time that a new one takes."""
_PIECE = 1 << 15
"""Characters of a long text that are encoded at once: what fits in memory that is warm already."""


def digest_of(*fields: str | bytes) -> bytes:
    """16 bytes of BLAKE2b over the length-prefixed *fields*, so that no two lists collide."""
    parts: list[bytes] = []
    for field in fields:
        if not isinstance(field, bytes):
            if len(field) > _PIECE:  # a long text is not put into memory once more
                h = _begun()
                for part in fields:
                    _add_pieces(h, part)
                return h.digest()
            field = field.encode("utf-8", "surrogatepass")
        parts += (_size(len(field)), field)
    h = _begun()
    h.update(b"".join(parts))
    return h.digest()


def digested(field: str) -> bytes:
    """The bytes by which a short *field* is digested."""
    data = field.encode("utf-8", "surrogatepass")
    return _size(len(data)) + data


def digest_after(before: bytes, head: bytes, text: str) -> bytes:
    """The value of ``digest_of(before, field, text)``, in two thirds of its time.

    *head* is ``digested(field)``.
    """
    h = _begun()
    if len(text) > _PIECE:
        h.update(_DIGEST_SIZE + before + head)
        _add_pieces(h, text)
    else:
        data = text.encode("utf-8", "surrogatepass")
        h.update(b"".join((_DIGEST_SIZE, before, head, _size(len(data)), data)))
    return h.digest()


def _add_pieces(h: blake2b, field: str | bytes) -> None:
    plain = isinstance(field, bytes) or field.isascii()
    h.update(_size(len(field) if plain else sum(map(len, _pieces(field)))))
    for piece in _pieces(field):
        h.update(piece)


def _pieces(field: str | bytes) -> Iterator[bytes]:
    if isinstance(field, bytes):
        yield field
        return
    for start in range(0, len(field), _PIECE):
        yield field[start : start + _PIECE].encode("utf-8", "surrogatepass")


def tagged(digest: bytes) -> str:
    """A digest in its written form, ``b2:`` and hex."""
    return "b2:" + digest.hex()
