"""The file of a run: opening, an exclusive lock, repair, copies of the good part, reading.

Invariant: one process at a time may write a file, and what is cut off or left out is no good block.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from appl.errors import NotATrace, TraceError, TraceLocked, TraceWriteError
from appl.tracing.format import block, codec, table
from appl.tracing.format.allowance import DecodingAllowance

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
        self.file, self._salvage, self._limit = file, salvage, limit
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
        self._running = locked(self.file)  # before reading: what ended then is read whole
        found = self._found
        for raw in block.scan(self.file, found, salvage=self._salvage, limit=self._limit):
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
