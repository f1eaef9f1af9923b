"""The file of a run while it is written: each block follows from the one before.

Invariant: the file is magic and good blocks up to ``BlockFile.good``, and at most one torn block
behind it; ``BlockFile.last`` is the block that ends there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import struct
import sys
import threading
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import zstandard

from appl.tracing.format import block_layout as layout, store
from appl.tracing.format.signing import SIGNATURE, Owner

if TYPE_CHECKING:
    from appl.tracing.format import block

Fault = Callable[[str], None]
_SMALL, _LARGE = 512, 1 << 16
"""Bytes of a block up to which it is not compressed, since that takes longer than to write it; and
from which it is worth more time."""


class Last(NamedTuple):
    """The number of blocks before a new one, and checksum and signature of the last of them.

    The new block names all three.
    """

    blocks: int = 0
    checksum: int = 0
    signature: bytes = layout.UNSIGNED


def block_after(
    last: Last, key: bytes | None, codec: int, payload: bytes, raw_length: int
) -> tuple[bytes, Last]:
    """The block that follows *last*, of a *payload* that is compressed already; signed with *key*.

    With it comes what the next one names.
    """
    head = layout.CHECKED.pack(
        last.blocks, last.checksum, codec if key is None else codec | layout.SIGNED, raw_length
    )
    signed = last.signature
    if key is not None:
        signed = signature(key, signed, head, payload)
        payload += signed
    crc = zlib.crc32(payload, zlib.crc32(head))
    stored = struct.pack("<II", len(payload), crc) + head + payload
    return stored, Last(last.blocks + 1, crc, signed)


def signature(key: bytes, before: bytes, head: bytes, payload: bytes) -> bytes:
    """The signature of a block after the one whose signature is *before*."""
    begun = _begun(key).copy()
    begun.update(before + head + payload)
    return begun.digest()[:SIGNATURE]


@lru_cache(maxsize=8)
def _begun(key: bytes) -> hmac.HMAC:
    """The HMAC of nothing yet: to find the digest and to take in the key is half of the work."""
    return hmac.new(key, digestmod="sha256")


def compressed(raw: bytes) -> tuple[int, bytes]:
    """The codec and the payload of a block that holds *raw*."""
    if len(raw) > _SMALL:
        tools = _compressors
        packed = (tools.quick if len(raw) < _LARGE else tools.thorough).compress(raw)
        if len(packed) < len(raw):
            return layout.ZSTD, packed
    return layout.PLAIN, raw


class _Compressors(threading.local):
    """One pair of compressors per thread: to make one takes longer than to compress a block."""

    def __init__(self) -> None:
        self.thorough = zstandard.ZstdCompressor(level=1)
        # Of a block that is written after milliseconds of other work: its tables fit into the
        # nearest cache, which takes a quarter less time than level 1 and a few percent more bytes.
        parameters = zstandard.ZstdCompressionParameters(
            window_log=16, chain_log=12, hash_log=12, search_log=1, min_match=6, strategy=1
        )
        self.quick = zstandard.ZstdCompressor(compression_params=parameters)


_compressors = _Compressors()


class Encoder:
    """Turns payloads into blocks that follow each other, for a file that is made at once.

    With *key*, blocks are signed.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.key, self.last = key, Last()

    def block(self, raw: bytes) -> bytes:
        """The next block, holding *raw*."""
        return self.packed(*compressed(raw), len(raw))

    def packed(self, codec: int, payload: bytes, raw_length: int) -> bytes:
        """The next block, of a *payload* that is compressed already."""
        stored, self.last = block_after(self.last, self.key, codec, payload, raw_length)
        return stored


