"""The official SDK of Anthropic against the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel

from appl.testing import Served

from .conftest import Client
from .test_chat import TOOL

CITY: Any = {"name": "weather", "description": "The weather.",
             "input_schema": TOOL["function"]["parameters"]}  # fmt: skip
ASKED: Any = {
    "model": "embedded",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hello"}],
    "extra_body": {"temperature": 0},
}


@pytest.fixture(scope="module")
def sdk(shared: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=shared.url, api_key=shared.api_key, max_retries=0, timeout=60
    ) as made:
        yield made


def test_it_answers_and_streams(sdk: anthropic.Anthropic, client: Client) -> None:
    whole = sdk.messages.create(**ASKED)
    chat = client.chat("Hello")
    assert whole.content[0].type == "text" and whole.stop_reason == "end_turn"
    assert whole.content[0].text == chat["choices"][0]["message"]["content"]
    with sdk.messages.stream(**ASKED) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(pieces) == whole.content[0].text and len(pieces) > 1
    assert final.content[0].text == whole.content[0].text  # type: ignore[union-attr]
    assert final.usage.output_tokens == whole.usage.output_tokens
    read = whole.usage.cache_read_input_tokens or 0
    assert whole.usage.input_tokens + read == chat["usage"]["prompt_tokens"]


def test_it_calls_tools_and_takes_their_results(sdk: anthropic.Anthropic) -> None:
    question = {"role": "user", "content": "Weather in Lund?"}
    asked = {**ASKED, "messages": [question], "tools": [CITY], "tool_choice": {"type": "any"}}
    found = sdk.messages.create(**asked)
    with sdk.messages.stream(**asked) as stream:
        assert stream.get_final_message().content[0].input == found.content[0].input  # type: ignore[union-attr]
    (call,) = found.content
    assert call.type == "tool_use" and found.stop_reason == "tool_use" and call.input["city"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "12 degrees, rain"}
    asked["messages"] = [question, {"role": "assistant", "content": found.content},
                         {"role": "user", "content": [result]}]  # fmt: skip
    then = sdk.messages.create(**{**asked, "tool_choice": {"type": "none"}})
    assert then.content[0].type == "text" and then.content[0].text


def test_it_parses_typed_answers(sdk: anthropic.Anthropic) -> None:
    class Person(BaseModel):
        name: str
        age: int

    found = sdk.messages.parse(
        **{**ASKED, "messages": [{"role": "user", "content": "Mia is 12."}]}, output_format=Person
    )
    assert isinstance(found.parsed_output, Person)


def test_it_counts_tokens_stops_and_goes_on(sdk: anthropic.Anthropic) -> None:
    count = sdk.messages.count_tokens(model="embedded", messages=ASKED["messages"])
    whole = sdk.messages.create(**ASKED)
    assert count.input_tokens == whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)  # fmt: skip
    text = whole.content[0].text  # type: ignore[union-attr]
    half = text[: len(text) // 2]
    stopped = sdk.messages.create(**ASKED, stop_sequences=[half[-4:]])
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == half[-4:]
    begun = [*ASKED["messages"], {"role": "assistant", "content": half}]
    rest = sdk.messages.create(**{**ASKED, "messages": begun})
    assert half + rest.content[0].text == text  # type: ignore[union-attr]
    assert sdk.messages.create(**{**ASKED, "max_tokens": 2}).stop_reason == "max_tokens"


def test_it_says_what_is_wrong_as_anthropic_does(sdk: anthropic.Anthropic) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://x.org/a.png"}}
    thought = {"type": "thinking", "thinking": "a", "signature": "b"}
    for wrong in (
        {"messages": [{"role": "user", "content": [image]}]},
        {"messages": [*ASKED["messages"], {"role": "assistant", "content": [thought]}]},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ):
        with pytest.raises(anthropic.BadRequestError) as refused:
            sdk.messages.create(**{**ASKED, **wrong})
        assert refused.value.body["type"] == "error"  # type: ignore[index]
    with pytest.raises(anthropic.NotFoundError):
        sdk.messages.create(**{**ASKED, "model": "claude-opus-5"})


def test_a_wrong_key_is_refused(shared: Served) -> None:
    stranger = anthropic.Anthropic(base_url=shared.url, api_key="no", max_retries=0)
    with stranger, pytest.raises(anthropic.AuthenticationError):
        stranger.messages.create(**ASKED)
