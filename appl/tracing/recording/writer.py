"""The writers of traces, and the thread that commits their queued items in groups.

All traces of a folder have one thread. It encodes and writes, and never opens or syncs a file: who
opens a trace does the one, and a thread besides does the other each second, also for traces that
were closed meanwhile. So a disk that is slow to sync delays no run, and a folder that is slow
delays only the runs that it holds.

Who opens or closes a trace writes it, too, so that no other thread has to be woken. The locks say
who may do what: ``_writing`` is held by the thread that takes from a writer's queue and writes,
``_syncing`` by the one that syncs or closes its file. Who holds both took ``_writing`` first.

Invariant: what a commit callback was told about lies before ``BlockFile.good``. Items of one writer
are taken, encoded and written by one thread at a time.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from appl.base import threads
from appl.base.shield import shielded
from appl.errors import TraceWriteError
from appl.tracing.format import codec
from appl.tracing.format.block_file import BlockFile, Fault
from appl.tracing.format.signing import Owner
from appl.tracing.format.turns import Turns

Durability = Literal["process", "system", "strict"]
Filter = Callable[[list[Any]], list[bytes]]
Committed = Callable[[Exception | None], None]

GROUP_SECONDS = 0.004
"""Seconds for which a group gathers; the rest of 5 ms is for encoding and writing it."""
GROUP_BYTES = 256 << 10
QUEUE_BYTES = 64 << 20
_SYNC_SECONDS = 1.0
_LINGER_SECONDS = 1.0
"""Seconds for which a thread without a trace waits for the next one."""
_MOST_BLOCKS = 16
"""Blocks that are written of one trace before the others have their turn."""
_LOCKS = 3
"""Number of times the writer takes the interpreter's lock for a group: it wakes, compresses and
writes."""
_SLACK = 0.0002
"""Seconds after which a thread is woken while no other thread computes."""
_SYNC_AT_ONCE = 32
"""Closed files after which they are synced, before the second is over."""
_MOST_UNSYNCED = 256
"""Closed files that wait to be synced. If there are more, who closes one waits for the disk."""
_BUSY = 8
"""Items in a group after which more are expected soon."""
_CALL = -1
"""The weight of a callback, which is no item."""
_turns = Turns()

_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_watching_forks = False


def _forked() -> None:
    global _threads_lock
    _threads.clear()
    _threads_lock = threading.Lock()  # another thread may have held the old one
    for writer in list(_writers):
        writer.abandon()


class ItemQueue:
    """Items and commit callbacks in the order in which they came.

    Any thread adds to ``entries``; one at a time takes. ``pending`` is the size in bytes of all
    items that are not written yet, those that were taken included. Who adds holds the ``lock``: two
    threads that add at once would lose one of the two sums. Who takes does without, since
    ``popleft`` is one step for the interpreter.
    """

    def __init__(self) -> None:
        self.pending = 0
        self.entries: deque[tuple[Any, int]] = deque()
        self.lock = threading.Lock()

    def take(self) -> tuple[list[object], list[Committed], int]:
        """The next items for one group, the callbacks that wait for exactly these, and the size."""
        items: list[object] = []
        calls: list[Committed] = []
        size = 0
        while self.entries and size < GROUP_BYTES:
            head = item, weight = self.entries.popleft()
            if weight == _CALL:
                calls.append(item)
            elif calls:
                # A callback was promised that all before it is written, and no more. So the group
                # ends here, and this item opens the next one.
                self.entries.appendleft(head)
                break
            else:
                items.append(item)
                size += weight
        return items, calls, size


class Writer:
    """Appends records to a trace file; the thread of its folder writes them, a group at a time.

    *filter* makes of the items of each group, on one thread at a time and once, the records that
    are written; by default the items are records. *fault* is called for each item with
    ``event``, and by the file (see ``BlockFile``). Blocks are signed for *owner*.
    """

    file_class: type[BlockFile] = BlockFile

    def __init__(
        self,
        path: Path,
        *,
        append: bool = False,
        durability: Durability = "system",
        filter: Filter = list,
        fault: Fault | None = None,
        limit: int = QUEUE_BYTES,
        owner: Owner | None = None,
    ) -> None:
        global _watching_forks
        self.durability, self.limit = durability, limit
        self.failed: TraceWriteError | None = None
        self.forked = False
        self.queue, self._is_listed = ItemQueue(), False
        self._filter: Filter = filter
        self._ready: list[bytes] = []
        self.report: Callable[[TraceWriteError], None] | None = None  # of a sync after the close
        self._writing = threading.RLock()  # reentrant: a callback may close the writer
        self._syncing = threading.Lock()
        self._room = threading.Event()
        self._closing = self._dirty = self._broken = self._over = False
        self._is_named = append or durability == "process"  # on the disk, by its folder
        self.file = self.file_class(path, append=append, owner=owner, fault=fault)
        _writers.add(self)
        if not _watching_forks:
            _watching_forks = True
            os.register_at_fork(after_in_child=_forked)
        _turns.hasten(self)
        self._thread, self._number = WriterThread.of(self)

    # -- producers -------------------------------------------------------------------------

    def append(self, item: Any, weight: int | None = None, *, wake: bool = True) -> None:
        """Queue one item, whose records are written together or not at all. Never blocks.

        It counts *weight* bytes until it is written, by default its length. Without *wake* it is
        written with what comes next.
        """
        if self.forked:
            return
        if self.file.fault is not None:
            self.file.fault("event")
        size, queue = len(item) if weight is None else weight, self.queue
        with queue.lock:
            queue.entries.append((item, size))
            queue.pending = pending = queue.pending + size
        # First the item is queued, then the thread is woken. The other way round it could wake,
        # find nothing, and sleep for a second with the item in the queue. Two threads may both wake
        # it, which does no harm.
        rush = pending >= GROUP_BYTES
        if wake and (rush or not self._is_listed or not self._thread.awake):
            self._call_thread(rush=rush)

    def _call_thread(self, *, rush: bool) -> None:
        """Have the thread write what is queued: at once, or with the group that gathers."""
        thread = self._thread
        # The thread clears the mark before it takes from the queue. So an item that was queued
        # while the mark was set is taken.
        if not self._is_listed:
            self._is_listed = True
            thread.listed.append(self)
        thread.wake(rush=rush)

    def write_now(self) -> None:
        """Return when all that is queued is written. Raises ``TraceWriteError``."""
        if self.forked:
            raise self._fork_error()
        # This thread may write as well as that of the folder, and need not wait for it. A Ctrl-C
        # must not break off the encoding or the writing, or records would be lost.
        with self._writing, shielded():
            self._drain()
        self._wake_if_pending()
        if self.failed is not None:
            raise self.failed

    def _wake_if_pending(self) -> None:
        """Call the thread for items that came while this one wrote, so that the other did not."""
        if self.queue.entries and self.failed is None:
            self._call_thread(rush=True)

    def on_commit(self, done: Committed) -> None:
        """Call *done*, on the thread that writes, once all that was queued before is written.

        It gets ``None``, or the error that kept it from being written.
        """
        if self.failed is not None or self.forked:
            done(self.failed or self._fork_error())
            return
        with self.queue.lock:
            self.queue.entries.append((done, _CALL))
        self._call_thread(rush=True)
        # Writing may have ended between the look above and the queueing. Then nobody takes the
        # callback out any more, so this thread does.
        if self.failed is not None or self._over:
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        """Tell those who wait for a commit that none comes any more: why, or that all is there."""
        with self._writing:
            queue = self.queue
            with queue.lock:
                calls = [item for item, weight in queue.entries if weight == _CALL]
                queue.entries = deque(entry for entry in queue.entries if entry[1] != _CALL)
            # The lock is reentrant: a callback may ask for another commit, which comes here again.
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
            raise TraceWriteError(f"{self.file.path} could not be written within {timeout} seconds")
        if errors:
            raise errors[0]

    def wait_for_room(self) -> None:
        """Return when the queue is below its limit; raise the error that stopped writing."""
        while True:
            if self.forked:
                raise self._fork_error()
            if self.failed is not None:
                raise self.failed
            # Clear first, then look: the thread may make room in between, and its signal, given
            # before the wait, is then still there. The timeout covers a thread that ended without a
            # signal.
            self._room.clear()
            if self.queue.pending <= self.limit:
                return
            self._room.wait(0.1)

    def _fork_error(self) -> TraceWriteError:
        return TraceWriteError(
            f"{self.file.path} is recorded by the parent of this forked process, which alone may "
            "write it; open a run of its own in the child with appl.record()"
        )

    def abandon(self) -> None:
        """Never write again, from now on; what a forked child does with its parent's writer."""
        self.forked = True
        self.queue = ItemQueue()  # the lock of the old one may be held for ever in a child
        self.file.close()
        _turns.relax(self)

    def unsaved(self) -> list[object]:
        """The items that are queued and not written, and records that could not be written."""
        queued = list(self.queue.entries)
        return [*self._ready, *(item for item, weight in queued if weight != _CALL)]

    def close(self) -> None:
        """Write what is queued, and let go of the file. Raises ``TraceWriteError``."""
        if self.forked or self._closing:
            return
        # Nothing is written any more once this thread holds the lock, and the others then find that
        # the writer is over. Only after the last try are those told who still wait, and the lock of
        # the file goes last of all: another process may write from then on.
        self._closing = True
        with self._writing, shielded():
            try:
                self._finish()
            finally:
                self._over = True
                self._tell_waiting()
                self._filter = list  # and with it the recorder, while the file waits to be synced
                with self._syncing:
                    self.file.unlock()
                    if not self._thread.leave(self):
                        self.file.close()
                _turns.relax(self)
        if self.failed is not None:
            raise self.failed

    def _finish(self) -> None:
        """Write what is left, and sync it if many others wait to be synced."""
        self._drain()
        with self._syncing:  # a sync that is under way may still fail
            if _ending or len(self._thread.closed) >= _MOST_UNSYNCED:
                self._sync_file()
        if self.failed is None:
            self.look()
        if self.failed is not None and not self._broken:
            # The disk may have room again at the end of the run; a failed fsync is never retried.
            failed, self.failed = self.failed, None
            self._drain()
            if self.failed is not None:
                self.failed = failed

    def sync_closed(self) -> None:
        """Have the disk keep a closed file, and let go of it."""
        with self._syncing:
            self._sync_file()
            self.file.close()
        if self.failed is not None and self.report is not None:
            self.report(self.failed)

    # -- the thread that writes -------------------------------------------------------------

    def take_turn(self) -> int:
        """Write what is queued, or some of it; the number of items that were written.

        What comes meanwhile is left to the next group. Somebody else who writes it now, to open or
        to close it, writes all of it.
        """
        self._is_listed = False
        if not self._writing.acquire(blocking=False):
            return 0
        try:
            if self._over or self.forked:
                return 0
            count = self._drain(_MOST_BLOCKS)
        finally:
            self._writing.release()
        if not self._is_listed and self.queue.entries:  # else what came meanwhile has listed it
            self._wake_if_pending()
        return count

    def look_if_free(self) -> None:
        """Look after the file, unless it is written or closed just now."""
        if self._writing.acquire(blocking=False):
            try:
                if self.failed is None and not (self._over or self.forked):
                    self.look()
            finally:
                self._writing.release()
            self._wake_if_pending()

    def look(self) -> None:
        """Fail if the file was removed or cut by somebody else: what it held is lost."""
        lost = self.file.loss()
        if lost is not None:
            self._broken = True
            self.failed = self._explain(lost)
            self._tell_waiting()

    def _drain(self, most: int | None = None) -> int:
        """Write what is queued, in *most* blocks of about ``GROUP_BYTES``; the number of items."""
        count = blocks = 0
        while (self.queue.entries or self._ready) and self.failed is None and blocks != most:
            items, calls, size = self.queue.take()
            count, blocks, encoded = count + len(items), blocks + 1, False
            try:
                # Encoded records wait in ``_ready``. If writing fails they stay there, for the last
                # try at the close: an item is encoded once, since it changes what later ones refer
                # to.
                self._ready += self._filter(items)
                encoded = True
                while self._ready:
                    self._commit()
                with self.queue.lock:
                    self.queue.pending -= size
            except BaseException as error:  # whatever a hook raises: this thread alone writes
                self._broken = self._broken or not encoded  # they are lost: nothing may follow them
                self._fail(error)
            # After the write, never before: who is told relies on the block being in the file.
            for call in calls:
                _tell(call, self.failed)
            if not self._room.is_set():
                self._room.set()
            if most is not None and size < GROUP_BYTES and not calls:
                break
        if self.failed is not None:
            self._tell_waiting()
        return count

    def _commit(self) -> None:
        """Write a block of the records that are ready, as many as are about ``GROUP_BYTES``."""
        count = size = 0
        while count < len(self._ready) and size < GROUP_BYTES:
            size += len(self._ready[count])
            count += 1
        raw = b"".join(self._ready[:count])
        # Readers refuse larger blocks. To write one would make the whole file unreadable.
        if len(raw) > codec.MAX_RAW:
            raise ValueError(f"a record of {len(raw)} bytes is larger than a block may be")
        if raw:  # the filter may have left nothing
            self.file.append(raw)
            self._dirty = self.durability != "process"
            if self.durability == "strict":
                self.sync()
        del self._ready[:count]

    # -- syncs

    @property
    def is_dirty(self) -> bool:
        """True if something was written that is not synced."""
        return self._dirty and self.failed is None and not self.forked

    def sync(self) -> None:
        """Have the disk keep what was written; on a thread for which nobody waits to write."""
        with self._syncing:
            if not self._over:
                self._sync_file()
        if self.failed is not None:
            self._tell_waiting()

    def _sync_file(self) -> None:
        if not self.is_dirty:
            return
        # Before the sync: a block that is written while it goes on makes the file dirty again.
        self._dirty = False
        try:
            self.file.sync()
            if not self._is_named:
                self._thread.sync_folder(self._number, self.file)
                self._is_named = True
        except OSError as error:
            # After a failed sync the system may have dropped the pages, and a second one would
            # succeed without them. So it is never tried again.
            self._broken = True
            self.failed = self._explain(
                f"{_reason(error)}; what was written last may not be on the disk"
            )

    def _fail(self, error: BaseException) -> None:
        """Cut what was written in part, and take note of the error; what is unsaved is kept."""
        try:
            self.file.cut()
        except OSError:
            self._broken = True
        self.failed = self._explain(_reason(error))

    def _explain(self, reason: str) -> TraceWriteError:
        return TraceWriteError(f"recording to {self.file.path} failed: {reason}")