class BlockFile:
    """The open and locked file of a trace, to which whole blocks are appended.

    ``folder`` is the whole path of the folder that holds it. *fault* is called with
    ``before-write``, ``inside-write``, ``after-write`` and ``before-sync`` where these happen, for
    tests that kill or fail the process there. Blocks are signed for *owner*, unless the trace has
    some already that are not.
    """

    def __init__(
        self, path: Path, *, append: bool, owner: Owner | None = None, fault: Fault | None = None
    ) -> None:
        self.path, self.fault = path, fault
        self.folder = os.path.dirname(str(path))
        if not path.is_absolute():  # the program may go to another one before the sync
            self.folder = os.path.join(os.getcwd(), self.folder)
        self._owner, self._first = owner, b""
        self._key = None if owner is None else owner.key
        self.good, self.torn, self.last = 0, 0, Last()
        self._fd = store.reopen(path) if append else store.create(path)
        if append:
            self._go_on()
        self._counts_links = os.fstat(self._fd).st_nlink > 0  # some file systems always say 0

    def _go_on(self) -> None:
        """Cut the torn tail of a file, and find the block that the next one follows."""
        from appl.tracing.format.trust import signatures  # of a file that is written on

        signed = layout.UNSIGNED
        try:
            scan = self._repair()
            if self._key is not None:  # later blocks are signed, too, if every one is so far
                with os.fdopen(os.dup(self._fd), "rb") as file:
                    for signature_read in signatures(file, self._key):
                        if signature_read is None:
                            self._key = None
                            break
                        self._first, signed = self._first or signature_read, signature_read
        except BaseException:
            os.close(self._fd)
            raise
        self.good, self.torn = scan.good, scan.torn
        self.last = Last(scan.blocks, scan.last, signed)

    def _repair(self) -> block.Scan:
        from appl.tracing.format.repair import repair

        return repair(self._fd)

    def note_end(self) -> None:
        """Note with the owner how the trace ended, after it was closed."""
        if self._owner is not None and self._key is not None and self._first:
            self._owner.note_end(self._first, self.last.signature)

    def sync_folder(self) -> None:
        """Have the disk note the name of the file."""
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # somebody has removed it, and the file with it
            return
        try:
            with contextlib.suppress(OSError):
                os.fsync(folder)
        finally:
            os.close(folder)

    def append(self, raw: bytes) -> None:
        """Write *raw* as a block: all of it, or an error and a file that ``cut`` can restore."""
        data, last = block_after(self.last, self._key, *compressed(raw), len(raw))
        if not self.good:
            data = layout.MAGIC + data
        if self.fault is not None:
            self.fault("before-write")
        self._write(data)
        # Only now: if the write fails, the next block still follows the one before, or a reader
        # would see a gap.
        self.good, self.last = self.good + len(data), last
        if not self._first:
            self._first = last.signature
        if self.fault is not None:
            self.fault("after-write")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        if self.fault is not None:
            view = view[os.write(self._fd, view[: len(view) // 2]) :]
            self.fault("inside-write")
        while view:  # a write may take only a part
            view = view[os.write(self._fd, view) :]

    def sync(self) -> None:
        """Have the disk keep what was written. Raises ``OSError``."""
        if self.fault is not None:
            self.fault("before-sync")
        if sys.platform == "darwin":
            fcntl.fcntl(self._fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(self._fd)

    def cut(self) -> None:
        """Take back what was written of the last block, if that failed. Raises ``OSError``."""
        os.ftruncate(self._fd, self.good)

    def loss(self) -> str | None:
        """The sentence that tells what somebody else did to the file, if it was removed or cut."""
        status = os.fstat(self._fd)
        if self._counts_links and not status.st_nlink:
            return "somebody removed the file while the run went on"
        if status.st_size < self.good:
            return f"somebody cut the file to {status.st_size} of its {self.good} bytes"
        return None

    def unlock(self) -> None:
        """Let others write the file, even while a forked child still holds it."""
        with contextlib.suppress(OSError):
            # Closing would not do: a forked child has the same open file, and with it the lock.
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> bool:
        """Let go of the file; False if that was done before."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        return fd >= 0
