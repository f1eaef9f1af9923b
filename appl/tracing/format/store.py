"""The file of a run: opening, an exclusive lock, repair, copies, reading and appending blocks.

Invariant: the file is magic and good blocks up to ``BlockFile.good``, and at most one torn block
behind it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from appl.errors import NotATrace, TraceError, TraceLocked, TraceWriteError
from appl.tracing.format import block, codec, table
from appl.tracing.format.allowance import DecodingAllowance
from appl.tracing.format.signing import Owner

Fault = Callable[[str], None]
State = Literal["running", "finished", "crashed"]

_PIECE = 1 << 20
_LOCK_TRIES, _LOCK_PAUSE = 20, 0.005
_GITIGNORE = """\
# Made by appl: recorded prompts and answers stay out of git. Edit this file to commit them.
*
"""
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def make_folder(path: Path) -> None:
    """Make *path* and its missing parents, readable by nobody else.

    A folder ``.appl`` that is made here keeps itself out of git. One that exists is left alone.
    """
    missing = [path, *path.parents]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            if folder.name == ".appl":
                with contextlib.suppress(OSError):
                    (folder / ".gitignore").write_text(_GITIGNORE, "utf-8")


def _refused(path: Path, error: OSError) -> TraceWriteError:
    reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
    return TraceWriteError(
        f"cannot record to {path}: {reason}; APPL_HOME moves the folder of traces, and "
        "APPL_TRACE=off or --no-trace runs without one"
    )


class _File(io.BufferedReader):
    """A file whose errors of reading are ours: a disk may fail in the middle."""

    def read(self, size: int | None = -1, /) -> bytes:
        with _told():
            return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        with _told():
            return super().seek(offset, whence)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotATrace(f"a trace cannot be read any further: {error.strerror}") from error


def regular_file(path: Path) -> BinaryIO:
    """*path* opened for reading; never waits for a pipe. Raises ``NotATrace``, when read too."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NotATrace(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotATrace(f"{path} is not a regular file")
    return _File(io.FileIO(fd, "rb"))


def is_tape(file: BinaryIO) -> bool:
    """True if *file* holds a tape, which is text, and no trace."""
    file.seek(0)
    return file.read(1) == b"{"


def create(path: Path) -> int:
    """A descriptor of a new, locked trace file of mode 0600. Raises ``TraceWriteError``."""
    # ``O_EXCL`` and ``O_NOFOLLOW``: a link that somebody put there does not lead the record to
    # another file.
    flags = _FLAGS | os.O_CREAT | os.O_EXCL
    try:
        try:
            fd = os.open(path, flags, 0o600)
        except FileNotFoundError:
            make_folder(path.parent)
            fd = os.open(path, flags, 0o600)
    except OSError as error:
        raise _refused(path, error) from error
    return _locked(fd, path)


def reopen(path: Path) -> int:
    """A locked descriptor of an existing trace. Raises ``TraceLocked``, ``TraceWriteError``."""
    try:
        regular_file(path).close()  # a pipe would be waited for
        return _locked(os.open(path, _FLAGS), path)
    except OSError as error:
        raise _refused(path, error) from error


def _locked(fd: int, path: Path) -> int:
    """*fd*, when the lock can be had; a reader holds it for moments, so it is tried some times."""
    for left in reversed(range(_LOCK_TRIES)):
        try:
            # The lock belongs to the open file. It ends with the process, also after ``kill -9``,
            # so no lock is ever left behind.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if not left:
                os.close(fd)
                raise TraceLocked(f"{path} is being written by {_owner(path)}") from None
            time.sleep(_LOCK_PAUSE)
        except OSError:
            os.close(fd)
            raise
    raise AssertionError("the loop returns or raises")


def _owner(path: Path) -> str:
    """The process that writes *path*, from the latest record of a process in the file."""
    pid, host = 0, ""
    with contextlib.suppress(TraceError, ValueError, TypeError, OSError), path.open("rb") as file:
        for raw in block.scan(file, block.Scan()):
            for process in table.chosen(codec.unpack(raw), table.ProcessRecord):
                pid, host = process.pid, process.host
    return f"process {pid} on {host}" if pid else "another process"


