"""The litellm backend: what reaches a provider, what comes back, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from appl.backend import Chunk, Usage
from appl.backend.http import EXCERPT
from appl.errors import (
    AuthenticationFailed,
    BackendError,
    BackendRefused,
    MalformedResponse,
    ModelNotFound,
    PromptTooLong,
    Unsupported,
)
from appl.prompt import Message, Messages, ToolCall
from appl.testing.faults import FAULTS, Fault
from appl_backends.litellm import LiteLLM, messages_of
from tests.providers.asking import JSON, KEY, STREAM, chat, closing, names, request, says
from tests.wire.servers import FaultServer

TOOL = '{"description":"add","name":"add","parameters":{"type":"object"}}'
CLAUDE = "anthropic/claude-sonnet-4-5"


def openai(*said: Any, **options: Any) -> Any:
    return request(*said, model="openai/gpt-4o-mini", **options)


async def answered(at: FaultServer, asked: Any = None, emit: Any = None, **settings: Any) -> Any:
    """The response of a provider that speaks OpenAI's interface."""
    async with closing(LiteLLM(base_url=at.openai_url, api_key=KEY, **settings)) as backend:
        return await backend.complete(asked or openai(), emit)


async def failed(at: FaultServer, asked: Any = None, emit: Any = None) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await answered(at, asked, emit)
    return caught.value


# -- a provider that speaks OpenAI's interface


async def test_a_question_is_sent_and_its_answer_comes_back_with_usage() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100,
             "prompt_tokens_details": {"cached_tokens": 600}}  # fmt: skip
    with says(chat("Paris", usage=usage)) as server:
        found = await answered(
            server, openai("Capital?", temperature=0.5, max_tokens=9, stop=("x",))
        )
    body = server.asks[0].data
    assert body["messages"] == [{"role": "user", "content": "Capital?"}]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("gpt-4o-mini", 0.5, 9)
    assert body["stop"] == ["x"] and server.asks[0].headers["authorization"] == f"Bearer {KEY}"
    assert (found.text, found.usage) == ("Paris", Usage(1000, 100, 600))
    assert found.cost is None  # of a server that is not OpenAI's


async def test_a_stream_is_passed_on_with_usage() -> None:
    seen: list[Chunk] = []
    with FaultServer() as server:
        found = await answered(server, openai("q"), seen.append)
        assert found.text == "".join(chunk.text for chunk in seen) == server.answer("q")
    assert (
        len(seen) > 3 and found.usage == Usage(8, 6, 0, reasoning_tokens=0) and found.cost is None
    )


async def test_tools_and_schemas_are_sent_and_calls_come_back() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    schema = '{"type":"object","properties":{},"additionalProperties":false}'
    with says(
        chat({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")
    ) as server:
        found = await answered(server, openai(tools=(TOOL,), tool_choice="add", schema=schema))
    body = server.asks[0].data
    assert body["tools"] == [{"type": "function", "function": json.loads(TOOL)}]
    assert body["tool_choice"]["function"] == {"name": "add"}
    assert body["response_format"]["json_schema"]["strict"] is True
    assert found.samples[0].tool_calls == (ToolCall("c1", "add", '{"a":1}'),)


FAILING = [fault for fault in FAULTS if fault.ends != "hang"]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("fault", FAILING, ids=names(FAILING))
async def test_every_fault_is_one_attempt_and_an_error_that_may_be_tried_again(
    fault: Fault, streamed: bool
) -> None:
    emit = (lambda chunk: None) if streamed else None
    with FaultServer([fault]) as server:
        error = await failed(server, openai("q"), emit)
        assert error.retriable and KEY not in str(error) and len(server.asks) == 1
        assert len(str(error)) < 2 * EXCERPT
        again = await answered(server, openai("q"), emit)
        assert again.text == server.answer("q")


async def test_the_time_to_wait_is_kept() -> None:
    with FaultServer([Fault("429", 429, {"Retry-After": "7"}, b"{}")]) as server:
        assert (await failed(server)).retry_after == 7.0


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, f"Incorrect API key provided: {KEY}", AuthenticationFailed),
        (400, "This model's maximum context length is 8192 tokens", PromptTooLong),
        (400, "bad parameter", BackendRefused),
        (404, "The model `gpt-x` does not exist", ModelNotFound),
    ],
)
async def test_a_refusal_is_typed(status: int, message: str, kind: type[BackendError]) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    with FaultServer([Fault("given", status, JSON, body)]) as server:
        error = await failed(server)
    assert type(error) is kind and KEY not in str(error)
    assert "litellm." not in str(error) and "Exception" not in str(error)


