"""What is queued and encoded later: much in one event, odd hooks, and ends in the midst of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from made import answer, asked, end, now, start

from appl.backend import Response, Sample, TokenLogprob
from appl.errors import TraceWriteError
from appl.prompt import Message, Messages, ToolCall
from appl.testing import CallEnded, CallStarted, Observed, ToolEnded, ToolStarted, Warned
from appl.tracing import Recorder, Trace, records
from appl.tracing.format import codec
from appl.tracing.recording.encoder import Closing

LONG = 900_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.trace"


def stalled(path: Path) -> tuple[Recorder, threading.Event]:
    """A recorder that writes only once the event is set: till then much may be queued."""
    go = threading.Event()
    go.set()

    def wait(point: str) -> None:
        if point == "before-write":
            assert go.wait(60)

    recorder = Recorder(path, {}, fault=wait)
    go.clear()
    return recorder, go


def texts(count: int) -> list[str]:
    random = Random(7)
    return [random.randbytes(LONG // 2).hex() for _ in range(count)]


def largest(path: Path) -> int:
    return max(len(codec.pack(fields)) for fields in records(path))


def test_a_prompt_of_many_long_messages_is_recorded(path: Path) -> None:
    said = texts(24)
    recorder = Recorder(path, {})
    chain = Messages.of(Message("user", text) for text in said)
    start(recorder, replace(asked("/p.0/gen.0", "q"), messages=chain, _digest=None))
    end(recorder, "/p.0/gen.0", answer("yes"))
    recorder.close()
    assert [m.content for m in Trace.open(path).calls[0].messages or ()] == said


def test_an_answer_of_many_long_samples_is_recorded(path: Path) -> None:
    said = texts(24)
    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "q", n=24))
    end(recorder, "/p.0/gen.0", answer(*said))
    recorder.close()
    response = Trace.open(path).calls[0].response
    assert response is not None and [each.text for each in response.samples] == said
    assert largest(path) < 2 << 20


def test_an_answer_with_many_long_tool_calls_is_recorded(path: Path) -> None:
    calls = tuple(ToolCall(f"c{n}", "f", text) for n, text in enumerate(texts(24)))
    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "q"))
    end(recorder, "/p.0/gen.0", Response((Sample("", "tool_calls", None, calls),)))
    recorder.close()
    response = Trace.open(path).calls[0].response
    assert response is not None and response.samples[0].tool_calls == calls
    assert largest(path) < 2 << 20


def test_a_record_larger_than_a_block_is_told(path: Path) -> None:
    tokens = tuple(TokenLogprob("x" * 1000, -1.0) for _ in range(17_000))
    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "q"))
    end(recorder, "/p.0/gen.0", Response((Sample("yes", "stop", tokens),)))
    with pytest.raises(TraceWriteError, match="larger than a block may be"):
        recorder.close()


def test_what_cannot_be_packed_is_left_out_once_before_a_long_text(path: Path) -> None:
    recorder, go = stalled(path)
    start(recorder, asked("/p.0/first.0", "holds the writer"))
    start(recorder, asked("/p.0/gen.0", "question"))
    odd: Any = replace(asked("/p.0/gen.1", "odd"), timeout=object())
    recorder.on_event(CallStarted(odd, "gen", (), None, None, now()))
    start(recorder, asked("/p.0/gen.2", "x" * (2 << 20)))
    go.set()
    with pytest.raises(TraceWriteError, match="a record S cannot be recorded"):
        recorder.close()
    numbers = [fields[1] for fields in records(path) if fields[0] in "SMN"]
    assert len(numbers) == len(set(numbers))
    addresses = [call.address for call in Trace.open(path).calls]
    assert addresses == ["/p.0/first.0", "/p.0/gen.0", "/p.0/gen.2"]


def test_a_hook_that_exits_takes_only_its_text(path: Path) -> None:
    def leave(message: Message) -> Message:
        raise SystemExit(3)

    recorder = Recorder(path, {}, redact=leave)
    start(recorder, asked("/p.0/gen.0", "q"))
    end(recorder, "/p.0/gen.0", answer("yes"))
    recorder.close()
    call = Trace.open(path).calls[0]
    assert call.response is not None
    assert call.response.text == "[redaction failed: SystemExit]"


def test_what_is_raised_where_items_are_encoded_is_told_and_nobody_waits_for_ever(
    path: Path,
) -> None:
    recorder = Recorder(path, {})
    recorder.on_event(Warned("/p.0", "before", now()))
    recorder.barrier(60)
    recorder.writer._filter = _exits
    with pytest.raises(TraceWriteError):
        recorder.barrier(60)
    with pytest.raises(TraceWriteError):
        recorder.close()


def _exits(items: list[Any]) -> list[bytes]:
    raise SystemExit(3)


def test_lists_of_a_backend_are_recorded_as_they_were(path: Path) -> None:
    recorder, go = stalled(path)
    start(recorder, asked("/p.0/first.0", "holds the writer"))
    start(recorder, asked("/p.0/gen.0", "q"))
    samples: Any = [Sample("as it was", "stop")]
    calls: Any = [ToolCall("c", "f", "{}")]
    end(recorder, "/p.0/gen.0", Response(samples))
    start(recorder, asked("/p.0/gen.1", "q"))
    end(recorder, "/p.0/gen.1", Response((Sample("", "tool_calls", None, calls),)))
    samples[0] = Sample("changed", "stop")
    calls.clear()
    go.set()
    recorder.close()
    first, second = (call.response for call in Trace.open(path).calls[1:])
    assert first is not None and first.text == "as it was"
    assert second is not None and len(second.samples[0].tool_calls) == 1


def test_who_waits_for_a_closed_trace_is_told(path: Path) -> None:
    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "q"))
    recorder.close()
    recorder.barrier(60)
    told: list[Exception | None] = []
    recorder.on_commit(told.append)
    assert told == [None]


def test_nothing_follows_the_closing_record(path: Path) -> None:
    recorder = Recorder(path, {})
    writer = recorder.writer
    start(recorder, asked("/p.0/gen.0", "q"))
    writer.append(Closing("finished", None, now()), 1)
    writer.append(Warned("/p.0", "after", now()), 1)
    recorder.leave()
    assert [fields[0] for fields in records(path)][-1] == "Z"


def ended(sample: Sample) -> CallEnded:
    return CallEnded("/p", Response((sample,)), None, 0)


@pytest.mark.parametrize(
    "event",
    [
        ended(Sample("", "tool_calls", None, (ToolCall("c", "f", "x" * LONG),))),
        ended(Sample("", "stop", reasoning="x" * LONG)),
        ToolStarted("/p", "f", "x" * LONG, "effect", None, None, 0),
        ToolEnded("/p", Message("tool", "x" * LONG), None, 0),
        Observed("/p", 0, "read", "x" * LONG, 0),
    ],
)
def test_what_waits_for_the_disk_counts_with_its_text(path: Path, event: Any) -> None:
    recorder, go = stalled(path)
    before = recorder.writer.queue.pending
    recorder.on_event(event)
    assert recorder.writer.queue.pending - before > LONG
    go.set()
    recorder.close()
