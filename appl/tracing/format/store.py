"""The file of a run: one writer thread that commits in groups, an exclusive lock, and repair.

Invariant: the file is magic and good blocks up to ``Writer.good``, and at most one torn block
behind it; what a commit callback was told about lies before ``good``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from appl import threads
from appl.errors import NotATrace, TraceError, TraceLocked, TraceWriteError
from appl.tracing.format import block, codec, table
from appl.tracing.format.signing import START, Owner
from appl.tracing.format.turns import Turns

Durability = Literal["process", "system", "strict"]
Fault = Callable[[str], None]
Filter = Callable[[list[Any]], list[bytes]]
Committed = Callable[[Exception | None], None]

GROUP_SECONDS = 0.004
"""Seconds for which a group gathers; the rest of 5 ms is for encoding and writing it."""
GROUP_BYTES = 256 << 10
QUEUE_BYTES = 64 << 20
_SYNC_SECONDS = 1.0
_LOCKS = 3
"""Number of times the writer takes the interpreter's lock for a group: it wakes, compresses and
writes."""
_SLACK = 0.0002
"""Seconds after which a thread is woken while no other thread computes."""
_BUSY = 8
"""Items in a group after which more are expected soon."""
_CALL = -1
"""The weight of a callback, which is no item."""
_PIECE = 1 << 20
_LOCK_TRIES, _LOCK_PAUSE = 20, 0.005
_GITIGNORE = """\
# Made by appl: recorded prompts and answers stay out of git. Edit this file to commit them.
*
"""
_turns = Turns()
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


def create(path: Path) -> int:
    """A descriptor of a new, locked trace file of mode 0600. Raises ``TraceWriteError``."""
    try:
        make_folder(path.parent)
        fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
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


def repair(fd: int) -> block.Scan:
    """Cut the torn tail of the trace *fd*; the scan says how much. Raises ``TraceCorrupt``."""
    found = block.Scan()
    with os.fdopen(os.dup(fd), "rb") as file:
        for _ in block.scan(file, found):
            pass
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


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_watching_forks = False


def _watch_forks(writer: Writer) -> None:
    global _watching_forks
    _writers.add(writer)
    if not _watching_forks:
        _watching_forks = True
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    for writer in list(_writers):
        writer.abandon()


class _Bell:
    """Wakes the one thread that waits for it; makes no lock each time, as an ``Event`` does."""

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Let who waits go on, or who waits next."""
        with contextlib.suppress(RuntimeError):  # it has rung already
            self._silent.release()

    def wait(self, seconds: float | None) -> None:
        """Return when it rings, or has rung since the last time, or after *seconds*."""
        self._silent.acquire(timeout=-1 if seconds is None else seconds)


