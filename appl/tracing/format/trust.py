"""Tells the user's own traces from others: all blocks are signed with the user's key.

Invariant: a trace's place says nothing. A trace of somebody else is read and compared, and nothing
is started or asked because of it.
"""

from __future__ import annotations

import contextlib
import hmac
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from appl.tracing.format import block, block_file, store
from appl.tracing.format.signing import SIGNATURE, Owner
from appl.tracing.format.store import regular_file


def doubt(path: Path, owner: Owner | None) -> str | None:
    """The reason why the trace at *path* is not a run of *owner*; ``None`` when it is one.

    Raises ``NotATrace``.
    """
    if path.is_symlink():
        return "it is a link to another file"
    signatures = _signatures(path, owner)
    if not signatures:
        return "it is not signed"
    first, last = signatures[0], signatures[-1]
    if owner is None or first is None or last is None:
        return "it is not signed with your key, or it was changed"
    ends = set[bytes]()
    with contextlib.suppress(OSError):
        data = owner.ends.read_bytes()
        at = data.find(first)
        while at >= 0:  # at any offset: a torn entry shifts those after it
            ends.add(data[at + SIGNATURE : at + 2 * SIGNATURE])
            at = data.find(first, at + 2 * SIGNATURE)
    if ends and ends.isdisjoint(signatures):
        return "its end was cut off"
    return None


def end_here(path: Path, owner: Owner | None) -> None:
    """Note where the run at *path* ends, a part of one of *owner*'s runs, so that it is trusted."""
    signatures = _signatures(path, owner)
    if owner is not None and signatures and signatures[0] and signatures[-1]:
        owner.note_end(signatures[0], signatures[-1])


def _signatures(path: Path, owner: Owner | None) -> list[bytes | None]:
    """The signatures of the blocks of *path*, up to ``None`` for a wrong one; empty if unsigned."""
    with regular_file(path) as file:
        if file.read(1) == b"{":  # a tape
            return []
        first = next(block.blocks(file), None)
        if first is None or not first[1] & block.SIGNED:
            return []
        return [None] if owner is None else list(signatures(file, owner.key))


def signatures(file: BinaryIO, key: bytes) -> Iterator[bytes | None]:
    """The signature of each good block of *file*; ``None``, and no more, at one that *key* did not
    sign."""
    number = previous = 0
    before = block.UNSIGNED
    for crc, codec, raw_length, payload in block.blocks(file):
        checked = block.CHECKED.pack(number, previous, codec, raw_length)
        computed = block_file.signature(key, before, checked, block.unsigned(codec, payload)[1])
        if not codec & block.SIGNED or not hmac.compare_digest(computed, payload[-SIGNATURE:]):
            yield None
            return
        number, previous, before = number + 1, crc, computed
        yield computed


def signed_copy(source: Path, target: Path, owner: Owner) -> None:
    """Copy the good prefix of *source* into the new trace *target*, signed for *owner*."""
    encoder, first = block_file.Encoder(owner.key), b""
    with store.regular_file(source) as file, os.fdopen(store.create(target), "wb") as copy:
        copy.write(block.MAGIC)
        for _, codec, raw_length, payload in block.blocks(file):
            copy.write(encoder.packed(*block.unsigned(codec, payload), raw_length))
            first = first or encoder.last.signature
        copy.flush()
        os.fsync(copy.fileno())
    if first:
        owner.note_end(first, encoder.last.signature)
