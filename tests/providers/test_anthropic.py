"""The backend ``anthropic``: what it asks, what it reads, and what it says of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appl.backend import Border, Request, Response, Reuse, Sampling
from appl.errors import (
    AuthenticationFailed,
    BackendBusy,
    BackendRefused,
    ModelNotFound,
    PromptTooLong,
    Unsupported,
)
from appl.prompt import Image, Message, Messages, ToolCall
from appl.testing import Fault
from appl_backends.anthropic import Anthropic
from appl_backends.anthropic.body import OPTIONS, body_of
from appl_backends.anthropic.schemas import structured
from tests.providers.asking import JSON, KEY, closing, request, says
from tests.wire import anthropic_subset
from tests.wire.servers import FaultServer
from tests.wire.test_requests import TALKS, TOOL
from tests.wire.twins import claude

USAGE = {"input_tokens": 10, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 70,
         "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 40},
         "output_tokens": 20, "output_tokens_details": {"thinking_tokens": 15},
         "service_tier": "standard"}  # fmt: skip


def message(*content: Any, stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    """An answer of Anthropic's; a text is a block of text."""
    blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]
    return {"id": "m1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": blocks, "stop_reason": stop, "usage": USAGE, **more}  # fmt: skip


async def asked(*answers: Any, ask: Any = None, **settings: Any) -> tuple[Response, FaultServer]:
    with says(*answers) as server:
        async with closing(Anthropic(base_url=server.url, api_key=KEY, **settings)) as backend:
            return await backend.complete(ask or request("hi", model="claude-sonnet-4-5")), server


async def test_it_is_asked_with_key_and_version_at_its_address() -> None:
    for path in ("", "/v1", "/v1/messages"):
        with says(message("ok")) as server:
            async with closing(Anthropic(base_url=server.url + path, api_key=KEY)) as backend:
                await backend.complete(request("hi"))
        (ask,) = server.asks
        assert ask.path == "/v1/messages" and ask.headers["x-api-key"] == KEY
        assert ask.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in ask.headers


async def test_a_missing_key_is_told_before_anything_is_sent(monkeypatch: Any) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AuthenticationFailed, match="export ANTHROPIC_API_KEY=YOUR_KEY"):
        await Anthropic().complete(request("hi"))


async def test_the_key_of_the_environment_stays_at_home(monkeypatch: Any) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with says(message("ok")) as server:
        async with closing(Anthropic(base_url=server.url)) as backend:
            await backend.complete(request("hi"))
    assert KEY not in str(server.asks[0].headers)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_each_option_and_talk_is_of_the_type(stream: bool) -> None:
    option = {"extra_body": {"inference_geo": "us"}, "metadata": {"user_id": "u"}, "user": "u",
              "parallel_tool_calls": False, "reasoning_effort": "low", "service_tier": "auto",
              "thinking": {"type": "adaptive"}, "top_k": 3}  # fmt: skip
    full: dict[str, Any] = {
        "max_tokens": 5,
        "temperature": 0.5,
        "stop": ("a", " "),
        "tools": (TOOL,),
    }
    twin = claude.Claude(failing=0)
    emit = (lambda chunk: None) if stream else None
    with FaultServer(twin) as server:
        async with closing(Anthropic(base_url=server.url, api_key=KEY)) as backend:
            assert set(option) == OPTIONS
            for name in sorted(OPTIONS):
                await backend.complete(request("hi", extra=((name, option[name]),)), emit)
            for talk in TALKS.values():
                for choice in (None, "auto", "none", "required", "add"):
                    await backend.complete(request(*talk, tool_choice=choice, **full), emit)
            await backend.complete(request("hi", model="claude-sonnet-4-5"), emit)
            await backend.complete(request("hi", "Well, ", model="claude-sonnet-4-5"), emit)
            await backend.complete(request("hi", "Well, ", model="claude-opus-5"), emit)
    assert not twin.refused and server.looked_at == len(OPTIONS) + 5 * len(TALKS) + 3


