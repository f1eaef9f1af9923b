"""Traces that are not one's own: of a stranger, without a signature, or changed after recording.

All of them are well-formed: checksums, numbers and references to the block before are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from appl.tracing import Owner
from appl.tracing.format import block, block_file, codec

Stored = tuple[int, bytes, int]
"""Codec, payload and raw length of a block."""

THEIR_KEY = bytes(range(32))


def stored(path: Path) -> list[Stored]:
    """The blocks of the trace at *path*."""
    with path.open("rb") as file:
        return [(kind, payload, raw) for _, kind, raw, payload in block.blocks(file)]


def written(blocks: Iterable[Stored]) -> bytes:
    """A file of *blocks* as they are, with the signatures that they have."""
    encoder = block_file.Encoder()
    return block.MAGIC + b"".join(encoder.packed(*each) for each in blocks)


def _again(blocks: Iterable[Stored], key: bytes | None) -> bytes:
    encoder = block_file.Encoder(key=key)
    packed = [(*block.unsigned(kind, payload), raw) for kind, payload, raw in blocks]
    return block.MAGIC + b"".join(encoder.packed(*each) for each in packed)


def unsigned(path: Path) -> bytes:
    """The same run as an older version of appl wrote it, or a program of somebody else."""
    return _again(stored(path), None)


def strangers(path: Path) -> bytes:
    """The same run, recorded by another user."""
    return _again(stored(path), THEIR_KEY)


def make_strangers(path: Path, to: Path | None = None) -> Path:
    """Put the run at *path* as another user's at *to*, or in its own place."""
    target = to or path
    data = strangers(path)
    target.write_bytes(data)
    target.chmod(0o600)
    return target


def flipped(path: Path) -> Iterator[bytes]:
    """A bit of each byte of each block changed, its signature and its codec too."""
    blocks = stored(path)
    for at, (kind, payload, raw) in enumerate(blocks):
        for byte in range(len(payload)):
            changed = bytearray(payload)
            changed[byte] ^= 1 << byte % 8
            yield written([*blocks[:at], (kind, bytes(changed), raw), *blocks[at + 1 :]])
        yield written([*blocks[:at], (kind ^ block.SIGNED, payload, raw), *blocks[at + 1 :]])
        yield written([*blocks[:at], (kind, payload, raw + 1), *blocks[at + 1 :]])


def reordered(path: Path) -> Iterator[bytes]:
    """Two neighbouring blocks swapped."""
    blocks = stored(path)
    for at in range(len(blocks) - 1):
        yield written([*blocks[:at], blocks[at + 1], blocks[at], *blocks[at + 2 :]])


def dropped(path: Path) -> Iterator[bytes]:
    """A block left out, or written twice."""
    blocks = stored(path)
    for at in range(len(blocks)):
        if len(blocks) > 1:
            yield written([*blocks[:at], *blocks[at + 1 :]])
        yield written([*blocks[: at + 1], *blocks[at:]])


def spliced(path: Path, other: Path) -> Iterator[bytes]:
    """A block, or the end, of another run of the same user."""
    blocks, others = stored(path), stored(other)
    for at in range(1, min(len(blocks), len(others))):
        yield written([*blocks[:at], others[at], *blocks[at + 1 :]])
        yield written([*blocks[:at], *others[at:]])


def replaced(path: Path, change: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """The records of a block replaced by what *change* makes of them."""
    blocks = stored(path)
    for at, (kind, payload, raw_length) in enumerate(blocks):
        raw = block.decompress(kind, payload, raw_length)
        changed = change(raw)
        if changed != raw:
            forged = (block.SIGNED, changed + payload[-16:], len(changed))
            yield written([*blocks[:at], forged, *blocks[at + 1 :]])
            yield written([*blocks[:at], (0, changed, len(changed)), *blocks[at + 1 :]])


def cut(path: Path) -> Iterator[bytes]:
    """The end cut off, after each block and within it."""
    data, blocks = path.read_bytes(), stored(path)
    for count in range(1, len(blocks)):
        whole = len(written(blocks[:count]))
        yield data[:whole]
        yield data[: whole + 1]
        yield data[: whole + (len(written(blocks[: count + 1])) - whole) // 2]


def regrouped(path: Path, owner: Owner) -> bytes:
    """The same run of the same user, each record in a block of its own."""
    encoder, first = block_file.Encoder(key=owner.key), b""
    data = [block.MAGIC]
    for kind, payload, raw_length in stored(path):
        for fields in codec.unpack(block.decompress(kind, payload, raw_length)):
            data.append(encoder.block(codec.pack(fields)))
            first = first or encoder.last.signature
    owner.note_end(first, encoder.last.signature)
    return b"".join(data)
