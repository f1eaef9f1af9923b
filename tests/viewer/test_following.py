"""A trace that is read while it grows."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import answer, asked, call, end, now, put_in_a_block_for_each_call, small_trace, start

from appl.errors import NotATrace, TraceCorrupt
from appl.prompt import Message
from appl.testing import ScopeEntered, ToolEnded, ToolStarted
from appl.tracing import Recorder, Trace, tape
from appl.tracing.reading import Following


def test_each_poll_tells_what_was_written_since(path: Path) -> None:
    recorder = Recorder(path)
    with Following(path) as following:
        call(recorder, "/f.0/gen.0", "one")
        start(recorder, asked("/f.0/gen.1", "two"))
        recorder.barrier()
        assert following.poll() == ["/f.0/gen.0", "/f.0/gen.1"]
        assert (following.trace.state, len(following.trace.calls)) == ("running", 2)
        assert following.poll() == []
        end(recorder, "/f.0/gen.1", answer("later"))
        recorder.barrier()
        assert following.poll() == ["/f.0/gen.1"]
        assert following.trace.by_address["/f.0/gen.1"].outcome == "answered"
        recorder.close()
        assert following.poll() == []
        assert following.trace.state == "finished"


def test_what_was_followed_is_what_is_read_at_once(path: Path) -> None:
    recorder = Recorder(path, {"program": "p"})
    with Following(path) as following:
        for i in range(20):
            recorder.on_event(ScopeEntered(f"/f.{i}", "", "f", "p.py", 1, now()))
            call(recorder, f"/f.{i}/gen.0", f"say {i}")
            recorder.on_event(ToolStarted(f"/f.{i}/t.0", "t", "{}", "pure", None, None, now()))
            result = Message("tool", "done", tool_call_id="1")
            recorder.on_event(ToolEnded(f"/f.{i}/t.0", result, None, now()))
            recorder.barrier()
            assert f"/f.{i}/t.0" in following.poll()
        recorder.close()
        following.poll()
        assert following.trace.as_data() == Trace.open(path).as_data()


def test_a_poll_without_patience_leaves_the_rest_to_the_next(path: Path) -> None:
    recorder = Recorder(path)
    for i in range(5):
        call(recorder, f"/gen.{i}", "say")
    recorder.close()
    put_in_a_block_for_each_call(path)
    with Following(path) as following:
        polls = []
        while True:
            polls.append(following.poll(patience=-1))
            if not following.behind:
                break
        assert len(polls) > 5
        assert [address for poll in polls for address in poll] == [f"/gen.{i}" for i in range(5)]


def test_a_torn_end_is_read_when_it_is_whole(path: Path) -> None:
    small_trace(path, calls=3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with Following(path) as following:
        following.poll()
        assert following.trace.torn > 0
        with path.open("ab") as file:
            file.write(whole[-5:])
        following.poll()
        assert (following.trace.torn, following.trace.state) == (0, "finished")


def test_a_tape_is_followed_as_it_is(path: Path, tmp_path: Path) -> None:
    trace = Trace.open(small_trace(path, calls=2))
    text = tmp_path / "run.jsonl"
    text.write_text("\n".join(tape.write(trace)) + "\n")
    with Following(text) as following:
        assert following.poll() == ["/small.0/gen.0", "/small.0/gen.1"]
        assert following.poll() == []


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.trace"
    file.write_bytes(b"no trace at all")
    with pytest.raises(NotATrace), Following(file) as following:
        following.poll()
    with pytest.raises(NotATrace):
        Following(tmp_path / "nothing")


def test_damage_ends_a_trace_that_is_salvaged(path: Path) -> None:
    recorder = Recorder(path)
    for i in range(4):
        call(recorder, f"/gen.{i}", "say" * 100)
        recorder.barrier()
    recorder.close()
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(TraceCorrupt), Following(path) as following:
        following.poll()
    with Following(path, salvage=True) as following:
        assert 0 < len(following.poll()) < 4
