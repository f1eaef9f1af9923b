"""The file as blocks: ``u32 length · u32 crc32 · u32 sequence · u32 crc32 of the block before · u8
codec · u32 raw length · payload``. With the flag ``SIGNED`` in the codec, the payload ends with a
signature of 16 bytes.

Invariant: what ``scan`` yields is a prefix without holes of what was written, checked by checksum
and sequence number; blocks of another trace do not pass, since each names the one before it. A
signature covers its block and all blocks before it: a block that was changed, moved, left out or
put in does not fit its signature, and neither does any block after it.
Nothing is decompressed whose size was not checked before.
"""

from __future__ import annotations

import hmac
import re
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import BinaryIO

import zstandard

from appl.errors import NotATrace, TraceCorrupt, TraceTooNew
from appl.tracing.format.allowance import DecodingAllowance, of_file
from appl.tracing.format.codec import MAX_RAW
from appl.tracing.format.signing import SIGNATURE

MAGIC = b"APPLTRC1"
HEAD = struct.Struct("<IIIIBI")
_CHECKED = struct.Struct("<IIBI")
_SMALL, _LARGE = 512, 1 << 16
"""Bytes of a block up to which it is not compressed, since that takes longer than to write it; and
from which it is worth more time."""
_PLAIN, _ZSTD = 0, 1
SIGNED = 0x80
UNSIGNED = bytes(SIGNATURE)
"""The signature before that of the first block."""
_LONGEST = MAX_RAW + SIGNATURE
_RESYNC_TRIES, _RESYNC_BYTES, _RESYNC_PIECE = 1 << 20, 1 << 28, 1 << 22
# where a block may begin: a length above 0, and sequence, codec and raw length in their ranges
_HEADLIKE = re.compile(
    rb"(?=(?!\x00\x00\x00)...[\x00-\x04].......[\x00-\x04]....[\x00\x01\x80\x81]...[\x00-\x04])",
    re.DOTALL,
)


def signature(key: bytes, before: bytes, head: bytes, payload: bytes) -> bytes:
    """The signature of a block after the one whose signature is *before*."""
    begun = _begun(key).copy()
    begun.update(before + head + payload)
    return begun.digest()[:SIGNATURE]


@lru_cache(maxsize=8)
def _begun(key: bytes) -> hmac.HMAC:
    """The HMAC of nothing yet: to find the digest and to take in the key is half of the work."""
    return hmac.new(key, digestmod="sha256")


class Encoder:
    """Turns payloads into blocks, each with its number and what it follows; one at a time.

    With *key*, blocks are signed; *before* is the signature of the block before.
    """

    def __init__(
        self,
        sequence: int = 0,
        previous: int = 0,
        *,
        key: bytes | None = None,
        before: bytes = UNSIGNED,
    ) -> None:
        self.sequence, self.previous = sequence, previous
        self.key, self.before = key, before

    def block(self, raw: bytes) -> bytes:
        """The next block, holding *raw*."""
        codec, payload = _PLAIN, raw
        if len(raw) > _SMALL:
            tools = _compressors
            packed = (tools.quick if len(raw) < _LARGE else tools.thorough).compress(raw)
            if len(packed) < len(raw):
                codec, payload = _ZSTD, packed
        return self.packed(codec, payload, len(raw))

    def packed(self, codec: int, payload: bytes, raw_length: int) -> bytes:
        """The next block, of a *payload* that is compressed already."""
        if self.key is not None:
            codec |= SIGNED
        checked = _CHECKED.pack(self.sequence, self.previous, codec, raw_length)
        if self.key is not None:
            self.before = signature(self.key, self.before, checked, payload)
            payload += self.before
        crc = zlib.crc32(payload, zlib.crc32(checked))
        self.sequence, self.previous = self.sequence + 1, crc
        return struct.pack("<II", len(payload), crc) + checked + payload


def _quick() -> zstandard.ZstdCompressionParameters:
    """Those of a block that is written after milliseconds of other work: its tables fit into the
    nearest cache, which takes a quarter less time than level 1 and a few percent more bytes."""
    return zstandard.ZstdCompressionParameters(
        window_log=16, chain_log=12, hash_log=12, search_log=1, min_match=6, strategy=1
    )


class _Compressors(threading.local):
    """One pair of compressors per thread: to make one takes longer than to compress a block."""

    def __init__(self) -> None:
        self.thorough = zstandard.ZstdCompressor(level=1)
        self.quick = zstandard.ZstdCompressor(compression_params=_quick())


_compressors = _Compressors()


def decompress(codec: int, payload: bytes, raw_length: int) -> bytes:
    """The raw bytes of a block, at most *raw_length*, which is capped. Raises ``ValueError``."""
    if raw_length > MAX_RAW:
        raise ValueError(f"a block claims {raw_length} bytes, more than {MAX_RAW}")
    codec, payload = unsigned(codec, payload)
    if codec == _PLAIN:
        raw = payload
    elif codec == _ZSTD:
        raw = _zstd(payload, raw_length)
    else:
        raise ValueError(f"unknown block codec {codec}")
    if len(raw) != raw_length:
        raise ValueError(f"a block holds {len(raw)} bytes instead of {raw_length}")
    return raw


def unsigned(codec: int, payload: bytes) -> tuple[int, bytes]:
    """Codec and payload of a block without its signature."""
    return (codec & ~SIGNED, payload[:-SIGNATURE]) if codec & SIGNED else (codec, payload)


