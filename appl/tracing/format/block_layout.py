"""The format of blocks.

A block is ``u32 length · u32 crc32 · u32 sequence · u32 crc32 of the block before · u8 codec · u32
raw length · payload``. With the flag ``SIGNED`` in the codec, the payload ends with a signature of
16 bytes.
"""

from __future__ import annotations

import struct

from appl.tracing.format.signing import SIGNATURE

MAGIC = b"APPLTRC1"
HEAD = struct.Struct("<IIIIBI")
CHECKED = struct.Struct("<IIBI")
PLAIN, ZSTD = 0, 1
SIGNED = 0x80
UNSIGNED = bytes(SIGNATURE)
"""The signature before that of the first block."""


def unsigned(codec: int, payload: bytes) -> tuple[int, bytes]:
    """Codec and payload of a block without its signature."""
    return (codec & ~SIGNED, payload[:-SIGNATURE]) if codec & SIGNED else (codec, payload)