def locked(file: BinaryIO) -> bool:
    """True if a process writes the trace that *file* reads."""
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(file.fileno(), fcntl.LOCK_UN)
    return False


class TraceScan:
    """The one scan over the blocks of *file* for every reader of its records.

    Each good block is given once and in its order, and what the end of the file says about the run
    is judged here alone. A later scan goes on where the last one stopped.

    With *salvage* a damaged trace ends before the damage. *limit* is the memory in bytes that the
    records may take, 0 for one in proportion to the file.
    """

    def __init__(self, file: BinaryIO, *, salvage: bool = False, limit: int = 0) -> None:
        self._file, self._salvage, self._limit = file, salvage, limit
        self._found = block.Scan()
        self._running = False

    @property
    def allowance(self) -> DecodingAllowance:
        """The memory that all records may take together."""
        return self._found.allowance

    @property
    def blocks(self) -> int:
        """The number of blocks that were read."""
        return self._found.blocks

    def blocks_to(self, take_in: Callable[[bytes, int], None]) -> Iterator[None]:
        """Call *take_in* with each block and its number; yields after each.

        Raises ``TraceError``.
        """
        self._running = locked(self._file)  # before reading: what ended then is read whole
        found = self._found
        for raw in block.scan(self._file, found, salvage=self._salvage, limit=self._limit):
            take_in(raw, found.blocks)
            yield

    def read(self, take_in: Callable[[bytes, int], None]) -> None:
        """As ``blocks_to``, to the last good block."""
        for _ in self.blocks_to(take_in):
            pass

    @property
    def position(self) -> tuple[int, int]:
        """The end of the last block that was read, in the file, and its checksum."""
        return self._found.good, self._found.last

    def block_again(self, number: int, start: int, previous: int, end: int) -> bytes:
        """Block *number*, which stands from *start* to *end*, after one of checksum *previous*.

        Raises ``TraceCorrupt`` if it is no longer what it was.
        """
        return block.payload(self._file, block.Scan(start, number, previous), end)

    @property
    def damage(self) -> str:
        """The damage before which a scan with *salvage* ended; empty without one."""
        return self._found.damaged

    @property
    def torn(self) -> int:
        """The size of a last group that a crash cut off; a running process may still write it."""
        return 0 if self._running else self._found.torn

    def state(self, closed: bool) -> State:
        """The state of the run whose last record *closed* it, or did not."""
        return "running" if self._running else "finished" if closed else "crashed"


def repair(fd: int) -> block.Scan:
    """Cut the torn tail of the trace *fd*; the scan says how much. Raises ``TraceCorrupt``."""
    found = block.Scan()
    with os.fdopen(os.dup(fd), "rb") as file:
        for _ in block.scan(file, found):
            pass
    # Under the lock, which the caller holds: a torn tail may else be a block that another process
    # is writing right now.
    if found.torn:
        os.ftruncate(fd, found.good)
        os.fsync(fd)
    return found


def salvage(source: Path, target: Path) -> block.Scan:
    """Copy the good prefix of *source* into the new trace *target*."""
    found = block.Scan()
    with regular_file(source) as file:
        for _ in block.scan(file, found, salvage=True):
            pass
        fd = create(target)
        with os.fdopen(fd, "wb") as copy:
            file.seek(0)
            left = found.good
            while left > 0 and (piece := file.read(min(left, _PIECE))):
                copy.write(piece)
                left -= len(piece)
            copy.flush()
            os.fsync(copy.fileno())
    return found


def signed_copy(source: Path, target: Path, owner: Owner) -> None:
    """Copy the good prefix of *source* into the new trace *target*, signed for *owner*."""
    encoder, first = block.Encoder(key=owner.key), b""
    with regular_file(source) as file, os.fdopen(create(target), "wb") as copy:
        copy.write(block.MAGIC)
        for _, codec_, raw_length, payload in block.blocks(file):
            copy.write(encoder.packed(*block.unsigned(codec_, payload), raw_length))
            first = first or encoder.before
        copy.flush()
        os.fsync(copy.fileno())
    if first:
        owner.note_end(first, encoder.before)


