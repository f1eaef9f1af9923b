"""What a server does not heed is an error, or is told: of tools, of choices among them, of seeds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appl.errors import BackendRefused, MalformedResponse
from appl.testing import Fault
from appl_backends.embedded import WEIGHTS
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI
from appl_backends.sglang import SGLang
from tests.providers.asking import JSON, chat, closing, delta, request, says, streams
from tests.wire.servers import FaultServer

TOOLS = ('{"name": "today", "parameters": {"type": "object"}}',
         '{"name": "add", "parameters": {"type": "object"}}')  # fmt: skip


def calling(*names: str, text: str | None = None) -> dict[str, Any]:
    calls = [{"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
             for at, name in enumerate(names)]  # fmt: skip
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return message | ({"tool_calls": calls} if calls else {})


UNHEEDED = [
    ("required", calling(text="I would rather talk.")),
    ("today", calling(text="No.")),
    ("today", calling("add")),
    ("none", calling("add")),
]


def streamed(message: dict[str, Any]) -> FaultServer:
    calls = [{"index": at, **call} for at, call in enumerate(message.get("tool_calls", ()))]
    return streams(delta(content=message["content"], tool_calls=calls), delta(finish="stop"))


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("client", ["openai", "litellm"])
@pytest.mark.parametrize(("choice", "message"), UNHEEDED)
async def test_a_tool_choice_that_is_not_heeded_is_an_error(
    choice: str, message: dict[str, Any], client: str, is_streamed: bool
) -> None:
    body = json.dumps(chat(message)).encode()
    with (
        streamed(message)
        if is_streamed
        else FaultServer([Fault("given", 200, JSON, body)]) as server
    ):
        kind = OpenAI if client == "openai" else LiteLLM
        async with closing(kind(base_url=server.openai_url, api_key="k")) as backend:
            model = "openai/m" if client == "litellm" else "m"
            asked = request("q", model=model, tools=TOOLS, tool_choice=choice)
            with pytest.raises(BackendRefused, match="does not heed gen\\(tool_choice="):
                await backend.complete(asked, (lambda chunk: None) if is_streamed else None)


@pytest.mark.parametrize(
    ("choice", "message", "finish"),
    [
        ("required", calling("add"), "tool_calls"),
        ("today", calling("today"), "stop"),
        ("required", calling(text="I would"), "length"),
        ("none", calling(text="No call."), "stop"),
        ("none", calling("add", text="A text is an answer."), "tool_calls"),
        ("auto", calling(text="No call."), "stop"),
    ],
)
async def test_a_tool_choice_that_is_heeded_is_not_in_the_way(
    choice: str, message: dict[str, Any], finish: str
) -> None:
    body = json.dumps(chat(message, finish)).encode()
    with FaultServer([Fault("given", 200, JSON, body)]) as server:
        async with closing(OpenAI(base_url=server.openai_url)) as backend:
            asked = request("q", tools=TOOLS, tool_choice=choice)
            assert (await backend.complete(asked)).text == (message["content"] or "")


async def test_llama_cpp_which_knows_no_names_is_offered_the_named_tool_alone() -> None:
    with says(chat(calling("today"))) as server:
        server.become("llama.cpp")
        async with closing(OpenAI(base_url=server.openai_url, server="llama.cpp")) as backend:
            await backend.complete(request("q", tools=TOOLS, tool_choice="today"))
    sent = server.asks[0].data
    assert sent["tool_choice"] == "required"
    assert [each["function"]["name"] for each in sent["tools"]] == ["today"]


async def test_a_model_of_llama_cpp_that_sees_nothing_is_asked_once() -> None:
    said = "image input is not supported - hint: you may need to provide the mmproj"
    body = json.dumps({"error": {"code": 500, "message": said, "type": "server_error"}})
    with FaultServer([Fault("given", 500, JSON, body.encode())]) as server:
        async with closing(OpenAI(base_url=server.openai_url, server="llama.cpp")) as backend:
            with pytest.raises(BackendRefused, match="image input is not supported"):
                await backend.complete(request("q"))


FORMS = [("regex", "[0-9]{3}", "123", "a few"), ("grammar", 'root ::= "yes" | "no"', "yes", "Yes")]


@pytest.mark.parametrize(("name", "form", "good", "bad"), FORMS)
async def test_a_text_of_another_form_is_an_error_that_says_what_to_write(
    name: str, form: str, good: str, bad: str
) -> None:
    asked = request("q", **{name: form})
    answers = [chat(good), chat(bad), chat(bad, "length")]
    with says(*answers) as server:
        server.become("vllm")
        async with closing(OpenAI(base_url=server.openai_url, server="vllm")) as backend:
            assert (await backend.complete(asked)).text == good
            with pytest.raises(BackendRefused, match=f'write without = ."{name}".'):
                await backend.complete(asked)
            assert (await backend.complete(asked)).text == bad  # cut by its limit


async def test_nothing_is_said_of_a_grammar_that_cannot_be_read_here() -> None:
    with says(chat("anything")) as server:
        server.become("vllm")
        async with closing(OpenAI(base_url=server.openai_url, server="vllm")) as backend:
            asked = request("q", grammar="root ::= <another dialect>")
            assert (await backend.complete(asked)).text == "anything"


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_call_that_nobody_offered_is_no_empty_answer(is_streamed: bool) -> None:
    message = calling("get_time")
    body = json.dumps(chat(message, "tool_calls")).encode()
    with (
        streamed(message)
        if is_streamed
        else FaultServer([Fault("given", 200, JSON, body)]) as server
    ):
        async with closing(OpenAI(base_url=server.openai_url)) as backend:
            with pytest.raises(MalformedResponse, match="called get_time, though no tool"):
                await backend.complete(request("q"), (lambda chunk: None) if is_streamed else None)


@pytest.mark.parametrize("options", [{"tools": TOOLS}, {"extra": (("extra_body", {"a": 1}),)}])
async def test_a_call_of_an_offered_tool_may_have_another_name(options: dict[str, Any]) -> None:
    body = json.dumps(chat(calling("get_time"), "tool_calls")).encode()
    with FaultServer([Fault("given", 200, JSON, body)], fields=["a"]) as server:
        async with closing(OpenAI(base_url=server.openai_url)) as backend:
            response = await backend.complete(request("q", **options))
    assert response.samples[0].tool_calls[0].name == "get_time"


async def test_a_text_with_a_call_that_nobody_offered_is_an_answer() -> None:
    body = json.dumps(chat(calling("get_time", text="It is late."), "tool_calls")).encode()
    with FaultServer([Fault("given", 200, JSON, body)]) as server:
        async with closing(OpenAI(base_url=server.openai_url)) as backend:
            assert (await backend.complete(request("q"))).text == "It is late."


async def test_that_a_server_of_sglang_ignores_seeds_is_told_once() -> None:
    told: list[str] = []
    with FaultServer([], model_path=str(WEIGHTS)) as server:
        backend = SGLang(url=server.url, tokenizer=WEIGHTS, advise=told.append)
        async with closing(backend):
            for number in (1, 2):
                await backend.complete(request("Hello", model="", max_tokens=2, seed=number))
    assert sum("ignores gen(seed=...)" in line for line in told) == 1
