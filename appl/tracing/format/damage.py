"""What follows a bad block: the end of a file that a crash tore, or good blocks.

Invariant: a file counts as torn only if no good block can lie after the bad one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from appl.tracing.format.block_layout import HEAD
from appl.tracing.format.signing import SIGNATURE

if TYPE_CHECKING:
    from appl.tracing.format.block import Scan

_RESYNC_TRIES, _RESYNC_BYTES, _RESYNC_PIECE = 1 << 20, 1 << 28, 1 << 22
# where a block may begin: a length above 0, and sequence, codec and raw length in their ranges
_HEADLIKE = re.compile(
    rb"(?=(?!\x00\x00\x00)...[\x00-\x04].......[\x00-\x04]....[\x00\x01\x80\x81]...[\x00-\x04])",
    re.DOTALL,
)


def sequel(file: BinaryIO, state: Scan, size: int) -> str | None:
    """A description of the data after a bad block; ``None`` when it is the torn end of the file.

    A file is looked through in pieces. One that is too large to be looked through whole, or too
    full of what might be blocks, is damaged: to cut its end would lose what may be there.
    """
    remaining, end = _RESYNC_BYTES, min(size, state.good + _RESYNC_BYTES)
    for tries, at in enumerate(_candidates(file, state.good, end)):
        if tries > _RESYNC_TRIES or remaining < 0:
            return "what follows might be good blocks"
        file.seek(at)
        head = file.read(HEAD.size)
        length, crc, number, _, _, raw_length = HEAD.unpack(head)
        if (
            number < state.blocks
            or at + HEAD.size + length > size
            or raw_length + SIGNATURE < length
        ):
            continue
        remaining -= length
        if zlib.crc32(file.read(length), zlib.crc32(head[8:])) == crc:
            return f"good blocks follow at {at}"
    return None if end == size else f"{size - state.good} bytes are more than a torn end"


def _candidates(file: BinaryIO, start: int, end: int) -> Iterator[int]:
    """The offsets from *start* to *end* at which the head of a block may lie."""
    while end - start >= HEAD.size:
        file.seek(start)
        piece = file.read(min(_RESYNC_PIECE, end - start))
        last = len(piece) - HEAD.size
        if last < 0:  # the file has become shorter
            return
        if piece.count(0) < len(piece):  # no head is all zeros, and looking for one takes longer
            for match in _HEADLIKE.finditer(piece):
                if match.start() <= last:
                    yield start + match.start()
        start += last + 1