class BlockFile:
    """The open and locked file of a trace, to which whole blocks are appended.

    ``folder`` is the whole path of the folder that holds it. *fault* is called with
    ``before-write``, ``inside-write``, ``after-write`` and ``before-sync`` where these happen, for
    tests that kill or fail the process there. Blocks are signed for
    *owner*, unless the trace has some already that are not.
    """

    def __init__(
        self, path: Path, *, append: bool, owner: Owner | None = None, fault: Fault | None = None
    ) -> None:
        self.path, self.fault = path, fault
        self.folder = os.path.dirname(str(path))
        if not path.is_absolute():  # the program may go to another one before the sync
            self.folder = os.path.join(os.getcwd(), self.folder)
        self._owner, self._first, self._signature = owner, b"", block.UNSIGNED
        self.good = self.blocks = self.last = self.torn = 0
        self._fd = reopen(path) if append else create(path)
        self._encoder = self._prepare(append)
        self._counts_links = os.fstat(self._fd).st_nlink > 0  # some file systems always say 0

    def _prepare(self, append: bool) -> block.Encoder:
        """The encoder that continues the file, after its torn tail was cut."""
        try:
            found = self._repair() if append else block.Scan()
            signs = self._owner is not None and (not append or self._sign_on())
            key = self._owner.key if self._owner is not None and signs else None
        except BaseException:
            os.close(self._fd)
            raise
        self.good, self.blocks, self.last = found.good, found.blocks, found.last
        self.torn = found.torn
        return block.Encoder(found.blocks, previous=found.last, key=key, before=self._signature)

    def _sign_on(self) -> bool:
        """True if every block of the file is signed, so that later ones may be signed too."""
        assert self._owner is not None
        with os.fdopen(os.dup(self._fd), "rb") as file:
            for each in block.signatures(file, self._owner.key):
                if each is None:
                    return False
                self._first, self._signature = self._first or each, each
        return True

    def note_end(self) -> None:
        """Note with the owner how the trace ended, after it was closed."""
        if self._owner is not None and self._encoder.key is not None and self._first:
            self._owner.note_end(self._first, self._signature)

    def _repair(self) -> block.Scan:
        return repair(self._fd)

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
        data = self._encoder.block(raw)
        if self.fault is not None:
            self.fault("before-write")
        self._write(data if self.good else block.MAGIC + data)
        if self.fault is not None:
            self.fault("after-write")

    def _write(self, data: bytes) -> None:
        # A write may take only a part of the data. Until the loop is through, ``good`` points at
        # the end of the block before, so that ``cut`` can take the part back.
        view = memoryview(data)
        if self.fault is not None:
            view = view[os.write(self._fd, view[: len(view) // 2]) :]
            self.fault("inside-write")
        while view:
            view = view[os.write(self._fd, view) :]
        self.good += len(data)
        self.blocks += 1
        self.last, self._signature = self._encoder.previous, self._encoder.before
        self._first = self._first or self._signature

    def sync(self) -> None:
        """Have the disk keep what was written. Raises ``OSError``."""
        if self.fault is not None:
            self.fault("before-sync")
        _fdatasync(self._fd)

    def cut(self) -> None:
        """Take back what was written of the last block, if that failed. Raises ``OSError``."""
        # The encoder has counted the block that failed. Its number and checksum belong to the next
        # block, or a reader would see a gap.
        self._encoder.sequence, self._encoder.previous = self.blocks, self.last
        self._encoder.before = self._signature
        os.ftruncate(self._fd, self.good)

    def loss(self) -> str | None:
        """The sentence that tells what somebody else did to the file, if it was removed or cut."""
        found = os.fstat(self._fd)
        if self._counts_links and not found.st_nlink:
            return "somebody removed the file while the run went on"
        if found.st_size < self.good:
            return f"somebody cut the file to {found.st_size} of its {self.good} bytes"
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


def _fdatasync(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)
