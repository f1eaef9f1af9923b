"""Our own backends against the server, by each interface, and the model in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from appl.backend import Backend, Chunk
from appl.prompt import Message
from appl.testing import Served
from appl_backends.anthropic import Anthropic
from appl_backends.embedded import Embedded
from appl_backends.openai import OpenAI
from tests.providers.asking import request
from tests.wire.test_requests import TOOL as ADD

INTERFACES = ("chat", "responses", "messages")
COLD: dict[str, Any] = {"temperature": 0.0, "max_tokens": 60}


@pytest.fixture(params=INTERFACES)
def asked(request: pytest.FixtureRequest, shared: Served) -> Iterator[Backend]:
    if request.param == "messages":
        yield Anthropic(base_url=shared.url, api_key=shared.api_key)
    else:
        yield OpenAI(base_url=f"{shared.url}/v1", api_key=shared.api_key, interface=request.param)


async def test_the_same_text_comes_by_every_interface_whole_and_streamed(
    asked: Backend, local: Embedded
) -> None:
    question = request("Hello", model="embedded", **COLD)
    chunks = list[Chunk]()
    try:
        whole = await asked.complete(question)
        streamed = await asked.complete(question, chunks.append)
    finally:
        await asked.aclose()
    here = await local.complete(question)
    assert whole.text == streamed.text == here.text == "".join(chunk.text for chunk in chunks)
    assert whole.usage.prompt_tokens == here.usage.prompt_tokens
    assert whole.usage.completion_tokens == streamed.usage.completion_tokens


async def test_the_same_call_comes_by_every_interface_and_its_result_goes_back(
    asked: Backend, local: Embedded
) -> None:
    options = {**COLD, "tools": (ADD,), "tool_choice": "required"}
    question = request("Add 1 and 2.", model="embedded", **options)
    try:
        (sample,) = (await asked.complete(question)).samples
        (here,) = (await local.complete(question)).samples
        (call,) = sample.tool_calls
        assert sample.finish_reason == "tool_calls"
        assert json.loads(call.arguments) == json.loads(here.tool_calls[0].arguments)
        talk = [Message("user", "Add 1 and 2."), Message("assistant", "", tool_calls=(call,)),
                Message("tool", "3", tool_call_id=call.id)]  # fmt: skip
        then = await asked.complete(request(*talk, model="embedded", **COLD, tools=(ADD,), tool_choice="none"))  # fmt: skip
        assert then.text
    finally:
        await asked.aclose()


async def test_the_same_form_is_kept_by_every_interface(asked: Backend) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}  # fmt: skip
    try:
        found = await asked.complete(
            request("Mia is 12.", model="embedded", schema=json.dumps(schema), **COLD)
        )
    finally:
        await asked.aclose()
    assert json.loads(found.text).keys() == {"name", "age"}
