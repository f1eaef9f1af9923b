"""Images, sounds, tool calls and names in a trace: all of it comes back, once, and masked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from made import answer, end, now, read_back, replayed, start

from appl.backend import Request, Response, Sample, Sampling, TokenLogprob
from appl.errors import DivergenceError, TraceCorrupt
from appl.prompt import (
    AIMessage,
    Audio,
    Image,
    Message,
    Messages,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from appl.testing import CallEnded
from appl.tracing import Recorder, Replayer, Trace, records
from appl.tracing.format import codec, record

SECRET = "sk-canary-0123456789"
CALLS = (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "größe", "not json \ud800"))
SOUND = Audio(b"\x00\xff" * 40, "wav")


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ["MY_API_KEY"] = SECRET
    yield
    os.environ.clear()
    os.environ.update(before)


def asked(address: str, *messages: Message, **given: object) -> Request:
    return Request(address, 0, "m", Messages.of(messages), Sampling(**given))  # type: ignore[arg-type]


def recorded(path: Path, *messages: Message, **options: object) -> Trace:
    recorder = Recorder(path, **options)  # type: ignore[arg-type]
    start(recorder, asked("/p.0/gen.0", *messages))
    end(recorder, "/p.0/gen.0", answer("a"))
    return read_back(path, recorder)


def said(trace: Trace) -> list[Message]:
    return list(trace.calls[0].messages or ())


RICH = (
    UserMessage(["look at ", Image("https://example.com/cat.png", "low"), " and ", SOUND]),
    AIMessage("I add", tool_calls=CALLS),
    ToolMessage("3", tool_call_id="c1", has_error=True),
    UserMessage("thanks", name="Ann"),
)


def test_every_field_of_a_message_comes_back(tmp_path: Path) -> None:
    assert said(recorded(tmp_path / "a.trace", *RICH)) == list(RICH)


def test_an_image_of_many_megabytes_is_written_once(tmp_path: Path) -> None:
    picture = Image.from_bytes(os.urandom(5_000_000), "image/png")
    recorder = Recorder(tmp_path / "a.trace")
    first = UserMessage([picture, "what?"])
    for index, message in enumerate([UserMessage([picture, "this?"]), UserMessage("bare")]):
        start(recorder, asked(f"/p.{index}/gen.0", first, message))
        end(recorder, f"/p.{index}/gen.0", answer("a"))
    trace = read_back(tmp_path / "a.trace", recorder)
    assert list(trace.calls[1].messages or ()) == [
        first,
        UserMessage("bare"),
    ]
    kinds = [fields[0] for fields in records(tmp_path / "a.trace")]
    assert (kinds.count("G"), kinds.count("B")) == (1, 5)
    assert (tmp_path / "a.trace").stat().st_size < 5_100_000


def test_tool_calls_and_reasoning_of_an_answer_come_back(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace")
    samples = (
        Sample("", "tool_calls", None, CALLS),
        Sample("x", "stop", (TokenLogprob("x", -0.5),), (), "I thought"),
        Sample("y", "stop", None, (ToolCall("c3", "f", "x" * 2_000_000),), "z" * 2_000_000),
    )
    for index, sample in enumerate(samples):
        start(recorder, asked(f"/p.{index}/gen.0", UserMessage("q")))
        end(recorder, f"/p.{index}/gen.0", Response((sample,)))
    trace = read_back(tmp_path / "a.trace", recorder)
    assert [call.response.samples for call in trace.calls] == [(s,) for s in samples]  # type: ignore[union-attr]
    data = trace.calls[1].as_data()
    assert (data["reasoning"], data["tool_calls"]) == (["I thought"], [[]])
    assert trace.calls[0].as_data()["tool_calls"][0][0]["function"]["name"] == "add"


async def test_a_replay_tells_messages_apart_by_every_field(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.trace", *RICH)
    assert await replayed(Replayer(trace), asked("/p.0/gen.0", *RICH)) == ["a"]
    for change in (
        UserMessage(["look at ", Image("https://example.com/cat.png"), " and ", SOUND]),
        UserMessage(["look at ", SOUND, " and ", SOUND]),
        UserMessage(["look ", Image("https://example.com/cat.png", "low"), "at and ", SOUND]),
    ):
        (got,) = await replayed(Replayer(trace), asked("/p.0/gen.0", change, *RICH[1:]))
        assert isinstance(got, DivergenceError)
    other = dataclasses.replace(RICH[1].plain(), tool_calls=(CALLS[0], ToolCall("c2", "f", "")))
    (got,) = await replayed(Replayer(trace), asked("/p.0/gen.0", RICH[0], other, *RICH[2:]))
    assert "message 2 (assistant)" in str(got)
    assert "[call c2: f()]" in str(got)


@pytest.mark.parametrize(
    "message",
    [
        UserMessage(["see", Image(f"https://example.com/?key={SECRET}")]),
        UserMessage(Image.from_bytes(b"\x89PNG\r\n\x1a\n" + SECRET.encode())),
        UserMessage(Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(3 << 20) + SECRET.encode())),
        AIMessage(tool_calls=[ToolCall("c", "f", f'{{"key": "{SECRET}"}}')]),
        AIMessage(tool_calls=[ToolCall("c", "f", "x" * 2_000_000 + SECRET)]),
        UserMessage("x", name=SECRET),
        ToolMessage("x", tool_call_id=SECRET),
    ],
)
async def test_a_secret_anywhere_in_a_message_is_masked(message: Message, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.trace", message)
    assert SECRET.encode() not in b"".join(codec.pack(r) for r in records(tmp_path / "a.trace"))
    assert trace.calls[0].masked == ("MY_API_KEY",)
    (got,) = await replayed(Replayer(trace), asked("/p.0/gen.0", message))
    assert got == "a"  # the prompt is known by the digest of what was not masked


def test_a_secret_in_a_tool_call_of_an_answer_is_masked(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace")
    tokens = (TokenLogprob(SECRET[:8], -1.0),)
    call = ToolCall("c", "f", SECRET)
    start(recorder, asked("/p.0/gen.0", UserMessage("q")))
    end(recorder, "/p.0/gen.0", Response((Sample("", "stop", tokens, (call,), SECRET),)))
    (found,) = read_back(tmp_path / "a.trace", recorder).calls
    assert found.masked == ("MY_API_KEY",)
    assert found.response is not None
    (sample,) = found.response.samples
    assert sample.logprobs is None
    assert sample.reasoning == sample.tool_calls[0].arguments == "[secret MY_API_KEY]"


def test_a_redaction_sees_the_whole_message_and_may_change_all_of_it(tmp_path: Path) -> None:
    seen: list[Message] = []

    def redact(message: Message) -> Message:
        seen.append(message)
        return Message(message.role, "gone", name=message.name)

    trace = recorded(tmp_path / "a.trace", *RICH, redact=redact)
    assert seen[:4] == list(RICH)
    assert said(trace) == [Message(m.role, "gone", name="Ann" if m.name else None) for m in RICH]
    assert set(trace.calls[0].masked) == {"redact"}
    assert not any(fields[0] == "G" for fields in records(tmp_path / "a.trace"))


def test_a_redaction_that_fails_lets_nothing_through(tmp_path: Path) -> None:
    def redact(message: Message) -> Message:
        raise ValueError(SECRET)

    trace = recorded(tmp_path / "a.trace", *RICH, redact=redact)
    assert {m.shown for m in said(trace)} == {"[redaction failed: ValueError]"}


def test_a_redaction_also_sees_arguments_and_reasoning(tmp_path: Path) -> None:
    recorder = Recorder(
        tmp_path / "a.trace",
        redact=lambda m: Message(m.role, m.content.replace("Ann", "A.")),
    )
    sample = Sample("for Ann", "stop", (TokenLogprob("Ann", -1.0),), (ToolCall("c", "f", '"Ann"'),))
    start(recorder, asked("/p.0/gen.0", UserMessage("q")))
    recorder.on_event(
        CallEnded(
            "/p.0/gen.0", Response((dataclasses.replace(sample, reasoning="Ann?"),)), None, now()
        )
    )
    (call,) = read_back(tmp_path / "a.trace", recorder).calls
    assert call.response is not None
    expected = Sample("for A.", "stop", None, (ToolCall("c", "f", '"A."'),), "A.?")
    assert call.response.samples == (expected,)


texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
media = st.builds(
    lambda data, detail: Image.from_bytes(data, "image/png", detail=detail),
    st.binary(min_size=1, max_size=20),
    st.none() | texts,
) | st.builds(lambda data: Audio(data, "wav"), st.binary(min_size=1, max_size=20))
calls = st.lists(st.builds(ToolCall, texts, texts, texts), max_size=3)
messages = (
    st.builds(lambda parts, name: UserMessage(parts, name=name), st.lists(texts | media), st.none() | texts)
    | st.builds(lambda text, calls: AIMessage(text, tool_calls=calls), texts, calls)
    | st.builds(ToolMessage, texts, st.none() | texts, st.booleans())
)  # fmt: skip


@given(st.lists(messages, min_size=1, max_size=5))
def test_any_conversation_comes_back(
    tmp_path_factory: pytest.TempPathFactory, said_then: list[Message]
) -> None:
    path = tmp_path_factory.mktemp("traces") / "a.trace"
    assert said(recorded(path, *said_then)) == said_then


samples = st.builds(
    Sample, texts, texts, st.none(), calls.map(tuple), st.none() | texts
)  # fmt: skip


@given(st.lists(samples, min_size=1, max_size=3))
def test_any_answer_comes_back(found: list[Sample]) -> None:
    response = Response(tuple(found))
    (data,) = codec.unpack(codec.pack(record.response_data(response)))
    assert record.response_from(data) == response


@pytest.mark.parametrize(
    "fields",
    [
        ("G", 7, "video", None, b"x", "video/mp4", None),
        ("G", 7, "image", 5, b"x", "image/png", None),
        ("M", 7, "user", "x", {"media": [[0, 99]]}),
        ("M", 7, "user", "x", {"media": [["0", 1]]}),
        ("M", 7, "assistant", "x", {"calls": [["a", "b"]]}),
        ("M", 7, "assistant", "x", {"calls": [["a", "b", 3]]}),
        ("M", 7, "user", "x", {"name": 3}),
        ("M", 7, "tool", "x", {"error": 1}),
        ("M", 7, "tool", "x", [1]),
    ],
)
def test_a_damaged_record_is_a_trace_error(fields: tuple[object, ...], tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace")
    recorder.writer.append(codec.pack(fields))
    recorder.close()
    with pytest.raises(TraceCorrupt, match="is not valid"):
        Trace.open(tmp_path / "a.trace", check=True)
