"""Reading the blocks of a trace, whose format ``block_layout`` has.

Invariant: what ``scan`` yields is a prefix without holes of what was written, checked by checksum
and sequence number; blocks of another trace do not pass, since each names the one before it. A
signature covers its block and all blocks before it: a block that was changed, moved, left out or
put in does not fit its signature, and neither does any block after it.
Nothing is decompressed whose size was not checked before.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import zstandard

from appl.errors import NotATrace, TraceCorrupt, TraceTooNew
from appl.tracing.format.allowance import DecodingAllowance, of_file
from appl.tracing.format.block_layout import (
    CHECKED as CHECKED,
    HEAD as HEAD,
    MAGIC as MAGIC,
    PLAIN as PLAIN,
    SIGNED as SIGNED,
    UNSIGNED as UNSIGNED,
    ZSTD as ZSTD,
    unsigned as unsigned,
)
from appl.tracing.format.codec import MAX_RAW
from appl.tracing.format.signing import SIGNATURE

_LONGEST = MAX_RAW + SIGNATURE


def decompress(codec: int, payload: bytes, raw_length: int) -> bytes:
    """The raw bytes of a block, at most *raw_length*, which is capped. Raises ``ValueError``."""
    if raw_length > MAX_RAW:
        raise ValueError(f"a block claims {raw_length} bytes, more than {MAX_RAW}")
    codec, payload = unsigned(codec, payload)
    if codec == PLAIN:
        raw = payload
    elif codec == ZSTD:
        try:
            frame = zstandard.get_frame_parameters(payload)
            if frame.content_size != raw_length or frame.window_size > MAX_RAW:
                raise ValueError(
                    f"a block claims {raw_length} bytes, its frame {frame.content_size}"
                )
            tool = zstandard.ZstdDecompressor(max_window_size=MAX_RAW)
            raw = tool.decompress(payload, max_output_size=raw_length, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise ValueError(f"a block cannot be decompressed: {error}") from None
    else:
        raise ValueError(f"unknown block codec {codec}")
    if len(raw) != raw_length:
        raise ValueError(f"a block holds {len(raw)} bytes instead of {raw_length}")
    return raw


@dataclass(slots=True)
class Scan:
    """The position of a scan: the number of good blocks, the offset after them, the bytes cut off.

    ``last`` is the checksum of the last good one, ``allowance`` the memory that all may take.
    """

    good: int = 0
    blocks: int = 0
    last: int = 0
    torn: int = 0
    damaged: str = ""
    allowance: DecodingAllowance = field(default_factory=lambda: DecodingAllowance(0))


def scan(file: BinaryIO, state: Scan, *, salvage: bool = False, limit: int = 0) -> Iterator[bytes]:
    """The raw payloads of *file*, in order; *state* tells at the end what there was.

    A bad block that reaches the end is a torn tail, counted in ``state.torn``. One that is followed
    by good blocks raises ``TraceCorrupt``, or ends the scan when *salvage* is set. *limit* is the
    number of bytes of memory that the whole may take (0: in proportion to the file).
    With the *state* of an earlier scan, what was written since then is read.
    """
    size = file.seek(0, 2)
    file.seek(0)
    state.torn = 0
    if not state.good and not _magic(file, size, state):
        return
    state.allowance.most = limit or of_file(size)
    while state.good < size:
        block = _read(file, state, size)
        if block is None:
            state.torn = size - state.good
            from appl.tracing.format.damage import sequel  # few traces end in a bad block

            after = sequel(file, state, size)
            if after is not None:
                state.damaged = (
                    f"block {state.blocks} at byte {state.good} is damaged, and {after}; "
                    "what comes before it can be copied out with --salvage"
                )
                if not salvage:
                    raise TraceCorrupt(state.damaged)
            return
        crc, _, raw_length, payload = block
        state.allowance.check(raw_length)
        raw = _raw(block, state.blocks)
        state.allowance.spend_text(raw)
        state.good += HEAD.size + len(payload)
        state.blocks += 1
        state.last = crc
        yield raw


def _magic(file: BinaryIO, size: int, state: Scan) -> bool:
    start = file.read(len(MAGIC))
    if start == MAGIC:
        state.good = len(MAGIC)
        return True
    if MAGIC.startswith(start):
        state.torn = size
        return False
    if start[:-1] == MAGIC[:-1] and start[-1:].isdigit():
        raise TraceTooNew(
            f"the file has trace format {start[-1:].decode()}; this version of appl reads format 1"
        )
    raise NotATrace("the file is not a trace: it does not begin with " + MAGIC.decode())


Block = tuple[int, int, int, bytes]
"""Checksum, codec, raw length and payload."""


def _read(file: BinaryIO, state: Scan, size: int) -> Block | None:
    """The block at ``state.good``, ``None`` when there is no good one."""
    file.seek(state.good)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    length, crc, number, previous, codec, raw_length = HEAD.unpack(head)
    remaining = size - state.good - HEAD.size
    if (number, previous) != (state.blocks, state.last) or length > min(remaining, _LONGEST):
        return None
    payload = file.read(length)
    if zlib.crc32(payload, zlib.crc32(head[8:])) != crc:
        return None
    return crc, codec, raw_length, payload


def blocks(file: BinaryIO) -> Iterator[Block]:
    """The good blocks of *file* as they are stored, up to the first bad one."""
    size = file.seek(0, 2)
    file.seek(0)
    state = Scan()
    if not _magic(file, size, state):
        return
    while (block := _read(file, state, size)) is not None:
        state.good += HEAD.size + len(block[3])
        state.blocks += 1
        state.last = block[0]
        yield block


def payload(file: BinaryIO, at: Scan, size: int) -> bytes:
    """The raw payload of the block that *at* has come to, in a file of *size* bytes.

    Raises ``TraceCorrupt``.
    """
    block = _read(file, at, size)
    if block is None:
        raise TraceCorrupt(f"block {at.blocks} is damaged")
    return _raw(block, at.blocks)


def _raw(block: Block, number: int) -> bytes:
    _, codec, raw_length, payload = block
    try:
        return decompress(codec, payload, raw_length)
    except ValueError as error:
        raise TraceCorrupt(f"block {number}: {error}") from None
