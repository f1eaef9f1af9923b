"""The OpenAI-compatible backend: what it sends, what it makes of answers, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import appl
from appl.backend import Chunk, Draft, Response, Sample, Sampling, TokenLogprob, Usage
from appl.errors import (
    AuthenticationFailed,
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnavailable,
    ConfigError,
    MalformedResponse,
    ModelNotFound,
    PromptTooLong,
    Unsupported,
)
from appl.prompt import Audio, Image, Message, Messages, ToolCall
from appl.testing.faults import Fault
from appl_backends.openai import OpenAI
from appl_backends.openai.body import body_of
from appl_backends.openai.servers import server_for
from tests.providers.asking import KEY, chat, choice, closing, delta, request, says, streams
from tests.wire.servers import FaultServer

TOOL = '{"description":"add","name":"add","parameters":{"type":"object"}}'
PNG = b"\x89PNG\r\n\x1a\nrest"


async def sent(at: FaultServer, asked: Any = None, **settings: Any) -> dict[str, Any]:
    """The body that is sent for a request to a server of the kind in *settings*."""
    at.become(settings.get("server", "other"))
    async with closing(OpenAI(base_url=at.openai_url, **settings)) as backend:
        await backend.complete(asked or request())
    return dict(at.asks[-1].data)


async def answered(at: FaultServer, asked: Any = None, emit: Any = None, **settings: Any) -> Any:
    """The response to a request."""
    at.become(settings.get("server", "other"))
    async with closing(OpenAI(base_url=at.openai_url, **settings)) as backend:
        return await backend.complete(asked or request(), emit)


async def failed(
    at: FaultServer, asked: Any = None, emit: Any = None, **settings: Any
) -> BackendError:
    """The error of a request."""
    with pytest.raises(BackendError) as caught:
        await answered(at, asked, emit, **settings)
    return caught.value


# -- what is sent


async def test_a_plain_question_is_sent_as_it_is() -> None:
    with FaultServer() as server:
        body = await sent(server, request(Message("system", "be brief"), Message("user", "hi")))
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
    }


async def test_sampling_is_sent_under_openais_names() -> None:
    options = {
        "max_tokens": 9,
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 3,
        "stop": ("\n",),
        "logprobs": 2,
    }
    with FaultServer() as server:
        body = await sent(server, request(**options), server="vllm")
        hosted = await sent(server, request(**options), server="openai")
    assert body["max_tokens"] == hosted["max_completion_tokens"] == 9
    assert (body["temperature"], body["top_p"], body["seed"], body["stop"]) == (0.0, 0.5, 3, ["\n"])
    assert body["logprobs"] is True and body["top_logprobs"] == 2


async def test_several_samples_are_one_request_and_later_ones_have_other_seeds() -> None:
    with FaultServer() as server:
        body = await sent(server, request(n=3, sample=4, seed=10), server="vllm")
    assert body["n"] == 3 and body["seed"] == 14


async def test_tools_are_offered_and_one_may_be_demanded() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    with says(*[chat({"role": "assistant", "content": None, "tool_calls": [call]})] * 2) as server:
        free = await sent(server, request(tools=(TOOL,), tool_choice="required"))
        named = await sent(server, request(tools=(TOOL,), tool_choice="add"))
    assert free["tools"] == [{"type": "function", "function": json.loads(TOOL)}]
    assert free["tool_choice"] == "required"
    assert named["tool_choice"] == {"type": "function", "function": {"name": "add"}}


async def test_tool_calls_and_their_results_are_sent_back() -> None:
    call = ToolCall("c1", "add", '{"a":1}')
    said = [
        Message("user", "1+1"), Message("assistant", "", tool_calls=(call,)),
        Message("tool", "2", tool_call_id="c1"),
    ]  # fmt: skip
    with FaultServer() as server:
        body = await sent(server, request(*said))
    assert body["messages"][1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [call.as_dict()],
    }
    assert body["messages"][2] == {"role": "tool", "content": "2", "tool_call_id": "c1"}


async def test_images_and_sounds_are_parts_of_a_message() -> None:
    message = Message(
        "user", "look: ", media=((6, Image.from_bytes(PNG)), (6, Audio(b"RIFF0000WAVE", "wav")))
    )
    with FaultServer() as server:
        body = await sent(server, request(message), server="vllm")
    kinds = [part["type"] for part in body["messages"][0]["content"]]
    assert kinds == ["text", "image_url", "input_audio"]
    with FaultServer() as server, pytest.raises(Unsupported, match="sound"):
        await sent(server, request(message), server="ollama")


STRICT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
          "additionalProperties": False}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (STRICT, True),
        ({**STRICT, "properties": {"a": {"anyOf": [{"type": "null"}, STRICT]}}}, True),
        ({**STRICT, "required": []}, False),
        ({**STRICT, "additionalProperties": {"type": "integer"}}, False),
        ({**STRICT, "properties": {"a": {"type": "object"}}}, False),
        ({**STRICT, "properties": {"a": {}}}, False),
        ({"type": "array", "items": STRICT}, False),
        ({**STRICT, "properties": {"a": {"type": "string", "minLength": 1}}}, False),
        ({"anyOf": [STRICT, STRICT], "type": "object"}, False),
    ],
)
async def test_a_schema_is_strict_where_strict_mode_takes_it(schema: Any, strict: bool) -> None:
    with FaultServer() as server:
        body = await sent(server, request(schema=json.dumps(schema)))
    wanted = {"name": "answer", "schema": schema, "strict": strict}
    assert body["response_format"] == {"type": "json_schema", "json_schema": wanted}


async def test_a_choice_gets_the_type_that_strict_mode_wants() -> None:
    wanted = {**STRICT, "properties": {"a": {"enum": ["x", "y"]}}}
    with FaultServer() as server:
        body = await sent(server, request(schema=json.dumps(wanted)))
    schema = body["response_format"]["json_schema"]
    assert schema["schema"]["properties"] == {"a": {"enum": ["x", "y"], "type": "string"}}
    assert schema["strict"] is True


async def test_constraints_are_said_in_the_words_of_each_server() -> None:
    with FaultServer(answer=lambda question: "aaa") as server:
        vllm = await sent(server, request(regex="a+"), server="vllm")
        sglang = await sent(server, request(grammar="root ::= x"), server="sglang")
        llama = await sent(server, request(grammar="root ::= x"), server="llama.cpp")
    assert vllm["structured_outputs"] == {"regex": "a+"}
    assert sglang["ebnf"] == llama["grammar"] == "root ::= x"


async def test_an_answer_that_is_begun_is_continued_where_the_server_can() -> None:
    with FaultServer() as server:
        vllm = await sent(server, request("hi", "Well,"), server="vllm")
        sglang = await sent(server, request("hi", "Well,"), server="sglang")
        other = await sent(server, request("hi", "Well,"), server="other")
    assert vllm["continue_final_message"] is True and vllm["add_generation_prompt"] is False
    assert sglang["continue_final_message"] is True and "add_generation_prompt" not in sglang
    assert "continue_final_message" not in other
    assert (
        other["messages"][-1]["role"] == "user" and "Continue" in other["messages"][-1]["content"]
    )


async def test_conversations_with_one_beginning_have_one_cache_key() -> None:
    with FaultServer() as server:
        keys = [
            (await sent(server, request(*said), server="openai"))["prompt_cache_key"]
            for said in (("a", "b", "c"), ("a", "x"), ("b",))
        ]
        given = await sent(server, request(extra=(("prompt_cache_key", "mine"),)), server="openai")
        other = await sent(server, request(), server="vllm")
    assert keys[0] == keys[1] != keys[2] and given["prompt_cache_key"] == "mine"
    assert "prompt_cache_key" not in other


async def test_options_of_the_server_and_fields_of_ones_own_are_sent() -> None:
    extra = (("extra_body", {"x": [1]}), ("reasoning_effort", "low"))
    with FaultServer(fields=["x"]) as server:
        body = await sent(server, request(extra=extra))
    assert body["reasoning_effort"] == "low" and body["x"] == [1]


async def test_any_text_arrives_as_it_was() -> None:
    text = 'quote " slash \\ newline \n nul \0 \u2028 é 漢 🙂'
    with FaultServer() as server:
        assert (await sent(server, request(text)))["messages"][0]["content"] == text
        half = await sent(server, request("é \ud83d half, \ud83d\ude42"))
    assert half["messages"][0]["content"] == "é � half, 🙂"


async def test_a_message_is_encoded_once_for_all_that_follows() -> None:
    first = Messages.of([Message("user", "long")])
    with FaultServer() as server:
        for text in ("a", "b"):
            asked = request()
            asked.messages = Messages(
                Messages(first, Message("assistant", "x")), Message("user", text)
            )
            await sent(server, asked)
    assert first is not None and len(first.cache) == 1
    assert [ask.data["messages"][0] for ask in server.asks] == [
        {"role": "user", "content": "long"}
    ] * 2


def test_the_last_message_is_kept_encoded_unless_it_grows() -> None:
    server, asked = server_for("other", None, (), ()), request()
    chain = Messages(None, Message("user", "one"))
    for messages, kept in ((chain, 1), (chain.longer("two", (), ()), 0)):
        asked.messages = messages
        body_of(asked, "m", server)
        assert len(messages.cache) == kept


@pytest.mark.parametrize("count", [1, 15, 16, 17, 33, 70])
def test_a_long_chat_is_sent_whole_in_its_order_whatever_was_kept_of_it(count: int) -> None:
    server = server_for("other", None, (), ())
    texts = [f"message {at}, \U0001f600" if at % 7 == 0 else f"é {at}" for at in range(count)]
    chain = None
    for at, text in enumerate(texts, 1):
        chain = Messages(chain, Message("user", text))
        branch = Messages(chain, Message("user", "aside"))
        for messages, wanted in ((chain, texts[:at]), (branch, [*texts[:at], "aside"])):
            asked = request()
            asked.messages = messages
            sent = json.loads(b"".join(body_of(asked, "m", server)))["messages"]
            assert [each["content"] for each in sent] == wanted


def test_half_of_a_surrogate_pair_is_replaced_as_servers_refuse_it() -> None:
    asked = request()
    asked.messages = Messages(None, Message("user", "half \udc4d"))
    asked.sampling = Sampling(max_tokens=4, stop=("half \ud83d",))
    sent = json.loads(b"".join(body_of(asked, "m", server_for("other", None, (), ()))))
    assert sent["stop"] == ["half �"] and sent["messages"][0]["content"] == "half �"


# -- keys and addresses


async def test_the_key_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    refusal = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    with FaultServer([Fault("401", 401, {}, refusal)]) as server:
        backend = OpenAI(base_url=server.openai_url, api_key=KEY, headers={"X-Gate": "gate-secret"})
        async with closing(backend):
            with pytest.raises(AuthenticationFailed) as caught:
                await backend.complete(request())
    assert server.asks[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.asks[0].headers["x-gate"] == "gate-secret"
    shown = f"{caught.value} {caught.value!r} {backend!r} {backend._settings!r} {caplog.text}"
    assert KEY not in shown and "gate-secret" not in shown
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


async def test_the_key_of_the_environment_goes_to_no_other_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FaultServer() as server:
        await sent(server)
        assert "authorization" not in server.asks[0].headers
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        async with closing(OpenAI()) as backend:
            await backend.complete(request())
        assert server.asks[1].headers["authorization"] == f"Bearer {KEY}"


async def test_without_a_key_it_is_said_how_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with closing(OpenAI()) as backend:
        with pytest.raises(AuthenticationFailed, match="OPENAI_API_KEY"):
            await backend.complete(request())


async def test_azure_is_asked_by_deployment_and_version() -> None:
    with FaultServer() as server:
        settings = {"azure_endpoint": server.url, "api_version": "2026-01-01", "api_key": KEY}
        async with closing(OpenAI(**settings)) as backend:
            await backend.complete(request(model="my deployment"))
    ask = server.asks[0]
    assert ask.path == "/openai/deployments/my%20deployment/chat/completions"
    assert ask.headers["api-key"] == KEY and backend.profile.features >= {"n", "schema"}


async def test_an_address_may_end_with_the_name_of_the_question() -> None:
    with FaultServer() as server:
        async with closing(OpenAI(base_url=f"{server.openai_url}/chat/completions/")) as backend:
            await backend.complete(request())
            assert await backend.list_models() == [server.model]
    assert server.asks[0].path == "/v1/chat/completions"


async def test_a_server_with_one_model_need_not_be_told_which() -> None:
    with FaultServer(model="only") as server:
        body = await sent(server, request(model=""))
        async with closing(OpenAI(base_url=server.openai_url)) as backend:
            assert await backend.list_models() == ["only"]
    assert body["model"] == "only"


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"server": "vlm"}, "did you mean 'vllm'"),
        ({"features": ["tool"]}, "did you mean 'tools'"),
        ({"without": "n"}, r"without must be a list"),
        ({"base_url": "localhost:8000"}, "http://"),
        ({"prices": {"m": {"promt": 1, "answer": 1}}}, "did you mean 'prompt'"),
        ({"prices": {"m": {"prompt": 1}}}, "prompt and answer are both needed"),
        ({"prices": {"m": {"prompt": -1, "answer": 1}}}, "at least 0"),
    ],
)
def test_a_wrong_setting_says_what_was_meant(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        OpenAI(**settings)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (None, "openai"), ("https://api.openai.com/v1", "openai"),
        ("http://localhost:11434/v1", "ollama"), ("https://openrouter.ai/api/v1", "other"),
        ("https://x.openai.azure.com/openai/v1", "azure"),
    ],
)  # fmt: skip
def test_a_server_is_known_by_its_address(url: str | None, kind: str) -> None:
    assert (
        OpenAI(base_url=url).profile.features == OpenAI(base_url=url, server=kind).profile.features
    )


def test_features_can_be_corrected() -> None:
    profile = OpenAI(base_url="http://x/v1", features=["n"], without=["seed"]).profile
    assert "n" in profile.features and "seed" not in profile.features


# -- answers


async def test_an_answer_has_text_reasoning_usage_and_model() -> None:
    message = {"content": "42", "reasoning_content": "6*7"}
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    with says(chat(message, usage=usage, model="m-2026")) as server:
        found = await answered(server)
    assert (found.text, found.samples[0].reasoning, found.model) == ("42", "6*7", "m-2026")
    assert found.usage == Usage(10, 3, 8)


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 1}, None),
        ({"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": None}, None),
        ({"prompt_tokens": 1, "completion_tokens": 1, "prompt_cache_hit_tokens": 0}, 0),
    ],
)
async def test_unknown_cached_tokens_are_not_zero(usage: Any, cached: int | None) -> None:
    with says(chat(usage=usage)) as server:
        assert (await answered(server)).usage.cached_tokens == cached


async def test_no_usage_is_unknown_usage() -> None:
    with says(chat()) as server:
        assert (await answered(server)).usage == Usage()


async def test_the_cost_is_by_own_prices_or_else_what_the_server_says() -> None:
    prices = {
        "m": {"prompt": 2.0, "cached": 0.5, "answer": 10.0},
        "gpt-*": {"prompt": 1, "answer": 1},
    }
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60},
    }
    with says(
        chat(usage=usage), chat(usage={**usage, "cost": 0.0125}), chat(usage=usage), chat(),
        chat(usage={"cost": 0.0125}), chat(usage={**usage, "cost": 0.0125}), chat(usage=usage),
    ) as server:  # fmt: skip
        backend = OpenAI(base_url=server.openai_url, prices=prices)
        async with closing(backend):
            costs = [
                (await backend.complete(request(model=m))).cost
                for m in ("m", "m", "gpt-9", "m", "m")
            ]
        async with closing(OpenAI(base_url=server.openai_url)) as plain:
            costs += [(await plain.complete(request(model="gpt-4o"))).cost for _ in range(2)]
    own = 80 + 30 + 200
    assert costs == [own, own, 120, None, 12_500, 12_500, None]


@pytest.mark.parametrize(
    ("settings", "model", "prompt"),
    [
        ({}, "gpt-4o-mini", 0.15),
        ({}, "gpt-4o-mini-2024-07-18", 0.15),
        ({}, "claude-sonnet-4-5", None),
        ({"base_url": "http://127.0.0.1:8000/v1"}, "gpt-4o-mini", None),
        ({"base_url": "http://lan/v1"}, "openai/gpt-4o-mini", None),
        ({"base_url": "https://api.openai.com/v1"}, "gpt-4o-mini", 0.15),
        ({"base_url": "https://openrouter.ai/api/v1"}, "openai/gpt-4o-mini", None),
        ({"base_url": "https://openrouter.ai/api/v1"}, "openai/gpt-5-mini", 0.25),
        ({"base_url": "https://api.anthropic.com/v1"}, "claude-sonnet-4-5", 3.0),
        ({"azure_endpoint": "https://me.openai.azure.com"}, "gpt-5-mini", 0.25),
        ({"azure_endpoint": "https://lan"}, "gpt-5-mini", None),
        ({"prices": {"gpt-4o-mini": {"prompt": 7, "answer": 7}}}, "gpt-4o-mini", 7),
    ],
)
def test_a_models_price_is_its_sellers_at_the_sellers_own_address(
    settings: Any, model: str, prompt: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    price = OpenAI(api_key="k", **settings).prices.get(model)
    assert (None if price is None else price.prompt) == prompt


def test_the_model_that_answered_is_the_one_that_is_paid() -> None:
    prices = OpenAI(api_key="k", azure_endpoint="https://me.openai.azure.com").prices
    usage = Usage(1_000_000, 0, 0)
    answer = Response((Sample("yes", "stop"),), usage, "gpt-5-mini-2025-08-07")
    assert prices.cost("my-deployment", answer) == 250_000
    assert prices.cost("my-deployment", replace(answer, model="")) is None


def test_prices_are_found_by_name_or_by_its_longest_beginning() -> None:
    row = {"prompt": 1.0, "answer": 2.0}
    table = {"a": row, "gpt-*": row, "gpt-5*": {**row, "prompt": 3.0, "cached": 0.1}}
    prices = OpenAI(prices=table).prices
    assert [prices[name].prompt for name in ("a", "gpt-4", "gpt-5-mini")] == [1.0, 1.0, 3.0]
    assert prices.get("b") is None and prices["a"].cached is None and len(prices) == 3


async def test_tool_calls_are_as_the_model_wrote_them() -> None:
    calls = [
        {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1'}},
        {"id": "", "function": {"name": "sub", "arguments": {"b": 2}}},
    ]
    with says(chat({"content": None, "tool_calls": calls}, "stop")) as server:
        sample = (await answered(server, request(tools=(TOOL,)))).samples[0]
    assert sample.finish_reason == "tool_calls" and sample.text == ""
    assert sample.tool_calls[0] == ToolCall("c1", "add", '{"a": 1')
    assert sample.tool_calls[1] == ToolCall("call_c1_1", "sub", '{"b": 2}')


async def test_logprobs_have_their_alternatives() -> None:
    content = [{"token": "a", "logprob": -0.1, "top_logprobs": [{"token": "b", "logprob": -2}]}]
    answer = chat()
    answer["choices"][0]["logprobs"] = {"content": content}
    with says(answer) as server:
        (token,) = (await answered(server)).samples[0].logprobs
    assert (token.token, token.logprob, token.top) == ("a", -0.1, (("b", -2.0),))


async def test_tokens_of_a_prompt_have_their_log_probabilities_and_alternatives() -> None:
    """As vLLM gives them: a map of each token, by id, and the token itself first."""
    own, likelier = {"decoded_token": "Hi", "logprob": -3.0}, {"decoded_token": "A", "logprob": -1}
    answer = {**chat(), "prompt_logprobs": [None, {"7": {**own, "rank": 9}, "5": likelier}]}
    asked = replace(request(), sampling=Sampling(prompt_logprobs=1))
    with says(answer) as server:
        found = await answered(server, asked, server="vllm")
        assert server.asks[0].data["prompt_logprobs"] == 1
    assert found.prompt_logprobs == (TokenLogprob("Hi", -3.0, (("A", -1.0),)),)
    with says(chat()) as server, pytest.raises(BackendRefused, match="prompt_logprobs"):
        await answered(server, asked, server="vllm")


async def test_samples_come_in_the_order_of_their_index() -> None:
    choices = [choice({"content": str(index)}, index=index) for index in (2, 0, 1)]
    with says({**chat(), "choices": choices}) as server:
        found = await answered(server, request(n=3))
    assert [sample.text for sample in found.samples] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("said", "finish"),
    [("stop", "stop"), ("length", "length"), ("eos", "stop"), ("max_tokens", "length"),
     ("MAX_TOKENS", "length"), ("tool_calls", "unknown"), ("strange", "strange"), (None, "unknown"),
     ("", "unknown"), (5, "unknown")],
)  # fmt: skip
async def test_finish_reasons_have_one_name(said: Any, finish: str) -> None:
    with says(chat(finish=said)) as server:
        assert (await answered(server)).samples[0].finish_reason == finish


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (chat({"content": None}, finish=None), MalformedResponse),
        (chat({"content": ""}, finish=""), MalformedResponse),
        (chat({"content": ""}, finish="tool_calls"), MalformedResponse),
        (chat({"content": ""}, finish="strange"), MalformedResponse),
        (chat({"content": ""}, finish="SAFETY"), BackendRefused),
        (chat(finish="content_filter"), BackendRefused),
        (chat(finish="error"), BackendUnavailable),
        ({**chat(), "choices": []}, MalformedResponse),
        ({"id": "x"}, MalformedResponse),
        ([], MalformedResponse),
        ("null", MalformedResponse),
        ("", MalformedResponse),
        ("<html>login</html>", MalformedResponse),
        ("[" * 100_000, MalformedResponse),
        ({"error": {"message": "rate", "code": 429}}, BackendBusy),
        ({"error": "boom"}, BackendUnavailable),
        ({**chat(), "choices": [{"finish_reason": "stop"}]}, MalformedResponse),
        ({**chat(), "choices": ["x"]}, MalformedResponse),
        (chat({"content": 5}), MalformedResponse),
        (chat({"content": None, "tool_calls": [{}]}), MalformedResponse),
    ],
)  # fmt: skip
async def test_an_answer_that_is_none_is_an_error(answer: Any, kind: type[BackendError]) -> None:
    with says(answer) as server:
        assert type(await failed(server)) is kind


async def test_a_content_filter_is_not_asked_again_and_says_so() -> None:
    with says(chat(finish="content_filter")) as server:
        error = await failed(server)
    assert not error.retriable and "content filter" in str(error)


async def test_a_prompt_that_is_too_long_and_an_unknown_model_are_told_apart() -> None:
    long = b'{"error": {"code": "context_length_exceeded", "message": "too long"}}'
    gone = b'{"error": {"code": "model_not_found", "message": "no such model"}}'
    with FaultServer([Fault("a", 400, {}, long), Fault("b", 404, {}, gone)]) as server:
        assert isinstance(await failed(server), PromptTooLong)
        assert isinstance(await failed(server), ModelNotFound)


# -- streams


async def test_a_stream_is_passed_on_piece_by_piece() -> None:
    events = [
        delta(role="assistant", content=""), delta(reasoning_content="hm"), delta(content="He"),
        delta(content="llo"), delta(finish="stop"),
        {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3}},
    ]  # fmt: skip
    seen: list[Chunk] = []
    with streams(*events) as server:
        found = await answered(server, request(sample=2), seen.append)
    assert seen == [Chunk(2, "hm", "reasoning"), Chunk(2, "He"), Chunk(2, "llo")]
    assert (found.text, found.samples[0].reasoning, found.usage) == (
        "Hello",
        "hm",
        Usage(2, 3, None),
    )
    assert server.asks[0].data["stream_options"] == {"include_usage": True}


async def test_tool_calls_are_put_together_from_a_stream() -> None:
    parts = [
        {"index": 0, "id": "c1", "function": {"name": "add", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a":'}}, {"index": 0, "function": {"arguments": "1}"}},
        {"index": 1, "id": "c2", "function": {"name": "sub", "arguments": "{}"}},
    ]  # fmt: skip
    events = [delta(tool_calls=[part]) for part in parts]
    with streams(*events, delta(finish="tool_calls")) as server:
        found = await answered(server, request(tools=(TOOL,)), lambda chunk: None)
    assert found.samples[0].tool_calls == (
        ToolCall("c1", "add", '{"a":1}'),
        ToolCall("c2", "sub", "{}"),
    )


async def test_samples_of_a_stream_are_told_apart() -> None:
    events = [delta(0, content="a"), delta(1, content="b"), delta(1, "stop"), delta(0, "length")]
    seen: list[Chunk] = []
    with streams(*events) as server:
        found = await answered(server, request(n=2), seen.append)
    assert [(s.text, s.finish_reason) for s in found.samples] == [("a", "length"), ("b", "stop")]
    assert [chunk.sample for chunk in seen] == [0, 1]


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([delta(content="")], MalformedResponse),
        ([], MalformedResponse),
        ([delta(content="a"), "{broken"], MalformedResponse),
        ([delta(content="a"), {"error": {"message": "slow", "code": 429}}], BackendBusy),
        ([delta(content="a"), {"error": {"message": "boom"}}], BackendUnavailable),
        ([{"choices": "x"}], MalformedResponse),
        ([delta(content="a", finish="content_filter")], BackendRefused),
    ],
)  # fmt: skip
@pytest.mark.parametrize("done", [True, False])
async def test_a_stream_that_is_not_complete_is_an_error(
    events: list[Any], kind: type[BackendError], done: bool
) -> None:
    with streams(*events, done=done) as server:
        assert type(await failed(server, emit=lambda chunk: None)) is kind


async def test_a_stream_without_a_finish_reason_is_complete_only_with_its_last_line() -> None:
    with streams(delta(4, content="a")) as server:
        (sample,) = (await answered(server, emit=lambda chunk: None)).samples
    assert (sample.text, sample.finish_reason) == ("a", "unknown")
    with streams(delta(content="a"), done=False) as server:
        assert type(await failed(server, emit=lambda chunk: None)) is MalformedResponse


async def test_a_stream_without_its_last_line_is_complete_with_its_finish_reason() -> None:
    with streams(delta(content="a"), delta(finish="stop"), done=False) as server:
        assert (await answered(server, emit=lambda chunk: None)).text == "a"


async def test_a_server_that_does_not_stream_is_taken_as_it_is() -> None:
    with says(chat("whole")) as server:
        assert (await answered(server, emit=lambda chunk: None)).text == "whole"


# -- what goes wrong on the way


async def test_a_server_that_is_not_there_cannot_be_reached_and_may_come_back() -> None:
    with FaultServer() as server:
        backend = OpenAI(base_url=server.openai_url)
        async with closing(backend):
            server.kill()
            with pytest.raises(BackendUnavailable, match="cannot be reached"):
                await backend.complete(request())
            server.revive()
            assert (await backend.complete(request())).text == server.answer("hello")


async def test_streams_share_one_connection() -> None:
    with FaultServer() as server:
        async with closing(OpenAI(base_url=server.openai_url)) as backend:
            for _ in range(3):
                await backend.complete(request(), lambda chunk: None)
    assert server.connections == 1


async def test_a_stream_is_known_by_its_bytes_too() -> None:
    events = [delta(content="a"), delta(finish="stop")]
    body = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events).encode()
    with FaultServer([Fault("given", 200, {"Content-Type": "text/plain"}, body)]) as server:
        assert (await answered(server, emit=lambda chunk: None)).text == "a"


async def test_a_closed_backend_is_not_asked() -> None:
    with FaultServer() as server:
        backend = OpenAI(base_url=server.openai_url)
        await backend.complete(request())
        await backend.aclose()
        with pytest.raises(BackendUnavailable, match="closed"):
            await backend.complete(request())


@pytest.mark.parametrize("reported", [{}, {"logprobs": None}, {"logprobs": {"content": None}}])
def test_log_probabilities_that_do_not_come_are_an_error(reported: dict[str, Any]) -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a"}}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    whole = json.dumps({**body, "choices": [{**choice, **reported}]}).encode()
    refused = pytest.raises(BackendRefused, match="gave no log-probabilities")
    with FaultServer([Fault("no logprobs", body=whole)]) as server:
        own = {"openai": {"base_url": server.openai_url}}
        with appl.record(trace=False, backend="openai", model="m", backends=own), refused:
            appl.gen(messages="x", logprobs=2).result()


async def test_a_draft_is_sent_as_a_prediction_where_the_settings_say_so() -> None:
    asked = replace(request(), draft=Draft((Sample("as before", "stop"),)))
    told = {"server": "openai", "interface": "chat"}
    with FaultServer() as server:
        body = await sent(server, asked, **told, features=["drafts"])
        unasked = await sent(server, asked, **told)
        without = await sent(server, request(), **told, features=["drafts"])
    assert body["prediction"] == {"type": "content", "content": "as before"}
    assert "prediction" not in unasked and "prediction" not in without


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 5},
        {"logprobs": 1},
        {"tools": (TOOL,)},
        {"extra": (("presence_penalty", 0.5),)},
        {"extra": (("extra_body", {"max_completion_tokens": 9}),)},
        {"extra": (("extra_body", {"n": 2}),)},
        {"extra": (("extra_body", {"audio": {"voice": "ash", "format": "wav"}}),)},
        {"extra": (("prediction", {"type": "content", "content": "mine"}),)},
    ],
)
def test_no_prediction_goes_with_what_openai_does_not_take_beside_one(
    options: dict[str, Any],
) -> None:
    asked = replace(request(), sampling=Sampling(**options), draft=Draft((Sample("x", "stop"),)))
    body = b"".join(body_of(asked, "m", server_for("openai", None, ["drafts"], [])))
    assert json.loads(body).get("prediction") in (None, {"type": "content", "content": "mine"})


@pytest.mark.parametrize("samples", [(), (Sample("", "stop"),)])
def test_a_draft_without_text_is_no_prediction(samples: tuple[Sample, ...]) -> None:
    asked = replace(request(), draft=Draft(samples))
    body = b"".join(body_of(asked, "m", server_for("openai", None, ["drafts"], [])))
    assert "prediction" not in json.loads(body)
