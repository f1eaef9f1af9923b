from __future__ import annotations

import time
from pathlib import Path

from appl import gen, ppl
from appl.backend import Chunk, Request, Response, Sample, Sampling
from appl.prompt import Message, Messages, Rope
from appl.testing import CallDispatched, CallEnded, CallStarted, ChunkArrived, Delivered
from appl.tracing import RecordedCall, Recorder, Trace
from appl.tracing.explaining import phases

from .support import recorded

_MS = 1_000_000
HERE = "somewhere.py"


def written(path: Path, chain: Messages | None, *more: object) -> RecordedCall:
    """A recorded call with the prompt *chain*; *more* are events between its start and its end."""
    recorder, address = Recorder(path, {"program": "p"}), "/p.0/gen.0"
    request = Request(address, 0, "m", chain, Sampling())
    chunks = [each.chunk for each in more if isinstance(each, ChunkArrived)]
    response = Response((Sample("".join(chunk.text for chunk in chunks) or "yes", "stop"),))
    recorder.on_event(CallStarted(request, "gen", (), HERE, 1, begin))
    for event in more:
        recorder.on_event(event)  # type: ignore[arg-type]
    recorder.on_event(CallEnded(address, response, None, begin + 9 * _MS, chunks))
    recorder.on_event(Delivered(address, begin + 10 * _MS))
    recorder.close()
    (call,) = Trace.open(path).calls
    return call


begin = time.monotonic_ns()


def sent(at: int, **waited: int) -> CallDispatched:
    return CallDispatched("/p.0/gen.0", 1, begin + at * _MS, waited)


def test_what_a_call_waited_for_is_recorded(tmp_path: Path) -> None:
    call = written(tmp_path / "a.trace", None, sent(5, rate=3 * _MS, budget=_MS, circuit=10))
    assert phases(call) == [("queue", 1000), ("rate", 3000), ("budget", 1000), ("answer", 4000)]


def test_when_the_first_piece_of_an_answer_came_is_recorded(tmp_path: Path) -> None:
    pieces = [
        ChunkArrived("/p.0/gen.0", Chunk(0, text), begin + at * _MS)
        for at, text in ((3, "so "), (6, "far"))
    ]
    call = written(tmp_path / "a.trace", None, sent(1), *pieces)
    assert phases(call) == [("queue", 1000), ("prefill", 2000), ("decode", 6000)]


def test_spans_are_those_that_were_told(tmp_path: Path) -> None:
    code = written.__code__
    chain = Messages(None, Message("system", "Be terse."), spans=(9, (code, 0)))
    chain = Messages(chain, Message("user", "What?"))
    chain = Messages(chain, Message("assistant", "No. Yes."), spans=(4, "/p.0/gen.9", 4, None))
    first, second, third = written(tmp_path / "a.trace", chain).spans()
    assert [(span.start, span.end, span.file, span.line) for span in first] == [
        (0, 9, code.co_filename, code.co_firstlineno)
    ]
    assert second == []
    assert [(span.start, span.end, span.where) for span in third] == [
        (0, 4, "/p.0/gen.9"), (4, 8, ""),
    ]  # fmt: skip


def test_a_long_message_that_goes_on_has_the_spans_of_its_pieces(tmp_path: Path) -> None:
    code = written.__code__
    rope = Rope(None, "x" * 5000, (5000, (code, 0)))
    rope = Rope(Rope(rope, "answer", (6, "/p.0/gen.9")), "!\n", (2, (code, 0)))
    chain = Messages(None, Message("user", ""), rope=rope)
    (spans,) = written(tmp_path / "a.trace", chain).spans()
    assert [(span.start, span.end, span.call) for span in spans] == [
        (0, 5000, None), (5000, 5006, "/p.0/gen.9"), (5006, 5008, None),
    ]  # fmt: skip


def test_equal_prompts_that_come_from_elsewhere_keep_their_own_spans(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    recorder = Recorder(path, {"program": "p"})
    for i in range(2):
        chain = Messages(None, Message("assistant", "yes"), spans=(3, f"/p.0/gen.{i}"))
        request = Request(f"/p.0/ask.{i}/gen.0", 0, "m", chain, Sampling())
        recorder.on_event(CallStarted(request, "gen", (), HERE, 1, begin))
    recorder.close()
    calls = Trace.open(path).calls
    assert [call.spans()[0][0].call for call in calls] == ["/p.0/gen.0", "/p.0/gen.1"]
    assert calls[0].content == calls[1].content


def test_empty_texts_and_answers_have_no_spans(tmp_path: Path) -> None:
    @ppl
    def talk() -> list[str]:
        answer, answers = "", []
        for _ in range(3):
            f"{''}{answer}"
            answer = str(gen())
            answers.append(answer)
        return answers

    trace = recorded(tmp_path / "a.trace", talk, lambda request: "" if request.ordinal else "so")
    texts = [message.content for message in trace.calls[-1].messages or ()]
    spans = trace.calls[-1].spans()
    assert texts == ["\nso\n"]
    assert [(span.end, bool(span.call)) for span in spans[0]] == [(1, False), (3, True), (4, False)]


def test_masked_text_has_no_spans(tmp_path: Path) -> None:
    chain = Messages(None, Message("user", "the key is sk-12345678"), spans=(22, "/p.0/gen.9"))
    path = tmp_path / "a.trace"
    recorder = Recorder(path, {"program": "p"}, secrets={"KEY": "sk-12345678"})
    request = Request("/p.0/gen.0", 0, "m", chain, Sampling())
    recorder.on_event(CallStarted(request, "gen", (), HERE, 1, begin))
    recorder.close()
    (call,) = Trace.open(path).calls
    assert call.masked and call.spans() == [[]]
