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
