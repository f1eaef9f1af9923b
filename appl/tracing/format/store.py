"""The file of a run: making and opening it, with an exclusive lock.

Invariant: one process at a time may write a file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from appl.errors import NotATrace, TraceError, TraceLocked, TraceWriteError

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
        with _trace_errors():
            return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        with _trace_errors():
            return super().seek(offset, whence)


@contextlib.contextmanager
def _trace_errors() -> Iterator[None]:
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
    for tries in reversed(range(_LOCK_TRIES)):
        try:
            # The lock belongs to the open file. It ends with the process, also after ``kill -9``,
            # so no lock is ever left behind.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if not tries:
                os.close(fd)
                raise TraceLocked(f"{path} is being written by {_owner(path)}") from None
            time.sleep(_LOCK_PAUSE)
        except OSError:
            os.close(fd)
            raise
    raise AssertionError("the loop returns or raises")


def _owner(path: Path) -> str:
    """The process that writes *path*, from the latest record of a process in the file."""
    from appl.tracing.format import block, codec, table  # few files are written by others

    pid, host = 0, ""
    with contextlib.suppress(TraceError, ValueError, TypeError, OSError), path.open("rb") as file:
        for raw in block.scan(file, block.Scan()):
            for process in table.chosen(codec.unpack(raw), table.ProcessRecord):
                pid, host = process.pid, process.host
    return f"process {pid} on {host}" if pid else "another process"
