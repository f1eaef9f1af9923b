"""What a provider wants back goes back to it, unchanged and in place, and to nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import AIRole, gen, gen_with_tools, ppl
from appl.errors import BackendRefused, InvalidOption, Unsupported
from appl.testing import Fault, Policy, Retries, Run
from appl.tracing import Appender, Recorder, Resumer, Trace, profile_data
from appl_backends.openai import OpenAI
from tests.providers.asking import JSON, STREAM, using
from tests.wire.servers import FaultServer

SIGNATURE = "CpcBAdHtim9_wZ+/" * 20 + "=="
SIGNED = {"google": {"thought_signature": SIGNATURE}}
DETAILS = [
    {"type": "reasoning.encrypted", "data": "gAAAAAB" + "x" * 200, "index": 0, "format": "f"}
]
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'},
        "extra_content": SIGNED}  # fmt: skip
CALLS = {"role": "assistant", "content": None, "reasoning_content": "I must add",
         "reasoning_details": DETAILS, "annotations": [], "tool_calls": [CALL]}  # fmt: skip
SAYS = {"role": "assistant", "content": "3", "extra_content": SIGNED}


def whole(message: dict[str, Any]) -> Fault:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    answer = {"id": "x", "model": "m", "choices": [{"message": message, "finish_reason": finish}]}
    return Fault("said", 200, JSON, json.dumps(answer).encode())


def streamed(message: dict[str, Any]) -> Fault:
    """The same in the pieces of a stream."""
    pieces: list[dict[str, Any]] = [{"role": "assistant"}]
    for name, value in message.items():
        if isinstance(value, str):
            pieces += [{name: value[:2]}, {name: value[2:]}]
        elif name == "tool_calls":
            for at, each in enumerate(value):
                text = each["function"]["arguments"]
                first = {
                    **each,
                    "index": at,
                    "function": {**each["function"], "arguments": text[:3]},
                }
                rest = {"index": at, "function": {"arguments": text[3:]}}
                pieces += [{"tool_calls": [first]}, {"tool_calls": [rest]}]
        elif name == "reasoning_details":
            cut = [{**each, "data": each["data"][:9]} for each in value]
            rest_of = [{"index": each["index"], "data": each["data"][9:]} for each in value]
            pieces += [{name: cut}, {name: rest_of}]
        elif value:
            pieces.append({name: value})
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    events = [{"choices": [{"delta": piece}]} for piece in pieces]
    events.append({"choices": [{"delta": {}, "finish_reason": finish}]})
    body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    return Fault("said", 200, STREAM, body + b"data: [DONE]\n\n")


@appl.as_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@ppl
def agent() -> str:
    "What is 1 + 2?"
    return str(gen_with_tools(tools=[add]))


@ppl
def by_hand(stream: bool) -> list[Any]:
    "What is 1 + 2?"
    (answer := gen(tools=[add], stream=stream))
    answer.run_tool_calls()
    with AIRole():
        gen(stream=stream)
    "Sure?"
    return [str(gen(stream=stream)), appl.convo().as_list()]


def backend(server: FaultServer, name: str = "openai", model: str = "m") -> OpenAI:
    return OpenAI(base_url=server.openai_url, model=model, name=name)


ONCE = Policy(retries=Retries(attempts=1))


@contextmanager
def recording(server: FaultServer, path: Path) -> Iterator[None]:
    """A run on *server* that is recorded at *path*."""
    asked = backend(server)
    recorder = Recorder(path, {"program": "p", "profile": profile_data(asked.profile)})
    try:
        with Run(asked, instruments=[recorder], gate=recorder.gate, policy=ONCE):
            yield
    finally:
        recorder.close()


@pytest.mark.parametrize("said", [whole, streamed])
def test_fields_of_calls_and_messages_go_back_in_place(said: Any) -> None:
    with FaultServer([said(CALLS), said(SAYS), whole(SAYS)]) as server, using(backend(server)):
        by_hand(said is streamed)
    second, third = server.asks[1].data["messages"], server.asks[2].data["messages"]
    sent = second[1]
    assert sent["tool_calls"] == [CALL]
    assert sent["reasoning_content"] == "I must add" and sent["reasoning_details"] == DETAILS
    assert "annotations" not in sent
    assert third[3] == SAYS and third[1] == sent


def test_another_model_or_server_does_not_get_them_and_the_trace_says_so(tmp_path: Path) -> None:
    @ppl
    def two() -> str:
        "What is 1 + 2?"
        (answer := gen("first/m", tools=[add]))
        answer.run_tool_calls()
        return str(gen("second/m"))

    with FaultServer([whole(CALLS)]) as one, FaultServer([whole(SAYS)]) as other:
        settings = {"first": {"type": "openai", "base_url": one.openai_url},
                    "second": {"type": "openai", "base_url": other.openai_url}}  # fmt: skip
        with appl.record(tmp_path / "run.trace", backends=settings, backend="first"):
            two()
    sent = other.asks[0].data["messages"][1]
    assert sent.keys() == {"role", "content", "tool_calls"}
    assert sent["tool_calls"][0].keys() == {"id", "type", "function"}
    call = Trace.open(tmp_path / "run.trace").calls[-1]
    assert set(call.response.shed) == {"reasoning_content", "reasoning_details", "extra_content"}


def test_they_are_recorded_and_replayed_but_no_part_of_the_digest(tmp_path: Path) -> None:
    found = []
    for number, message in enumerate((CALLS, {**CALLS, "reasoning_content": "other"})):
        path = tmp_path / f"{number}.trace"
        with FaultServer([whole(message), whole(SAYS)]) as server, recording(server, path):
            assert agent() == "3"
        trace = Trace.open(path)
        found.append([call.content for call in trace.calls])
        (sample,) = trace.calls[0].response.samples
        assert json.loads(sample.provider_fields.fields)["tool_calls"] == [
            {"extra_content": SIGNED}
        ]
        assert sample.provider_fields.source.startswith("openai (model m, at 127.0.0.1")
        told = trace.calls[1].messages.links()[1].message.provider_fields
        assert told == sample.provider_fields
    assert found[0] == found[1]


def test_a_resumed_agent_sends_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    gone = Fault("gone", 400, JSON, b'{"error": {"message": "no"}}')
    with FaultServer([whole(CALLS), gone, whole(SAYS)]) as server:
        with pytest.raises(BackendRefused), recording(server, path):
            agent()
        resumer = Resumer(Trace.open(path))
        appender = Appender(resumer)
        try:
            with Run(
                backend(server), instruments=[resumer, appender], gate=appender.gate, world=resumer
            ):
                assert agent() == "3"
        finally:
            appender.close()
    assert len(server.asks) == 3
    assert server.asks[2].data["messages"] == server.asks[1].data["messages"]
    assert server.asks[2].data["messages"][1]["tool_calls"] == [CALL]


def test_the_user_may_give_fields_and_they_are_sent() -> None:
    part = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}
    image = {
        "type": "image_url",
        "image_url": {"url": "https://x.org/a.png", "format": "image/png"},
    }
    given = [
        {"role": "system", "content": [part, {"type": "text", "text": " and short"}]},
        {"role": "user", "content": ["look ", image]},
        {**CALLS, "annotations": None},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]

    @ppl
    def ask() -> str:
        return str(gen(messages=given))

    own = ["cache_control", "format"]
    with FaultServer([whole(SAYS)], fields=own) as server, using(backend(server)):
        ask()
    sent = server.asks[0].data["messages"]
    assert sent[0]["content"] == [part, {"type": "text", "text": " and short"}]
    assert sent[1]["content"] == [{"type": "text", "text": "look "}, image]
    assert sent[2] == {name: value for name, value in CALLS.items() if name != "annotations"}


def test_a_field_that_a_backend_would_drop_is_refused() -> None:
    @ppl
    def ask() -> str:
        return str(gen(messages=[{"role": "user", "content": "x", "cache_control": {"type": "t"}}]))

    with appl.record(backend="embedded", trace=False), pytest.raises(Unsupported, match="'cache_c"):
        ask()
    with pytest.raises(InvalidOption, match="did you mean 'content'"):
        gen(messages=[{"role": "user", "content": "x", "contents": "y"}])


def test_text_that_joins_an_answer_takes_its_fields_away() -> None:
    @ppl
    def ask() -> str:
        "q"
        with AIRole():
            gen()
            "And so."
        "more"
        return str(gen())

    with FaultServer([whole(SAYS), whole(SAYS)]) as server, using(backend(server)):
        ask()
    assert server.asks[1].data["messages"][1] == {"role": "assistant", "content": "3\nAnd so."}
