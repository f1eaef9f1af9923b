"""Leases of servers' caches: files in the user's state by which processes see each other.

Each process that asks a server holds the lock of a file of its own, in which it says how much of
the server's cache it wants. The lock ends with the process, also after ``kill -9``. Whoever can
have the lock of another's file removes the file.

Invariant: the name of a file holds a digest of the server's address, and the file a number. Files
are touched on threads other than the I/O loop's. What fails is told once, and the process goes on
as if it were alone.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from math import inf
from pathlib import Path
from weakref import WeakSet

from appl import threads
from appl.config.state import private_folder
from appl.errors import ConfigError

_FOLDER = "leases"
_DIGITS = 32
_OTHERS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class StoredLeases:
    """The leases of all processes of the user on this machine."""

    def lease(self, address: str) -> StoredLease:
        """A lease of a part of the cache at *address*, held from its first exchange on."""
        return StoredLease(blake2b(address.encode(), digest_size=16).hexdigest())


class StoredLease:
    """A lease of a part of the cache of *server*, in a file of its own while it is held."""

    def __init__(self, server: str) -> None:
        self._server, self._file, self._fd = server, Path(), -1
        self._lock = threading.Lock()  # an exchange may be under way when the lease is given back
        self._over = False
        _held.add(self)

    def __del__(self) -> None:
        """A run that was dropped has not left the server: its lock ends here."""
        self._close()

    async def exchange(self, wanted: float) -> Sequence[float]:
        """Tell the others that *wanted* tokens are wanted; returns what each of them wants."""
        return await asyncio.to_thread(self._exchange, wanted)

    def give_back(self) -> None:
        """Remove the file, on a thread of its own."""
        with suppress(RuntimeError):  # the process ends, and the lock with it
            threads.work(self._give_back)

    def _exchange(self, wanted: float) -> Sequence[float]:
        with self._lock:
            if self._over:
                return []
            try:
                self._take()
                os.pwrite(self._fd, f"{wanted:{_DIGITS}.0f}".encode(), 0)
                return list(self._wanted_by_others())
            except (OSError, ConfigError) as error:
                self._remove()
                _tell(error)
                return []

    def _take(self) -> None:
        """Make a file and lock it, unless it is there."""
        # Another process may look between the two, find the file without a lock, and remove it.
        # It holds the lock until it has done so, and the file then has no name any more.
        while self._fd < 0 or not os.fstat(self._fd).st_nlink:
            self._close()
            self._fd, name = tempfile.mkstemp(dir=private_folder(_FOLDER), prefix=self._server)
            self._file = Path(name)
            fcntl.flock(self._fd, fcntl.LOCK_EX)

    def _wanted_by_others(self) -> Iterator[float]:
        for file in self._file.parent.iterdir():
            if file != self._file:
                wanted = _wanted_by(file)
                if wanted is not None and file.name.startswith(self._server):
                    yield wanted

    def _give_back(self) -> None:
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        self._over = True
        if self._fd >= 0:
            with suppress(OSError):  # the file before its lock: so nobody finds it without one
                self._file.unlink()
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def forget(self) -> None:
        """Leave the lease to the parent of this process, which would seem to live for ever."""
        self._over = True
        self._close()


_held: WeakSet[StoredLease] = WeakSet()


def _forget() -> None:
    for lease in list(_held):
        lease.forget()


os.register_at_fork(after_in_child=_forget)


def _wanted_by(file: Path) -> float | None:
    """The tokens that the holder of *file* wants; ``None`` if nobody holds it any more."""
    try:
        fd = os.open(file, _OTHERS)
    except OSError:
        return None
    try:
        # A shared lock, so that two that look at the same time do not take each other for it.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        file.unlink(missing_ok=True)
        return None
    except BlockingIOError:
        return _number(os.pread(fd, _DIGITS, 0))
    finally:
        os.close(fd)


def _number(written: bytes) -> float:
    """The number that is *written*; all of the cache where it is none, or not there yet."""
    with suppress(ValueError):
        return max(0.0, float(written))
    return inf


_told: set[str] = set()


def _tell(error: OSError | ConfigError) -> None:
    """Report, once in a process, that other processes cannot be seen."""
    problem = str(error)
    if isinstance(error, OSError):
        problem = f"{_FOLDER} in the state folder cannot be written: {error.strerror or error}"
    if problem not in _told:
        _told.add(problem)
        line = f"appl: {problem}; other processes that ask the same server are not reckoned with\n"
        print(line, end="", file=sys.stderr, flush=True)