class Writer:
    """Appends records to a trace file; one thread of its own writes them, a group at a time.

    *fault* is called with ``event``, ``before-write``, ``inside-write``, ``after-write`` and
    ``before-sync`` where these happen, for tests that kill or fail the process there. *filter*
    makes of the items of each group, on the writer's thread and once, the records that are written;
    without one the items are records. Blocks are signed for *owner*, unless the trace has some
    already that are not.
    """

    def __init__(
        self,
        path: Path,
        *,
        append: bool = False,
        durability: Durability = "system",
        filter: Filter | None = None,
        fault: Fault | None = None,
        limit: int = QUEUE_BYTES,
        owner: Owner | None = None,
    ) -> None:
        self.path, self.durability, self.limit = path, durability, limit
        self._owner, self._first, self._signature = owner, b"", START
        self.good = self.blocks = self.last = self.torn = 0
        self.failed: TraceWriteError | None = None
        self.forked = False
        self.pending = 0
        self._filter, self._fault = filter, fault
        self._queue: deque[tuple[Any, int]] = deque()
        self._ready: list[bytes] = []
        self._count = threading.Lock()
        self._ending = threading.RLock()  # who holds it takes from the queue, after the thread
        self._bell, self._room = _Bell(), threading.Event()
        self._awake = self._hurry = self._closing = self._dirty = self._broken = False
        self._over = False
        self._since = self._synced = self._looked = time.monotonic()
        self._late = 0.0
        self._syncing: threading.Thread | None = None
        self._fd = reopen(path) if append else create(path)
        self._encoder = self._prepare(append)
        self._counts_links = os.fstat(self._fd).st_nlink > 0  # some file systems always say 0
        _watch_forks(self)
        _turns.hasten(self)
        self._thread = threads.start(self._run, "appl-trace")

    def _prepare(self, append: bool) -> block.Encoder:
        """The encoder that continues the file, after its torn tail was cut."""
        try:
            found = self._repair() if append else block.Scan()
            key = self._owner.key if self._owner is not None and self._sign_on() else None
        except BaseException:
            os.close(self._fd)
            raise
        self.good, self.blocks, self.last = found.good, found.blocks, found.last
        self.torn = found.torn
        if not append and self.durability != "process":
            self._sync_folder()
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

    def _sync_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(OSError):
                os.fsync(folder)
        finally:
            os.close(folder)

    # -- producers -------------------------------------------------------------------------

    def append(self, item: Any, weight: int | None = None) -> None:
        """Queue one item, whose records are written together or not at all. Never blocks.

        It counts *weight* bytes until it is written, by default its length.
        """
        if self.forked:
            return
        if self._fault is not None:
            self._fault("event")
        if weight is None:
            weight = len(item)
        with self._count:
            self._queue.append((item, weight))
            self.pending = pending = self.pending + weight
        if not self._awake:
            self._awake, self._since = True, time.monotonic()
            self._bell.ring()
        if pending >= GROUP_BYTES and not self._hurry:
            self._rush()

    def _rush(self) -> None:
        """Have what is queued written now."""
        self._hurry = self._awake = True
        self._bell.ring()

    def on_commit(self, done: Committed) -> None:
        """Call *done* on the writer thread once all that was queued before has been written.

        It gets ``None``, or the error that kept it from being written.
        """
        if self.failed is not None or self.forked:
            done(self.failed or self._fork_error())
            return
        with self._count:
            self._queue.append((done, _CALL))
        self._rush()
        if self.failed is not None or self._over:
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        """Tell those who wait for a commit that none comes any more: why, or that all is there."""
        with self._ending:
            with self._count:
                calls = [item for item, weight in self._queue if weight == _CALL]
                self._queue = deque(each for each in self._queue if each[1] != _CALL)
            for call in calls:
                _tell(call, self.failed)

    def barrier(self, timeout: float | None = None) -> None:
        """Return when all that was queued before is written. Raises ``TraceWriteError``."""
        reached, errors = threading.Event(), list[Exception]()

        def done(error: Exception | None) -> None:
            if error is not None:
                errors.append(error)
            reached.set()

        self.on_commit(done)
        if not reached.wait(timeout):
            raise TraceWriteError(f"{self.path} could not be written within {timeout} seconds")
        if errors:
            raise errors[0]

    def wait_for_room(self) -> None:
        """Return when the queue is below its limit; raise the error that stopped writing."""
        while True:
            if self.forked:
                raise self._fork_error()
            if self.failed is not None:
                raise self.failed
            self._room.clear()
            if self.pending <= self.limit:
                return
            self._room.wait(0.1)

    def _fork_error(self) -> TraceWriteError:
        return TraceWriteError(
            f"{self.path} is recorded by the parent of this forked process, which alone may write "
            "it; open a run of its own in the child with appl.record()"
        )

    def abandon(self) -> None:
        """Never write again, from now on; what a forked child does with its parent's writer."""
        self.forked = True
        self._queue = deque()
        self._let_go()

    def unsaved(self) -> list[Any]:
        """The items that are queued and not written, and records that could not be written."""
        waiting = [item for item, weight in list(self._queue) if weight != _CALL]
        return [*self._ready, *waiting]

    def close(self) -> None:
        """Write what is queued, and let go of the file. Raises ``TraceWriteError``."""
        if self.forked or self._closing:
            return
        self._closing = True
        self._rush()
        self._thread.join()
        try:
            with self._ending:
                if self.failed is not None and not self._broken:
                    self._last_try()
        finally:
            self._over = True
            self._tell_waiting()
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)  # a forked child may still hold the file
            self._let_go()
        if self.failed is not None:
            raise self.failed

    def _let_go(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _turns.relax(self)
            os.close(fd)

    def _last_try(self) -> None:
        """The disk may have room again at the end of the run; a failed fsync is never retried."""
        failed, self.failed = self.failed, None
        self._drain()
        if self.failed is not None:
            self.failed = failed

    # -- the writer thread -----------------------------------------------------------------

    def _run(self) -> None:
        busy = False
        while self.failed is None and not self.forked:
            if self._queue or (busy and not self._closing):
                self._gather()
                busy = self._drain() >= _BUSY
            elif self._closing:
                break
            else:
                self._sleep()
            self._sync_when_due()
            self._look_when_due()
        if self._syncing is not None:
            self._syncing.join()
        self._end()

    def _gather(self) -> None:
        """Until a group is large, or its first item old, or somebody waits for it.

        Whoever computes lets this thread go on late, here and once more or twice until the group is
        written; so it waits the less, the later it was woken the last time.
        """
        due = self._since + GROUP_SECONDS - _LOCKS * self._late
        left = 0.0 if self._hurry else max(due - time.monotonic(), 0.0)
        self._bell.wait(left)
        if left and not self._hurry:
            late = time.monotonic() - due - _SLACK
            self._late = min(max(late, 0.0), GROUP_SECONDS / (2 * _LOCKS))
        self._hurry = False

    def _sleep(self) -> None:
        """Until somebody appends, or until the file is due to be synced or looked at."""
        self._awake = False
        if not self._queue and not self._closing:
            last = min(self._synced, self._looked) if self._dirty else self._looked
            self._bell.wait(max(last + _SYNC_SECONDS - time.monotonic(), 0.0))
        self._awake = True

    def _end(self) -> None:
        if self._dirty and self.failed is None and not self.forked:
            self._sync()
        if self.failed is None and not self.forked:
            self._look()
        if self.failed is not None:
            self._tell_waiting()

    def _look_when_due(self) -> None:
        now = time.monotonic()
        if self._looked + _SYNC_SECONDS <= now and self.failed is None and not self.forked:
            self._looked = now
            self._look()

    def _look(self) -> None:
        """Fail if the file was removed or cut by somebody else: what it held is lost."""
        found = os.fstat(self._fd)
        if self._counts_links and not found.st_nlink:
            lost = "somebody removed the file while the run went on"
        elif found.st_size < self.good:
            lost = f"somebody cut the file to {found.st_size} of its {self.good} bytes"
        else:
            return
        self._broken = True
        self.failed = self._explain(lost)

    def _drain(self) -> int:
        """Write all that is queued, in blocks of about ``GROUP_BYTES``; how many items it was."""
        count, self._since = 0, time.monotonic()
        while (self._queue or self._ready) and self.failed is None:
            items, calls, size = self._take()
            count += len(items)
            try:
                self._ready += self._records(items)
                while self._ready:
                    self._commit()
                with self._count:
                    self.pending -= size
            except BaseException as error:  # whatever a hook raises: this thread alone writes
                self._fail(error)
            for call in calls:
                _tell(call, self.failed)
            if not self._room.is_set():
                self._room.set()
        return count

    def _take(self) -> tuple[list[Any], list[Committed], int]:
        """The next items for one group, the callbacks that wait for exactly these, and the size."""
        items: list[Any] = []
        calls: list[Committed] = []
        size = 0
        while self._queue and size < GROUP_BYTES:
            head = item, weight = self._queue.popleft()
            if weight == _CALL:
                calls.append(item)
            elif calls:
                self._queue.appendleft(head)
                break
            else:
                items.append(item)
                size += weight
        return items, calls, size

    def _records(self, items: list[Any]) -> list[bytes]:
        if self._filter is None:
            return items
        try:
            return self._filter(items)
        except BaseException:
            self._broken = True  # they are lost, and nothing may follow them
            raise

    def _commit(self) -> None:
        """Write a block of the records that are ready, as many as are about ``GROUP_BYTES``."""
        count = size = 0
        while count < len(self._ready) and size < GROUP_BYTES:
            size += len(self._ready[count])
            count += 1
        raw = b"".join(self._ready[:count])
        if len(raw) > codec.MAX_RAW:
            raise ValueError(f"a record of {len(raw)} bytes is larger than a block may be")
        if raw:  # the filter may have left nothing
            self._write_block(raw)
        del self._ready[:count]

    def _write_block(self, raw: bytes) -> None:
        data = self._encoder.block(raw)
        self._point("before-write")
        self._write((block.MAGIC if self.good == 0 else b"") + data)
        self._point("after-write")
        self._dirty = self.durability != "process"
        if self.durability == "strict":
            self._sync()

    def _point(self, name: str) -> None:
        if self._fault is not None:
            self._fault(name)

    def _write(self, data: bytes) -> None:
        """All of *data*, or an error and a file as it was before."""
        view = memoryview(data)
        if self._fault is not None:
            view = view[os.write(self._fd, view[: len(view) // 2]) :]
            self._fault("inside-write")
        while view:
            view = view[os.write(self._fd, view) :]
        self.good += len(data)
        self.blocks += 1
        self.last, self._signature = self._encoder.previous, self._encoder.before
        self._first = self._first or self._signature

    def _sync_when_due(self) -> None:
        """Sync, if it is time, on a thread of its own: answers do not wait for the disk."""
        now = time.monotonic()
        due = self._synced + _SYNC_SECONDS <= now
        if self._dirty and due and self.failed is None and not self.forked:
            self._synced = now
            if self._syncing is None or not self._syncing.is_alive():
                self._start_sync()

    def _start_sync(self) -> None:
        try:
            self._syncing = threads.start(self._sync, "appl-trace")
        except RuntimeError:  # the system has no further thread
            self._sync()

    def _sync(self) -> None:
        self._dirty, self._synced = False, time.monotonic()
        try:
            self._point("before-sync")
            _fdatasync(self._fd)
        except OSError as error:
            self._broken = True
            self.failed = self._explain(
                f"{_reason(error)}; what was written last may not be on the disk"
            )
            self._bell.ring()  # the writer may sleep: it tells those who wait

    def _fail(self, error: BaseException) -> None:
        """Cut what was written in part, and take note of the error; what is unsaved is kept."""
        self._encoder.sequence, self._encoder.previous = self.blocks, self.last
        self._encoder.before = self._signature
        try:
            os.ftruncate(self._fd, self.good)
        except OSError:
            self._broken = True
        self.failed = self._explain(_reason(error))

    def _explain(self, reason: str) -> TraceWriteError:
        return TraceWriteError(f"recording to {self.path} failed: {reason}")


def _reason(error: BaseException) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _tell(call: Committed, error: Exception | None) -> None:
    with contextlib.suppress(Exception):
        call(error)


def _fdatasync(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)
