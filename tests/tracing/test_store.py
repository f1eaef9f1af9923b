"""The writer: what it promises of the file, of failure, of locks, permissions and forks."""

from __future__ import annotations

import errno
import multiprocessing
import os
import queue
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made import asked, call, small_trace, start

from appl.errors import TraceCorrupt, TraceLocked, TraceTooNew, TraceWriteError
from appl.tracing import Recorder, Trace, records, salvage
from appl.tracing.format import codec, trace_scan
from appl.tracing.recording import Writer
from appl.tracing.recording.writer import sync_closed

NOBODY = 65534


def items(path: Path) -> list[Any]:
    return list(records(path))


def test_what_a_barrier_saw_is_in_the_file(path: Path) -> None:
    writer = Writer(path)
    writer.append(codec.pack(["one"]))
    writer.barrier()
    assert items(path) == [["one"]]
    writer.close()


def test_a_commit_callback_comes_after_everything_before_it_and_before_what_follows(
    path: Path,
) -> None:
    writer, seen = Writer(path), list[int]()
    for i in range(50):
        writer.append(codec.pack([i]))
        writer.on_commit(lambda error, i=i: seen.append(len(items(path))))  # type: ignore[misc]
    writer.close()
    assert len(seen) == 50
    assert all(count >= i + 1 for i, count in enumerate(seen))


