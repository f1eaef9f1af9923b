"""Chat completions: what the backend says in this process, in OpenAI's shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appl.backend import Request, Sampling, canonical
from appl.prompt import AIMessage, Messages, SystemMessage, UserMessage, as_message
from appl_backends.embedded import Embedded

from .conftest import Client

WEATHER = {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
TOOL = {"type": "function", "function": WEATHER}
CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Who are you?"}],
    [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}],
        },
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "What can you do?"},
    ],
]


async def test_greedy_answers_are_those_of_the_backend_in_this_process(
    client: Client, local: Embedded
) -> None:
    for messages in CONVERSATIONS:
        said = Messages.of([as_message(each) for each in messages])
        ours = await local.complete(Request("a", 0, "", said, Sampling(temperature=0.0)))
        theirs = client.chat(*messages)
        (choice,) = theirs["choices"]
        assert choice["message"]["content"] == ours.text
        assert choice["finish_reason"] == ours.samples[0].finish_reason
        usage = theirs["usage"]
        assert usage["prompt_tokens"] == ours.usage.prompt_tokens
        assert usage["completion_tokens"] == ours.usage.completion_tokens
        assert client.chat(*messages)["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


async def test_an_answer_that_has_begun_is_continued_if_that_is_asked(
    client: Client, local: Embedded
) -> None:
    fact = 'Name the author of the quotation.\n"A river does not ask." (Mira Holt wrote it.)'
    begun = "The author is "
    said = Messages.of([UserMessage(fact), AIMessage(begun)])
    ours = await local.complete(Request("a", 0, "", said, Sampling(temperature=0.0)))
    messages = [{"role": "user", "content": fact}, {"role": "assistant", "content": begun}]
    theirs = client.chat(*messages, continue_final_message=True)
    assert theirs["choices"][0]["message"]["content"] == ours.text
    other = client.chat(*messages)
    assert other["usage"]["prompt_tokens"] > theirs["usage"]["prompt_tokens"]


async def test_tools_are_called(client: Client, local: Embedded) -> None:
    question = "What is the weather in Lund?"
    sampling = Sampling(temperature=0.0, tools=(canonical(WEATHER),), tool_choice="required")
    said = Messages.of([SystemMessage("Be brief."), UserMessage(question)])
    ours = await local.complete(Request("a", 0, "", said, sampling))
    asked = {"tools": [TOOL], "tool_choice": "required"}
    first = client.chat({"role": "system", "content": "Be brief."}, question, **asked)
    (choice,) = first["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    assert call["function"]["arguments"] == ours.samples[0].tool_calls[0].arguments
    assert set(json.loads(call["function"]["arguments"])) == {"city"}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Rain, 8 degrees."}
    after = client.chat(question, choice["message"], result, tools=[TOOL], max_tokens=40)
    assert after["choices"][0]["message"]["content"]
    named = client.chat(
        "Hi", tools=[TOOL], tool_choice={"type": "function", "function": {"name": "weather"}}
    )
    assert named["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"


def test_calls_are_streamed_as_a_whole(client: Client) -> None:
    body = {
        "messages": [{"role": "user", "content": "Weather in Lund?"}], "temperature": 0,
        "tools": [TOOL], "tool_choice": "required",
    }  # fmt: skip
    deltas = [event["choices"][0] for event in client.events("/v1/chat/completions", body)]
    (call,) = [each["delta"]["tool_calls"][0] for each in deltas if "tool_calls" in each["delta"]]
    assert call["index"] == 0 and json.loads(call["function"]["arguments"])["city"]
    assert deltas[-1]["finish_reason"] == "tool_calls"


def test_an_answer_has_the_form_of_its_schema(client: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 999, "minimum": 0}},
        "required": ["n"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for choice in client.chat("A number?", response_format=form, n=2, temperature=1, seed=1)[
        "choices"
    ]:
        assert isinstance(json.loads(choice["message"]["content"])["n"], int)
    free = client.chat("An object?", response_format={"type": "json_object"}, max_tokens=60)
    assert free["choices"][0]["message"]["content"].startswith("{")
    digits = client.chat("A number?", regex="[0-9]{4}")["choices"][0]["message"]["content"]
    assert digits.isdigit() and len(digits) == 4


def test_log_probabilities_are_those_of_the_text(client: Client) -> None:
    (choice,) = client.chat("Hello", logprobs=True, top_logprobs=2)["choices"]
    entries = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
    assert (
        bytes(byte for entry in entries for byte in entry["bytes"]).decode()
        == choice["message"]["content"]
    )
    assert all(len(entry["top_logprobs"]) == 2 for entry in entries)
    assert client.chat("Hello")["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"messages": []}, 400, "empty"),
        ({"model": "gpt-9"}, 404, "does not exist"),
        ({"messages": [{"role": "user", "content": "word " * 9000}]}, 400, "room for"),
        ({"messages": [{"role": "user"}]}, 400, "content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, 400, "text only"),
        ({"temperature": "hot"}, 400, "temperature"),
        ({"frequency_penalty": 1}, 400, "not supported"),
        ({"n": 0}, 400, "n must be"),
        ({"tool_choice": "required"}, 400, "Tools"),
        ({"response_format": {"type": "json_schema"}}, 400, "schema"),
        ({"regex": "(", "max_tokens": 3}, 400, "constraint"),
        ({"stream": 1}, 400, "stream must be true or false"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_as_openai_says_it(
    client: Client, body: dict[str, Any], status: int, words: str
) -> None:
    whole = {"messages": [{"role": "user", "content": "Hi"}], **body}
    found = client.post("/v1/chat/completions", whole)
    assert found.status_code == status and words in found.json()["error"]["message"]
    assert found.json()["error"]["type"] == "invalid_request_error"