async def test_usage_has_the_classes_that_are_billed() -> None:
    found, _ = await asked(message("ok"))
    usage = found.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (380, 20)
    assert (usage.cached_tokens, usage.written_tokens, usage.written_1h_tokens) == (300, 30, 40)
    assert usage.reasoning_tokens == 15 and usage.tier == "" and usage.uncached_tokens == 10
    fast, _ = await asked(message("ok", usage={**USAGE, "speed": "fast"}))
    far, _ = await asked(message("ok", usage={**USAGE, "inference_geo": "us"}))
    assert fast.usage.tier == "fast" and far.usage.tier == "in us"


async def test_a_miss_of_the_cache_has_the_reason_of_the_provider() -> None:
    why = {"cache_miss_reason": {"type": "tools_changed"}}
    found, _ = await asked(message("ok", diagnostics=why))
    assert found.cache_miss == "tools_changed"


@pytest.mark.parametrize(
    ("stop", "finish"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"),
     ("model_context_window_exceeded", "length"), ("pause_turn", "pause_turn")],
)  # fmt: skip
async def test_each_reason_to_stop_has_a_word(stop: str, finish: str) -> None:
    found, _ = await asked(message("ok", stop=stop))
    assert found.samples[0].finish_reason == finish


async def test_a_refusal_is_no_answer() -> None:
    with pytest.raises(BackendRefused, match="stopped the answer"):
        await asked(message("I", stop="refusal"))


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [(529, "overloaded_error", BackendBusy), (401, "authentication_error", AuthenticationFailed),
     (404, "not_found_error", ModelNotFound), (400, "invalid_request_error", PromptTooLong)],
)  # fmt: skip
async def test_an_error_has_its_class(status: int, kind: str, error: Any) -> None:
    said = {"not_found_error": "model: claude-9 not found"}.get(
        kind, "prompt is too long: 3 tokens"
    )
    body = {"type": "error", "error": {"type": kind, "message": said}}
    with FaultServer([Fault("no", status, JSON, json.dumps(body).encode())]) as server:
        async with closing(Anthropic(base_url=server.url, api_key=KEY)) as backend:
            with pytest.raises(error):
                await backend.complete(request("hi"))


async def test_tokens_are_counted_without_an_answer() -> None:
    with FaultServer([Fault("n", 200, JSON, b'{"input_tokens": 17}')]) as server:
        async with closing(Anthropic(base_url=server.url, api_key=KEY)) as backend:
            question = request("hi", model="m", tools=(TOOL,), temperature=1.0, max_tokens=9)
            assert await backend.prompt_tokens(question) == 17
    (ask,) = server.asks
    assert ask.path == "/v1/messages/count_tokens" and ask.data.keys() == {"model", "messages", "tools"}  # fmt: skip


async def test_models_are_listed_page_by_page() -> None:
    pages = [{"data": [{"id": "a"}, {"id": "b"}], "has_more": True}, {"data": [{"id": "c"}], "has_more": False}]  # fmt: skip
    faults = [Fault("page", 200, JSON, json.dumps(each).encode()) for each in pages]
    with FaultServer(faults, gets=True) as server:
        async with closing(Anthropic(base_url=server.url, api_key=KEY)) as backend:
            assert await backend.list_models() == ["a", "b", "c"]


async def test_what_the_system_says_stands_apart_and_results_stand_with_what_follows() -> None:
    call = ToolCall("toolu.1", "add", "")
    talk = [Message("system", "s"), Message("assistant", "a"), Message("user", " "),
            Message("assistant", "", tool_calls=(call,)), Message("tool", "", tool_call_id="toolu.1", has_error=True),
            Message("user", "x")]  # fmt: skip
    _, server = await asked(message("ok"), ask=request(*talk))
    sent = server.asks[0].data
    assert sent["system"] == [{"type": "text", "text": "s"}]
    assert [each["role"] for each in sent["messages"]] == ["user", "assistant", "user"]
    id = sent["messages"][1]["content"][1]["id"]
    result = {"type": "tool_result", "tool_use_id": id, "is_error": True}
    assert sent["messages"][2]["content"] == [result, {"type": "text", "text": "x"}]


async def test_pictures_are_sent_and_sounds_are_refused() -> None:
    png = Image.from_bytes(b"\x89PNG\r\n\x1a\nrest")
    talk = Message("user", "ab", media=((0, png), (1, Image("https://x.org/a.png"))))
    _, server = await asked(message("ok"), ask=request(talk))
    kinds = [each["source"]["type"] for each in server.asks[0].data["messages"][0]["content"] if each["type"] == "image"]  # fmt: skip
    assert kinds == ["base64", "url"]
    with pytest.raises(Unsupported):
        from appl.prompt import Audio

        await asked(message("ok"), ask=request(Message("user", "", media=((0, Audio(b"RIFF0000WAVE", "wav")),))))  # fmt: skip