def test_records_of_many_threads_are_all_there_and_each_thread_in_order(path: Path) -> None:
    writer = Writer(path, durability="process")
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def produce(name: int) -> None:
        for i in range(2000):
            writer.append(codec.pack([name, i]))

    threads = [threading.Thread(target=produce, args=(name,)) for name in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(old)
    writer.close()
    found = items(path)
    assert len(found) == 8000
    for name in range(4):
        assert [i for who, i in found if who == name] == list(range(2000))


def test_no_record_is_lost_while_the_writer_takes_what_was_queued(path: Path) -> None:
    """Many groups, each taken while other threads append: nothing falls between two of them."""
    writer = Writer(path, durability="process")
    old, text = sys.getswitchinterval(), b"x" * 3_000
    sys.setswitchinterval(1e-6)

    def produce(name: int) -> None:
        for i in range(6_000):
            writer.append(codec.pack([name, i, text]))

    threads = [threading.Thread(target=produce, args=(name,)) for name in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(old)
    writer.close()
    assert writer.file.last.blocks > 100
    assert sum(1 for _ in records(path)) == 24_000


class Follower(int):
    """The weight of an item during whose taking, on the writer's thread, *then* happens once."""

    then: Callable[[], None] | None = None

    def __radd__(self, other: int) -> int:
        then = self.then
        if then is not None and threading.current_thread().name == "appl-trace":
            self.then = None
            then()
        return int(self) + other


def test_what_is_appended_while_the_writer_takes_is_not_lost(path: Path) -> None:
    """While a group is taken: a queue that is copied and then emptied loses it."""
    writer = Writer(path, durability="process")
    for i in range(50):
        weight = Follower(1)
        weight.then = partial(writer.append, codec.pack([i, 1]))
        writer.append(codec.pack([i, 0]), weight)
        writer.barrier()
    writer.close()
    assert [tuple(each) for each in records(path)] == [(i, n) for i in range(50) for n in (0, 1)]


@pytest.mark.parametrize("durability", ["process", "system", "strict"])
def test_every_durability_level_writes_and_closes(path: Path, durability: Any) -> None:
    small_trace(path, durability=durability)
    assert Trace.open(path).state == "finished"


def test_files_are_0600_and_folders_0700_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        made = small_trace(tmp_path / "home" / "runs" / "a.trace")
    finally:
        os.umask(old)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(made.parent.parent.stat().st_mode) == 0o700


def test_a_second_writer_is_refused_with_pid_and_host(path: Path) -> None:
    recorder = Recorder(path, {})
    with pytest.raises(TraceLocked, match=f"process {os.getpid()} on {os.uname().nodename}"):
        Recorder(path, {}, append=True)
    recorder.close()


def test_a_second_process_is_refused(path: Path) -> None:
    recorder = Recorder(path, {})
    code = f"from appl.tracing import Recorder\nRecorder(__import__('pathlib').Path({str(path)!r}), {{}}, append=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "TraceLocked" in done.stderr
    recorder.close()


def test_an_existing_file_is_never_overwritten(path: Path) -> None:
    small_trace(path)
    before = path.read_bytes()
    with pytest.raises(TraceWriteError, match="File exists"):
        Recorder(path, {})
    assert path.read_bytes() == before


@pytest.mark.parametrize("append", [False, True])
def test_a_symbolic_link_is_not_followed(path: Path, append: bool) -> None:
    target = small_trace(path.parent / "target.trace")
    before = target.read_bytes()
    path.symlink_to(target)
    with pytest.raises(TraceWriteError):
        Writer(path, append=append)
    assert target.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(TraceWriteError, match="APPL_HOME"):
        Recorder(blocked / "runs" / "a.trace", {})


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_file_system_that_takes_no_files_is_refused() -> None:
    with pytest.raises(TraceWriteError, match="APPL_TRACE=off"):
        Recorder(Path("/proc/appl/runs/a.trace"), {})


def _record_as_nobody(folder: str, pipe: Any) -> None:
    if os.geteuid() == 0:  # root may write everywhere
        os.seteuid(NOBODY)
    try:
        Recorder(Path(folder) / "a.trace", {})
        pipe.send("recorded")
    except TraceWriteError as error:
        pipe.send(str(error))


def test_a_read_only_folder_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        Path(folder).chmod(0o500)
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        child = context.Process(target=_record_as_nobody, args=(folder, theirs))
        child.start()
        said = ours.recv()
        child.join()
    assert "Permission denied" in said


def test_reopening_continues_the_trace(path: Path) -> None:
    small_trace(path, calls=2)
    recorder = Recorder(path, {}, append=True, reason="resume")
    call(recorder, "/small.0/gen.2", "question 2", "answer 2")
    recorder.close("finished")
    trace = Trace.open(path)
    assert [c.address for c in trace.calls] == [f"/small.0/gen.{i}" for i in range(3)]
    assert [i.reason for i in trace.incarnations] == ["run", "resume"]
    assert trace.header["program"] == "small"


@pytest.mark.parametrize("cut", [1, 5, 16, 30])
def test_reopening_cuts_a_torn_tail_and_says_so(path: Path, cut: int) -> None:
    small_trace(path, close=False)
    good = path.stat().st_size
    with path.open("ab") as file:
        file.write(path.read_bytes()[8 : 8 + cut])
    recorder = Recorder(path, {}, append=True)
    assert recorder.torn == cut
    call(recorder, "/small.0/gen.3", "question 3")
    recorder.close()
    assert path.stat().st_size > good
    assert len(Trace.open(path).calls) == 4


@pytest.mark.parametrize("size", [0, 3, 7, 8])
def test_a_file_that_died_at_birth_can_be_read_and_reopened(path: Path, size: int) -> None:
    small_trace(path)
    os.truncate(path, size)
    assert Trace.open(path).calls == []
    recorder = Recorder(path, {}, append=True)
    call(recorder, "/p.0/gen.0", "question")
    recorder.close()
    assert len(Trace.open(path).calls) == 1


def test_damage_in_the_middle_is_refused_for_writing_and_can_be_salvaged(path: Path) -> None:
    recorder = Recorder(path, {})
    for i in range(4):
        call(recorder, f"/p.0/gen.{i}", f"question {i}")
        recorder.barrier()
    recorder.close()
    whole = len(Trace.open(path).calls)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(TraceCorrupt, match="--salvage"):
        Trace.open(path)
    with pytest.raises(TraceCorrupt):
        Recorder(path, {}, append=True)
    assert path.read_bytes() == data
    copy = path.with_name("copy.trace")
    assert salvage(path, copy).damaged
    assert 0 < len(Trace.open(copy).calls) < whole
    assert len(Trace.open(path, salvage=True).calls) == len(Trace.open(copy).calls)


def test_a_newer_container_is_named(path: Path) -> None:
    small_trace(path)
    path.write_bytes(b"APPLTRC2" + path.read_bytes()[8:])
    with pytest.raises(TraceTooNew, match="format 2"):
        Trace.open(path)


def test_a_newer_format_is_named(path: Path) -> None:
    Recorder(path, {}).close()
    path.unlink()
    writer = Writer(path)
    writer.append(codec.pack(["H", {"format": 99}]))
    writer.close()
    with pytest.raises(TraceTooNew, match="99"):
        Trace.open(path)


# -- failure


class Failing:
    """A fault that raises *error* from the n-th write on, for a while."""

    def __init__(
        self, error: Exception, first: int, last: int = 10**9, at: str = "inside-write"
    ) -> None:
        self.error, self.first, self.last, self.at, self.count = error, first, last, at, 0

    def __call__(self, point: str) -> None:
        if point == self.at:
            self.count += 1
            if self.first <= self.count <= self.last:
                raise self.error


FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_failed_write_leaves_a_readable_file_and_stops_new_calls(path: Path) -> None:
    disk = Failing(FULL, 10**9)
    recorder = Recorder(path, {}, fault=disk)
    call(recorder, "/p.0/gen.0", "saved")
    recorder.barrier()
    disk.first = disk.count + 1
    call(recorder, "/p.0/gen.1", "lost")
    with pytest.raises(TraceWriteError, match="No space left"):
        recorder.barrier()
    with pytest.raises(TraceWriteError, match=r"not saved: 1 answers \(/p\.0/gen\.1\)"):
        recorder.gate()
    with pytest.raises(TraceWriteError):
        recorder.close()
    trace = Trace.open(path)
    assert [c.address for c in trace.calls] == ["/p.0/gen.0"] and trace.torn == 0


def test_what_could_not_be_written_is_tried_once_more_at_the_end(path: Path) -> None:
    recorder = Recorder(path, {}, fault=Failing(FULL, 2, 2))
    call(recorder, "/p.0/gen.0", "question")
    with pytest.raises(TraceWriteError):
        recorder.barrier()
    call(recorder, "/p.0/gen.1", "in flight when it failed")
    recorder.close()
    assert [c.outcome for c in Trace.open(path).calls] == ["answered"] * 2


def test_with_warn_the_run_goes_on_unrecorded_and_is_told_once(path: Path) -> None:
    told: list[str] = []
    recorder = Recorder(path, {}, fault=Failing(FULL, 2), on_error="warn", notify=told.append)
    call(recorder, "/p.0/gen.0", "lost")
    recorder.barrier()
    recorder.gate()
    call(recorder, "/p.0/gen.1", "not recorded")
    recorder.gate()
    recorder.close()
    assert len(told) == 1 and "unrecorded" in told[0]
    assert Trace.open(path).calls == []


def test_waiting_barriers_are_told_of_a_failure_that_comes_later(path: Path) -> None:
    entered, go = threading.Event(), threading.Event()

    def fault(point: str) -> None:
        if point == "before-write" and armed:
            entered.set()
            go.wait(5)
            raise FULL

    armed = False
    writer, errors = Writer(path, fault=fault), list[Exception | None]()
    armed = True
    writer.append(codec.pack([1]))
    entered.wait(5)
    writer.append(codec.pack([2]))
    writer.on_commit(errors.append)
    go.set()
    with pytest.raises(TraceWriteError):
        writer.close()
    assert len(errors) == 1 and isinstance(errors[0], TraceWriteError)
    late: list[Exception | None] = []
    writer.on_commit(late.append)
    assert isinstance(late[0], TraceWriteError)


def test_a_failed_fsync_ends_recording_for_good(path: Path) -> None:
    fault = Failing(OSError(errno.EIO, "Input/output error"), 1, at="before-sync")
    writer = Writer(path, durability="strict", fault=fault)
    writer.append(codec.pack([1]))
    for attempt in (writer.barrier, writer.barrier, writer.close):
        with pytest.raises(TraceWriteError, match="may not be on the disk"):
            attempt()
    assert fault.count == 1


def test_answers_are_written_while_what_was_written_is_synced(path: Path) -> None:
    syncing, go = threading.Event(), threading.Event()

    def fault(point: str) -> None:
        if point == "before-sync" and not syncing.is_set():
            syncing.set()
            go.wait(10)

    writer = Writer(path, fault=fault)
    try:
        writer.append(codec.pack([1]))
        assert syncing.wait(10)
        writer.append(codec.pack([2]))
        writer.barrier(5)
        assert items(path) == [[1], [2]]
    finally:
        go.set()
        writer.close()


def test_a_sync_that_fails_while_nothing_is_written_ends_recording(path: Path) -> None:
    syncing, go = threading.Event(), threading.Event()

    def fault(point: str) -> None:
        if point == "before-sync":
            assert not go.is_set()  # it is never retried
            syncing.set()
            go.wait(10)
            raise OSError(errno.EIO, "Input/output error")

    writer = Writer(path, fault=fault)
    writer.append(codec.pack([1]))
    assert syncing.wait(10)
    writer.barrier(5)  # it is written, and the writer has nothing left to do
    go.set()
    with pytest.raises(TraceWriteError, match="may not be on the disk"):
        while True:  # ends with the sync
            writer.wait_for_room()
    for attempt in (writer.wait_for_room, writer.barrier, writer.close):
        with pytest.raises(TraceWriteError, match="may not be on the disk"):
            attempt()


def test_closing_waits_for_a_sync_and_what_came_after_it_is_synced_soon(path: Path) -> None:
    syncing, go, syncs = threading.Semaphore(0), threading.Event(), list[int]()

    def fault(point: str) -> None:
        if point == "before-sync":
            syncs.append(writer.file.last.blocks)
            syncing.release()
            go.wait(10)

    writer = Writer(path, fault=fault)
    writer.append(codec.pack([1]))
    assert syncing.acquire(timeout=10)
    writer.append(codec.pack([2]))
    writer.barrier(5)
    closing = threading.Thread(target=writer.close)
    closing.start()
    assert trace_scan.locked(path.open("rb"))
    go.set()
    closing.join(10)
    assert syncing.acquire(timeout=10)
    assert syncs == [1, 2]


def test_a_sync_that_fails_after_the_close_is_told_and_never_retried(path: Path) -> None:
    told, count = queue.SimpleQueue[str](), list[int]()

    def fault(point: str) -> None:
        if point == "before-sync":
            count.append(1)
            raise OSError(errno.EIO, "Input/output error")

    recorder = Recorder(path, {}, fault=fault, notify=told.put)
    recorder.close()
    assert "may not be on the disk" in told.get(timeout=10)
    sync_closed()
    assert count == [1] and told.empty()


def test_a_trace_whose_folder_is_left_or_removed_is_synced_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    for name in ("left", "removed"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Recorder(Path("runs/some.trace"), {}, notify=told.append).close()
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(tmp_path / "removed")
    sync_closed()
    assert told == []


def test_what_was_closed_is_synced_when_the_process_exits(path: Path) -> None:
    script = """
import sys
from pathlib import Path
from appl.tracing.format import codec
from appl.tracing.recording import Writer

writer = Writer(Path(sys.argv[1]), fault=lambda point: point == "before-sync" and print(point))
writer.append(codec.pack([1]))
writer.close()
print("closed")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == ["before-sync", "closed"]


def test_what_cannot_be_encoded_stops_the_next_call(path: Path) -> None:
    from appl.testing import Observed

    recorder = Recorder(path, {})
    recorder.on_event(Observed("/p.0", 0, "read", object(), 0))
    with pytest.raises(TraceWriteError, match=r"Observed cannot be recorded.*type object"):
        recorder.gate()
    with pytest.raises(TraceWriteError, match="Observed cannot be recorded"):
        recorder.close()
    assert Trace.open(path).state == "finished"


def test_a_header_that_cannot_be_written_leaves_no_lock_behind(path: Path) -> None:
    with pytest.raises(TraceWriteError, match="No space left"):
        Recorder(path, {}, fault=Failing(FULL, 1))
    assert Trace.open(path).state == "crashed"
    with pytest.raises(TypeError, match="cannot be recorded"):
        Recorder(path.with_name("b.trace"), {"arguments": {1, 2}})
    assert Trace.open(path.with_name("b.trace")).state == "crashed"


def test_a_full_queue_makes_the_next_call_wait_and_drops_nothing(path: Path) -> None:
    stopped, go = threading.Event(), threading.Event()

    def fault(point: str) -> None:
        if point == "before-write" and armed:
            stopped.set()
            go.wait(10)

    armed = False
    recorder = Recorder(path, {}, limit=10_000, fault=fault)
    armed = True
    for i in range(30):
        call(recorder, f"/p.0/gen.{i}", "question " * 100 + str(i))
    assert stopped.wait(5)
    started = threading.Event()
    waiter = threading.Thread(target=lambda: (recorder.gate(), started.set()))
    waiter.start()
    assert not started.wait(0.05)
    go.set()
    assert started.wait(5)
    waiter.join()
    recorder.close()
    assert len(Trace.open(path).calls) == 30


def _limited(path: str) -> None:
    """A process whose files may not grow beyond 20 kB, as on a full disk: with short writes."""
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    recorder = Recorder(Path(path), {}, durability="process")
    made = 0
    try:
        for i in range(10_000):
            recorder.gate()
            call(recorder, f"/p.0/gen.{i}", os.urandom(200).hex())
            recorder.barrier()
            made += 1
    except TraceWriteError as error:
        print(made, error)
    os._exit(0)


def test_a_full_disk_stops_the_run_and_keeps_all_that_was_acknowledged(path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_store; test_store._limited({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    made, _, said = done.stdout.partition(" ")
    assert "File too large" in said, done.stderr
    trace = Trace.open(path)
    assert path.stat().st_size <= 20_000 and trace.torn == 0
    assert len([c for c in trace.calls if c.outcome]) == int(made) > 10


# -- forks


def _in_child(recorder: Recorder, pipe: Any) -> None:
    call(recorder, "/p.0/gen.99", "from the child")
    try:
        recorder.gate()
        pipe.send("started")
    except TraceWriteError as error:
        pipe.send(str(error))
    recorder.close()


def test_a_forked_child_never_writes_and_cannot_start_calls(path: Path) -> None:
    recorder = Recorder(path, {})
    call(recorder, "/p.0/gen.0", "from the parent")
    recorder.barrier()
    before = path.read_bytes()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(recorder, theirs))
    child.start()
    said = ours.recv()
    child.join()
    assert "forked" in said and "appl.record()" in said
    assert path.read_bytes() == before
    recorder.close()
    assert [c.address for c in Trace.open(path).calls] == ["/p.0/gen.0"]


def test_a_forked_child_that_lives_on_does_not_hold_the_lock(path: Path) -> None:
    recorder = Recorder(path, {})
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    recorder.close()
    state = Trace.open(path).state
    os.close(writing)
    os.waitpid(child, 0)
    assert state == "finished"


def test_nothing_is_registered_at_import() -> None:
    code = "import appl.tracing.recording.writer as w; assert not w._watching_forks; import threading; assert threading.active_count() == 1"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_states_are_running_finished_and_crashed(path: Path) -> None:
    recorder = Recorder(path, {})
    assert Trace.open(path).state == "running"
    recorder.close()
    assert Trace.open(path).state == "finished"
    crashed = small_trace(path.with_name("b.trace"), close=False)
    assert Trace.open(crashed).state == "crashed"


def test_a_reader_can_copy_and_read_a_trace_while_it_is_written(path: Path) -> None:
    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "question"))
    recorder.barrier()
    copy = path.with_name("copy.trace")
    copy.write_bytes(path.read_bytes())
    assert Trace.open(copy).calls[0].outcome is None
    assert trace_scan.locked(path.open("rb"))
    recorder.close()
