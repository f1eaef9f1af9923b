"""The official SDK of OpenAI against the server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest
from pydantic import BaseModel

from appl.testing import Served

from .conftest import HELLO, Client
from .test_chat import TOOL


@pytest.fixture(scope="module")
def sdk(shared: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{shared.url}/v1", api_key=shared.api_key, max_retries=0, timeout=60
    ) as made:
        yield made


def test_it_chats_and_streams(sdk: openai.OpenAI) -> None:
    asked = {"model": "embedded", "messages": [{"role": "user", "content": "Hello"}]}
    whole = sdk.chat.completions.create(**asked, temperature=0, logprobs=True, top_logprobs=1)
    assert whole.choices[0].message.content and whole.choices[0].finish_reason == "stop"
    assert whole.usage and whole.usage.prompt_tokens_details
    assert whole.usage.prompt_tokens_details.cached_tokens is not None
    assert whole.choices[0].logprobs and whole.choices[0].logprobs.content
    with sdk.chat.completions.stream(
        **asked, temperature=0, stream_options={"include_usage": True}
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.usage and final.usage.completion_tokens == whole.usage.completion_tokens


def test_it_calls_tools(sdk: openai.OpenAI) -> None:
    found = sdk.chat.completions.create(
        model="embedded", messages=[{"role": "user", "content": "Weather in Lund?"}],
        tools=[TOOL], tool_choice="required", temperature=0,
    )  # fmt: skip
    (call,) = found.choices[0].message.tool_calls or []
    assert json.loads(call.function.arguments)["city"]


def test_it_parses_typed_answers(sdk: openai.OpenAI) -> None:
    class Person(BaseModel):
        name: str
        age: int

    found = sdk.chat.completions.parse(
        model="embedded", messages=[{"role": "user", "content": "Mia is 12."}],
        response_format=Person, temperature=0,
    )  # fmt: skip
    assert isinstance(found.choices[0].message.parsed, Person)


def test_it_completes_texts_and_ids(sdk: openai.OpenAI, client: Client) -> None:
    text = sdk.completions.create(model="embedded", prompt=HELLO, temperature=0, max_tokens=8)
    ids = client.post("/tokenize", {"prompt": HELLO}).json()["tokens"]
    same = sdk.completions.create(model="embedded", prompt=ids, temperature=0, max_tokens=8)
    assert text.choices[0].text == same.choices[0].text
    assert [model.id for model in sdk.models.list()] == ["embedded"]


def test_its_errors_are_its_own(sdk: openai.OpenAI) -> None:
    hello = [{"role": "user", "content": "Hello"}]
    with pytest.raises(openai.NotFoundError) as missing:
        sdk.chat.completions.create(model="gpt-9", messages=hello)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        sdk.chat.completions.create(
            model="embedded", messages=[{"role": "user", "content": "w " * 9000}]
        )
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.AuthenticationError):
        sdk.with_options(api_key="wrong").models.list()


# -- responses

ASKED = {"model": "embedded", "input": "Hello", "temperature": 0}
CITY = {"type": "function", "name": "weather", "strict": False, "description": "The weather.",
        "parameters": TOOL["function"]["parameters"]}  # fmt: skip


def test_it_responds_and_streams(sdk: openai.OpenAI, client: Client) -> None:
    include = ["message.output_text.logprobs"]
    whole = sdk.responses.create(**ASKED, include=include, top_logprobs=1)
    assert whole.status == "completed" and whole.usage and whole.usage.input_tokens_details
    chat = client.chat("Hello")
    assert whole.output_text == chat["choices"][0]["message"]["content"]
    assert whole.usage.input_tokens == chat["usage"]["prompt_tokens"]
    with sdk.responses.stream(**ASKED) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(pieces) == final.output_text == whole.output_text and len(pieces) > 1
    assert final.usage and final.usage.output_tokens == whole.usage.output_tokens


def test_it_responds_with_calls_and_takes_their_results(sdk: openai.OpenAI) -> None:
    asked = {**ASKED, "tools": [CITY], "tool_choice": "required"}
    asked["input"] = [{"role": "user", "content": "Weather in Lund?"}]
    found = sdk.responses.create(**asked)
    with sdk.responses.stream(**asked) as stream:
        streamed = stream.get_final_response()
    (call,), (same,) = found.output, streamed.output
    assert call.type == same.type == "function_call" and call.arguments == same.arguments
    assert json.loads(call.arguments)["city"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees, rain"}
    then = sdk.responses.create(**{**ASKED, "tools": [CITY], "tool_choice": "none",
                                   "input": [*asked["input"], call.model_dump(), result]})  # fmt: skip
    assert then.output_text and then.output[0].type == "message"


def test_it_parses_typed_responses(sdk: openai.OpenAI) -> None:
    class Person(BaseModel):
        name: str
        age: int

    found = sdk.responses.parse(
        model="embedded", input="Mia is 12.", temperature=0, text_format=Person
    )
    assert isinstance(found.output_parsed, Person)


def test_it_says_that_an_answer_was_cut(sdk: openai.OpenAI) -> None:
    found = sdk.responses.create(**ASKED, max_output_tokens=2)
    assert found.status == "incomplete" and found.incomplete_details
    assert found.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    "wrong",
    [
        {"previous_response_id": "resp_1"},
        {"background": True},
        {"tools": [{"type": "web_search"}]},
        {"input": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x"}]}]},
        {"input": []},
        {"model": "gpt-5"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_it_refuses_a_response_that_it_cannot_make(sdk: openai.OpenAI, wrong: object) -> None:
    with pytest.raises((openai.BadRequestError, openai.NotFoundError)):
        sdk.responses.create(**{**ASKED, **wrong})  # type: ignore[dict-item]