def test_constraints_that_are_not_taken_are_told_in_words() -> None:
    schema = {"type": "object", "required": ["n"], "additionalProperties": False, "properties": {
        "n": {"type": "integer", "minimum": 3, "description": "A number."},
        "l": {"type": "array", "items": {"type": "string", "maxLength": 4}, "minItems": 2}}}  # fmt: skip
    text, fits = structured(json.dumps(schema))
    found = json.loads(text)
    assert fits and not anthropic_subset.problems(found)
    assert found["properties"]["n"]["description"] == "A number. (minimum: 3)"
    assert found["properties"]["l"]["description"] == "(minItems: 2)"


async def test_a_schema_that_is_not_taken_is_asked_for_in_words() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    _, server = await asked(message('{"a": 1}'), ask=request("hi", schema=json.dumps(schema)))
    sent = server.asks[0].data
    assert "output_config" not in sent
    assert "fits this JSON schema" in sent["messages"][0]["content"][-1]["text"]


async def test_the_limit_that_must_be_there_leaves_room_for_thoughts() -> None:
    _, plain = await asked(message("ok"))
    budget = (("thinking", {"type": "enabled", "budget_tokens": 60_000}),)
    _, thinks = await asked(message("ok"), ask=request("hi", model="claude-sonnet-4-5", extra=budget))  # fmt: skip
    _, own = await asked(message("ok"), max_tokens=77)
    assert plain.asks[0].data["max_tokens"] == 32_000
    assert thinks.asks[0].data["max_tokens"] > 60_000 and own.asks[0].data["max_tokens"] == 77


def used(*borders: Border, **more: Any) -> Any:
    question = request(
        Message("system", "s" * 20_000), Message("user", "f" * 9_000 + "q"), model="m"
    )
    question.reuse = Reuse(borders, **more)
    return question


async def test_marks_and_cuts_stand_where_other_prompts_leave() -> None:
    border = Border(1, 9_000, b"d", sent=1, to_come=3, tokens=9_000)
    _, server = await asked(message("ok"), ask=used(border, goes_on=False))
    front, end = server.asks[0].data["messages"][0]["content"]
    assert front == {"type": "text", "text": "f" * 9_000, "cache_control": {"type": "ephemeral"}}
    assert end == {"type": "text", "text": "q"} and "cache_control" not in server.asks[0].data
    _, growing = await asked(message("ok"), ask=used(goes_on=True))
    assert growing.asks[0].data["cache_control"] == {"type": "ephemeral"}
    _, once = await asked(message("ok"), ask=used(goes_on=False))
    _, off = await asked(message("ok"), ask=used(border), cache_marks=False)
    assert "cache_control" not in str(once.asks[0].data) + str(off.asks[0].data)


def test_a_long_conversation_is_put_together_from_kept_pieces() -> None:
    grown, said = None, list[Message]()
    for at in range(50):
        said.append(Message("assistant" if at % 2 else "user", f"text {at}"))
        grown = Messages(grown, said[-1])
        if at % 2:
            continue
        question = Request("/", 0, "m", grown, Sampling())
        body = json.loads(b"".join(body_of(question, "m").pieces))
        blocks = [{"type": "text", "text": each.content} for each in said]
        assert body["messages"] == [{"role": each.role, "content": [block]} for each, block in zip(said, blocks, strict=True)]  # fmt: skip


async def test_an_answer_of_white_space_does_not_end_a_turn_in_which_another_model_called() -> None:
    call = ToolCall("a", "add", "{}")
    talk = [Message("user", "q"), Message("assistant", "", tool_calls=(call,)),
            Message("tool", "3", tool_call_id="a"), Message("assistant", "\n"), Message("user", "x")]  # fmt: skip
    think = (("thinking", {"type": "enabled", "budget_tokens": 1024}),)
    _, server = await asked(message("ok"), ask=request(*talk, extra=think))
    assert "thinking" not in server.asks[0].data
