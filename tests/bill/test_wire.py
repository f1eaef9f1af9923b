"""Fan-outs over real connections: what a server gets, held against the types of the official SDK."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from openai.types.chat import completion_create_params
from openai.types.chat.chat_completion_content_part_text_param import (
    ChatCompletionContentPartTextParam,
)
from pydantic import TypeAdapter, with_config

from appl.backend import Reuse
from appl.runtime import io_thread
from appl.testing import Run
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI
from tests.bill.programs import ask, chain_of_two, dialogue, said
from tests.bill.test_parts import LONG, border, request
from tests.providers.asking import KEY
from tests.wire.servers import FaultServer

FACTS = said("facts", 9_000)


def bodies(program: Any, model: str = "gpt-5.6") -> list[Mapping[str, Any]]:
    """The bodies that a server of OpenAI's kind gets."""
    with FaultServer(kind="openai") as server:
        backend = OpenAI(base_url=server.openai_url, server="openai", model=model, api_key=KEY)
        with Run(backend):
            program()
        asyncio.run(backend.aclose())
        return [each.data for each in server.asks]


def fan_out() -> list[str]:
    made = threading.Event()
    io_thread().send(made.wait)  # no call is sent before all are made
    calls = [ask(FACTS, f"question {at}") for at in range(4)]
    made.set()
    return [str(each) for each in calls]


def test_siblings_are_cut_where_they_part_and_share_a_key() -> None:
    found = bodies(fan_out)
    parts = [body["messages"][0]["content"] for body in found]
    assert {part[0]["text"] for part in parts} == {FACTS}
    assert all(part[0]["prompt_cache_breakpoint"] == {"mode": "explicit"} for part in parts)
    assert sorted(part[1]["text"] for part in parts) == [f"\nquestion {at}" for at in range(4)]
    assert len({body["prompt_cache_key"] for body in found}) == 1
    assert {body["prompt_cache_options"]["mode"] for body in found} == {"explicit"}


def test_the_first_one_is_asked_as_a_stream_so_that_its_beginning_is_seen() -> None:
    assert [bool(body.get("stream")) for body in bodies(fan_out)] == [True, False, False, False]


@pytest.mark.parametrize("program", [fan_out, lambda: chain_of_two(FACTS, ["a", "b"]),
                                     lambda: dialogue(FACTS, list("abcdef"))])  # fmt: skip
def test_what_is_sent_has_the_types_of_the_official_package(program: Any) -> None:
    options = TypeAdapter(strict(completion_create_params.PromptCacheOptions))
    part = TypeAdapter(strict(ChatCompletionContentPartTextParam))
    for body in bodies(program):
        if "prompt_cache_options" in body:
            options.validate_python(body["prompt_cache_options"])
        for message in body["messages"]:
            if isinstance(message["content"], list):
                for each in message["content"]:
                    part.validate_python(each)


def strict(kind: Any) -> Any:
    """The typed dict *kind*, which takes no other fields."""
    return with_config({"extra": "forbid"})(kind)


def test_an_earlier_model_and_another_server_get_the_text_whole() -> None:
    for body in bodies(fan_out, "gpt-5-mini"):
        assert isinstance(body["messages"][0]["content"], str)
        assert "prompt_cache_options" not in body
    with FaultServer(kind="vllm") as server:
        backend = OpenAI(base_url=server.openai_url, server="vllm", model="gpt-5.6")
        assert backend.order(None) is None
        with Run(backend):
            fan_out()
        asyncio.run(backend.aclose())
        assert all(isinstance(ask.data["messages"][0]["content"], str) for ask in server.asks)
        assert not any("prompt_cache_key" in ask.data for ask in server.asks)


def test_claude_gets_a_mark_where_siblings_part() -> None:
    asked = request(LONG + "question", reuse=Reuse((border(0, len(LONG), gap=900.0),), False))
    asked.model = "anthropic/claude-sonnet-4-5"
    backend = LiteLLM(api_key=KEY)
    found = backend._arguments(asked, "who", None)
    first, second = found["messages"][0]["content"]
    assert first["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert (first["text"], second) == (LONG, {"type": "text", "text": "question"})