async def test_a_provider_must_be_named_and_what_it_cannot_do_is_said() -> None:
    async with closing(LiteLLM()) as backend:
        with pytest.raises(ModelNotFound, match="PROVIDER/MODEL"):
            await backend.complete(request(model="nobody"))
        with pytest.raises(ModelNotFound, match="which model"):
            await backend.complete(request(model=""))
        with pytest.raises(Unsupported, match="seed"):
            await backend.complete(request(model=CLAUDE, seed=1))


async def test_prices_are_known_before_a_call_once_litellm_is_there() -> None:
    backend = LiteLLM()
    await backend.connect()
    price = backend.prices.get("anthropic/claude-sonnet-4-5")
    assert price is not None and price.prompt >= 3 and price.answer >= 15
    assert backend.prices.get("nobody/knows") is None


def test_prices_are_known_before_litellm_is_there() -> None:
    code = """
import sys
from appl_backends.litellm import LiteLLM
price = LiteLLM().prices.get("anthropic/claude-sonnet-4-5")
assert "litellm" not in sys.modules
print(price.prompt, price.answer, price.written)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "15", "3.75"]


@pytest.mark.parametrize(
    ("model", "settings", "known"),
    [
        ("openai/gpt-4o-mini", {}, True),
        ("gpt-4o-mini", {}, True),
        ("openai/gpt-4o-mini", {"base_url": "http://127.0.0.1:8000/v1"}, False),
        ("gpt-4o-mini", {"base_url": "http://127.0.0.1:8000/v1"}, False),
        ("gpt-4o-mini", {"parameters": {"api_base": "http://lan/v1"}}, False),
        ("openai/gpt-4o-mini", {"base_url": "https://api.openai.com/v1"}, True),
        ("azure/gpt-4o-mini", {"base_url": "https://me.openai.azure.com"}, True),
        ("azure/gpt-4o-mini", {"base_url": "https://lan"}, False),
        ("anthropic/claude-sonnet-4-5", {"base_url": "https://gateway.example.org"}, True),
        ("hosted_vllm/gpt-4o-mini", {"base_url": "http://lan/v1"}, False),
        ("ollama/llama3.1", {}, False),
    ],
)
async def test_only_who_reaches_the_provider_has_its_prices(
    model: str, settings: dict[str, Any], known: bool
) -> None:
    backend = LiteLLM(**settings)
    assert (backend.prices.get(model) is not None) == known
    await backend.connect()
    assert (backend.prices.get(model) is not None) == known


async def test_an_address_in_the_environment_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:8000/v1")
    assert LiteLLM().prices.get("openai/gpt-4o-mini") is None


# -- Anthropic's own interface


def claude(usage: dict[str, int], stop: str | None = "end_turn") -> Fault:
    answer = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Paris"}], "stop_reason": stop, "usage": usage,
    }  # fmt: skip
    return Fault("given", 200, JSON, json.dumps(answer).encode())


USAGE = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 2000,
         "cache_creation_input_tokens": 300}  # fmt: skip


async def of_claude(at: FaultServer, asked: Any, emit: Any = None) -> Any:
    async with closing(LiteLLM(base_url=at.url, api_key=KEY)) as backend:
        return await backend.complete(asked, emit)


async def test_the_ends_of_shared_prefixes_are_marked_for_claude() -> None:
    said = [
        Message("system", "be brief"),
        Message("user", "a"),
        Message("assistant", "b"),
        Message("user", "c"),
    ]
    with FaultServer([claude(USAGE)]) as server:
        found = await of_claude(server, request(*said, model=CLAUDE))
    body, mark = server.asks[0].data, {"cache_control": {"type": "ephemeral"}}
    assert body["system"] == [{"type": "text", "text": "be brief", **mark}]
    assert [message["content"] for message in body["messages"]] == [
        [{"type": "text", "text": "a"}], [{"type": "text", "text": "b", **mark}],
        [{"type": "text", "text": "c"}],
    ]  # fmt: skip
    assert found.usage == Usage(2400, 10, 2000, 300, reasoning_tokens=0)
    assert found.cost == round(100 * 3 + 2000 * 0.3 + 300 * 3.75 + 10 * 15)


async def test_an_answer_of_claude_without_its_reason_to_stop_has_an_unknown_one() -> None:
    with FaultServer([claude(USAGE, stop=None)]) as server:
        (sample,) = (await of_claude(server, request(model=CLAUDE))).samples
    assert sample.text and sample.finish_reason == "unknown"


async def test_a_stream_of_claude_is_complete_only_with_its_reason_to_stop() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
         "model": "c", "content": [], "stop_reason": None, "usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Par"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "is"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]  # fmt: skip

    def sends(count: int) -> Fault:
        lines = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events[:count]]
        return Fault("given", 200, STREAM, "".join(lines).encode())

    seen: list[Chunk] = []
    with FaultServer([sends(7), sends(4)]) as server:
        found = await of_claude(server, request(model=CLAUDE), seen.append)
        assert found.text == "Paris" and seen == [Chunk(0, "Par"), Chunk(0, "is")]
        assert found.cost == found.usage.prompt_tokens * 3 + 2 * 15 == 3 * 3 + 2 * 15
        with pytest.raises(MalformedResponse):
            await of_claude(server, request(model=CLAUDE), lambda chunk: None)


def marked(*roles: str, marks: bool = True) -> list[int]:
    """Where messages of these roles are marked."""
    messages = Messages.of([Message(role, f"{at}") for at, role in enumerate(roles)])  # type: ignore[arg-type]
    found = messages_of(messages, marks=marks)
    return [at for at, each in enumerate(found) if "cache_control" in json.dumps(each)]


def test_marks_stand_where_other_calls_may_go_on() -> None:
    assert marked("user") == []
    assert marked("system", "user") == [0]
    assert marked("system", "system", "user") == [1]
    assert marked("user", "assistant", "user") == [1]
    assert marked("system", "user", "assistant", "user") == [0, 2]
    assert marked("system", "user", "assistant", "user", marks=False) == []
    assert marked("system") == [0]


def test_the_last_part_of_a_message_carries_the_mark_and_results_of_tools_as_a_whole() -> None:
    call = ToolCall("c", "f", "{}")
    messages = Messages.of([
        Message("user", "x"), Message("assistant", "", tool_calls=(call,)),
        Message("tool", "r", tool_call_id="c"), Message("user", "y"),
    ])  # fmt: skip
    assert messages_of(messages, marks=True)[2]["cache_control"] == {"type": "ephemeral"}


# -- what it keeps to itself


def test_it_is_imported_at_the_first_call_without_a_network_and_no_variable_stays_changed() -> None:
    """But for the one in which litellm itself says where its tokenizers lie."""
    code = """
import asyncio, os, socket, sys
from appl.backend import load
before = dict(os.environ)
backend = load("appl_backends.litellm:LiteLLM", {"model": "openai/x"})
assert "litellm" not in sys.modules
def refuse(*a, **k): raise AssertionError("the network was used")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
litellm = asyncio.run(backend._ready())
os.environ.pop("TIKTOKEN_CACHE_DIR")
assert dict(os.environ) == before, set(os.environ) ^ set(before)
print(litellm.telemetry, litellm.drop_params, litellm.num_retries, len(litellm.model_cost) > 500)
"""
    theirs = ("LITELLM", "TIKTOKEN")  # which other tests may have left here
    environ = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert done.stdout.split() == ["False", "False", "None", "True"], done.stderr


async def test_cancelling_a_call_breaks_its_connection_off() -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    hang = next(fault for fault in FAULTS if fault.name == "slow head")

    def script(ask: Any) -> Fault:
        loop.call_soon_threadsafe(asked.set)
        return hang

    with FaultServer(script) as server:
        task = asyncio.ensure_future(answered(server))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