class WriterThread:
    """The thread that writes the traces of one folder, and ends when there is none for a while.

    ``listed`` are the writers that have something to write, each once. The thread gathers a group
    of items: ``since`` is when the first of them came, ``late`` by how much it was woken too late
    the last time. ``awake`` is true while it need not be woken, ``hurry`` when somebody waits for
    the group.
    """

    def __init__(self, folder: str) -> None:
        self.listed: deque[Writer] = deque()
        self._folder = folder
        self._writers: dict[Writer, None] = {}
        self.closed: deque[Writer] = deque()  # that are not synced
        self.since, self.late = time.monotonic(), 0.0
        self._next_look = self.since + _SYNC_SECONDS
        self._syncing = threading.Lock()
        self._files = self._named = 0  # that were made, and of those, that the folder's sync saw
        self._naming = threading.Lock()
        # The thread waits in this lock, which whoever wakes it opens: an ``Event`` makes a lock for
        # each wait. If it is open already, the next wait ends at once.
        self._wakeup = threading.Lock()
        self._wakeup.acquire()
        self.awake = self.hurry = False

    @staticmethod
    def of(writer: Writer) -> tuple[WriterThread, int]:
        """The thread of its folder, started if there is none, which looks after *writer* now.

        With it comes the number of the writer's file among those of the thread.
        """
        name = writer.file.folder
        with _threads_lock:
            thread = _threads.get(name)
            if thread is None:
                thread = WriterThread(name)
                threads.start(thread._run, "appl-trace")
                _threads[name] = thread
            thread._writers[writer] = None
            thread._files += 1
            return thread, thread._files

    def sync_folder(self, number: int, file: BlockFile) -> None:
        """Have the disk note the name of *file*, which is number *number*, and all before it.

        Of many runs that end at once the first syncs, and one of the others for the rest.
        """
        with self._naming:
            if number > self._named:
                files = self._files
                file.sync_folder()
                self._named = files

    def leave(self, writer: Writer) -> bool:
        """Look after *writer* no more: it is closed. True if its file will be synced later."""
        global _awaits_exit
        later = writer.is_dirty
        with _threads_lock:
            self._writers.pop(writer, None)
            if later:
                self.closed.append(writer)
        if later:
            if not _awaits_exit:  # what waits to be synced then is synced when the process exits
                _awaits_exit = True
                atexit.register(_end)
            if len(self.closed) >= _SYNC_AT_ONCE:
                self._begin_sync()
        return later

    # -- groups

    def wake(self, *, rush: bool) -> None:
        """Wake the thread for the first item of a group, or to write at once what it gathers."""
        if not self.awake:
            self.since = time.monotonic()
        elif self.hurry or not rush:
            return
        self.awake = True
        self.hurry = self.hurry or rush
        with contextlib.suppress(RuntimeError):  # it is open already
            self._wakeup.release()

    def due(self) -> float:
        """The time at which a group is complete though it is small.

        A thread that computes lets this one go on late, then and once more or twice until the group
        is written; so that is the earlier, the later this one was woken the last time.
        """
        return self.since + GROUP_SECONDS - _LOCKS * self.late

    def gather(self) -> None:
        """Wait until a group is large, or its first item old, or somebody waits for it."""
        due = self.due()
        remaining_s = 0.0 if self.hurry else max(due - time.monotonic(), 0.0)
        self._wakeup.acquire(timeout=remaining_s)
        if remaining_s and not self.hurry:
            late = time.monotonic() - due - _SLACK
            self.late = min(max(late, 0.0), GROUP_SECONDS / (2 * _LOCKS))
        self.hurry = False

    def _sleep(self, until: float) -> None:
        """Wait for an item until the time *until*, if no writer is listed.

        Whoever queues an item after ``awake`` is false wakes the thread, and who queued one before
        is listed. So that is looked at in between, or an item could lie unwritten until *until*.
        """
        self.awake = False
        if not self.listed:
            self._wakeup.acquire(timeout=max(until - time.monotonic(), 0.0))
        self.awake = True

    def _run(self) -> None:
        busy = False
        while True:
            # While many items come, gather again without sleeping: to be woken costs the program
            # a system call for each group.
            if self.listed or busy:
                self.gather()
                busy = self._drain()
            elif self._writers or self.closed:
                self._sleep(self._next_look)
            else:  # for the next writer; if none has come, this thread is another's no more
                self._sleep(time.monotonic() + _LINGER_SECONDS)
                with _threads_lock:
                    in_use = self._writers or self.closed or _threads.get(self._folder) is not self
                    if not in_use:
                        del _threads[self._folder]
                        return
            if time.monotonic() >= self._next_look:
                self._look()

    def _drain(self) -> bool:
        """Write what the listed writers have; true if more is expected soon."""
        count, self.since = 0, time.monotonic()
        writers = len(self.listed)
        for _ in range(writers):
            count += self.listed.popleft().take_turn()
        # Of many short runs each has written its own items when it was closed.
        return count >= _BUSY or writers > 1

    def _look(self) -> None:
        """Look after the files, each second, and have them synced."""
        self._next_look = time.monotonic() + _SYNC_SECONDS
        for writer in list(self._writers):
            writer.look_if_free()
        if self.closed or any(writer.is_dirty for writer in list(self._writers)):
            self._begin_sync()

    def _begin_sync(self) -> None:
        """Have another thread sync the files, if none does so."""
        # One sync at a time: a slow disk would else collect threads that wait for it.
        if self._syncing.acquire(blocking=False):
            try:
                threads.work(self._sync)
            except RuntimeError:  # the system has no further thread
                self._sync()

    def _sync(self) -> None:
        try:
            for writer in list(self._writers):
                writer.sync()
            while self.closed:
                self.closed.popleft().sync_closed()
        finally:
            self._syncing.release()

    def sync_closed(self) -> None:
        """Return when the files of closed traces are synced."""
        with self._syncing:
            while self.closed:
                self.closed.popleft().sync_closed()


_threads: dict[str, WriterThread] = {}
_threads_lock = threading.Lock()
_awaits_exit = _ending = False


def sync_before_exit() -> None:
    """Sync what was closed so far, and leave nothing of it to the exit of the process."""
    global _awaits_exit
    atexit.unregister(_end)
    _awaits_exit = False
    sync_closed()


def _end() -> None:
    global _ending
    _ending = True  # what is closed from now on is synced at once
    # Nothing is left that a Ctrl-C could end, and Python would only report it as ignored.
    with contextlib.suppress(KeyboardInterrupt), shielded():
        sync_closed()


def sync_closed() -> None:
    """Return when the disk keeps all traces that were closed so far."""
    for thread in list(_threads.values()):
        thread.sync_closed()


def _reason(error: BaseException) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _tell(call: Committed, error: Exception | None) -> None:
    with contextlib.suppress(Exception):
        call(error)