def _zstd(payload: bytes, raw_length: int) -> bytes:
    try:
        frame = zstandard.get_frame_parameters(payload)
        if frame.content_size != raw_length or frame.window_size > MAX_RAW:
            raise ValueError(f"a block claims {raw_length} bytes, its frame {frame.content_size}")
        tool = zstandard.ZstdDecompressor(max_window_size=MAX_RAW)
        return tool.decompress(payload, max_output_size=raw_length, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(f"a block cannot be decompressed: {error}") from None


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


def scan(file: BinaryIO, found: Scan, *, salvage: bool = False, limit: int = 0) -> Iterator[bytes]:
    """The raw payloads of *file*, in order; *found* tells at the end what there was.

    A bad block that reaches the end is a torn tail, counted in ``found.torn``. One that is followed
    by good blocks raises ``TraceCorrupt``, or ends the scan when *salvage* is set. *limit* is the
    number of bytes of memory that the whole may take (0: in proportion to the file).
    With the *found* of an earlier scan, what was written since then is read.
    """
    size = file.seek(0, 2)
    file.seek(0)
    found.torn = 0
    if not found.good and not _magic(file, size, found):
        return
    found.allowance.most = limit or of_file(size)
    while found.good < size:
        block = _read(file, found, size)
        if block is None:
            _classify(file, found, size, salvage)
            return
        crc, _, raw_length, payload = block
        found.allowance.check(raw_length)
        raw = _raw(block, found.blocks)
        found.allowance.spend_text(raw)
        found.good += HEAD.size + len(payload)
        found.blocks += 1
        found.last = crc
        yield raw


def _magic(file: BinaryIO, size: int, found: Scan) -> bool:
    start = file.read(len(MAGIC))
    if start == MAGIC:
        found.good = len(MAGIC)
        return True
    if MAGIC.startswith(start):
        found.torn = size
        return False
    if start[:-1] == MAGIC[:-1] and start[-1:].isdigit():
        raise TraceTooNew(
            f"the file has trace format {start[-1:].decode()}; this version of appl reads format 1"
        )
    raise NotATrace("the file is not a trace: it does not begin with " + MAGIC.decode())


Block = tuple[int, int, int, bytes]
"""Checksum, codec, raw length and payload."""


def _read(file: BinaryIO, found: Scan, size: int) -> Block | None:
    """The block at ``found.good``, ``None`` when there is no good one."""
    file.seek(found.good)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    length, crc, number, previous, codec, raw_length = HEAD.unpack(head)
    left = size - found.good - HEAD.size
    if (number, previous) != (found.blocks, found.last) or length > min(left, _LONGEST):
        return None
    payload = file.read(length)
    if zlib.crc32(payload, zlib.crc32(head[8:])) != crc:
        return None
    return crc, codec, raw_length, payload


def blocks(file: BinaryIO) -> Iterator[Block]:
    """The good blocks of *file* as they are stored, up to the first bad one."""
    size = file.seek(0, 2)
    file.seek(0)
    found = Scan()
    if not _magic(file, size, found):
        return
    while (block := _read(file, found, size)) is not None:
        found.good += HEAD.size + len(block[3])
        found.blocks += 1
        found.last = block[0]
        yield block


def signatures(file: BinaryIO, key: bytes) -> Iterator[bytes | None]:
    """The signature of each good block of *file*; ``None``, and no more, at one that *key* did not
    sign."""
    number = previous = 0
    before = UNSIGNED
    for crc, codec, raw_length, payload in blocks(file):
        checked = _CHECKED.pack(number, previous, codec, raw_length)
        found = signature(key, before, checked, unsigned(codec, payload)[1])
        if not codec & SIGNED or not hmac.compare_digest(found, payload[-SIGNATURE:]):
            yield None
            return
        number, previous, before = number + 1, crc, found
        yield found


def ends(file: BinaryIO) -> tuple[bytes, bytes] | None:
    """The payloads of the first and the last block, ``None`` when the file does not end with a good
    block; reads only the heads of those between."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        return None
    found, last = Scan(good=len(MAGIC)), Scan()
    while found.good < size:
        file.seek(found.good)
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        length, crc, number, previous, _, _ = HEAD.unpack(head)
        if (number, previous) != (found.blocks, found.last):
            return None
        last = Scan(found.good, found.blocks, found.last)
        found.last = crc
        found.good += HEAD.size + length
        found.blocks += 1
    if found.good != size or not found.blocks:
        return None
    return payload(file, Scan(len(MAGIC)), size), payload(file, last, size)


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


def _classify(file: BinaryIO, found: Scan, size: int, salvage: bool) -> None:
    found.torn = size - found.good
    after = _resync(file, found, size)
    if after is None:
        return
    found.damaged = (
        f"block {found.blocks} at byte {found.good} is damaged, and {after}; "
        "what comes before it can be copied out with --salvage"
    )
    if not salvage:
        raise TraceCorrupt(found.damaged)


def _resync(file: BinaryIO, found: Scan, size: int) -> str | None:
    """A description of the data after the bad block; ``None`` when it is the torn end of the file.

    A file is looked through in pieces. One that is too large to be looked through whole, or too
    full of what might be blocks, is damaged: to cut its end would lose what may be there.
    """
    left, end = _RESYNC_BYTES, min(size, found.good + _RESYNC_BYTES)
    for tries, at in enumerate(_candidates(file, found.good, end)):
        if tries > _RESYNC_TRIES or left < 0:
            return "what follows might be good blocks"
        file.seek(at)
        head = file.read(HEAD.size)
        length, crc, number, _, _, raw_length = HEAD.unpack(head)
        if (
            number < found.blocks
            or at + HEAD.size + length > size
            or raw_length + SIGNATURE < length
        ):
            continue
        left -= length
        if zlib.crc32(file.read(length), zlib.crc32(head[8:])) == crc:
            return f"good blocks follow at {at}"
    return None if end == size else f"{size - found.good} bytes are more than a torn end"


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
