"""The OpenAI-compatible backend against a real engine in another process: ``appl serve``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from appl import gen, ppl, select
from appl.backend import Chunk
from appl.errors import AuthenticationFailed, ModelNotFound, PromptTooLong
from appl.prompt import Message
from appl.testing.embedded_server import Served, serving
from appl_backends.embedded import Embedded
from appl_backends.openai import OpenAI
from tests.providers.asking import closing, request, using

TOOL = json.dumps({"name": "weather", "description": "the weather in a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}})  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as served:
        yield served


def client(served: Served, **settings: Any) -> OpenAI:
    given = {"server": "sglang", "api_key": served.api_key, **settings}
    return OpenAI(base_url=f"{served.url}/v1", **given)


async def both(served: Served, asked: Any) -> tuple[Any, Any]:
    """The answers to one request, over HTTP and in this process."""
    async with closing(client(served)) as remote:
        far = await remote.complete(asked)
    async with closing(Embedded()) as local:
        return far, await local.complete(asked)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"stop": ("e",)}, {"max_tokens": 3}, {"logprobs": 2}, {"regex": "[0-9]{3}"},
        {"schema": '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],'
                   '"additionalProperties":false}'},
    ],
    ids=["plain", "stop", "length", "logprobs", "regex", "schema"],
)  # fmt: skip
async def test_over_http_the_answer_is_that_of_the_engine(served: Served, options: Any) -> None:
    options = {"max_tokens": 24, "temperature": 0.0, **options}
    said = (Message("system", "You are helpful."), Message("user", "Hello, who are you?"))
    far, near = await both(served, request(*said, model="embedded", **options))
    assert far.text == near.text and far.samples[0].finish_reason == near.samples[0].finish_reason
    assert far.usage.prompt_tokens == near.usage.prompt_tokens
    assert far.usage.completion_tokens == near.usage.completion_tokens
    if "logprobs" in options:
        pairs = zip(far.samples[0].logprobs, near.samples[0].logprobs, strict=True)
        assert all(a.logprob == pytest.approx(b.logprob, abs=1e-3) for a, b in pairs)


async def test_a_stream_adds_up_to_the_answer(served: Served) -> None:
    seen: list[Chunk] = []
    asked = request("Hello, who are you?", model="embedded", max_tokens=24, temperature=0.0)
    async with closing(client(served)) as backend:
        whole, streamed = await backend.complete(asked), await backend.complete(asked, seen.append)
    assert streamed.text == whole.text == "".join(chunk.text for chunk in seen) and len(seen) > 3
    assert streamed.usage.completion_tokens == whole.usage.completion_tokens


async def test_samples_are_several_and_the_prefix_is_cached(served: Served) -> None:
    asked = request(
        "Tell me a short story about a cat.", model="embedded", n=3, max_tokens=8, seed=1
    )
    async with closing(client(served)) as backend:
        first, again = await backend.complete(asked), await backend.complete(asked)
    assert len(first.samples) == 3 and len({sample.text for sample in first.samples}) > 1
    assert [s.text for s in first.samples] == [s.text for s in again.samples]
    assert again.usage.cached_tokens > 0


async def test_an_answer_that_was_begun_is_continued(served: Served) -> None:
    asked = request("Say hello.", "Hel", model="embedded", max_tokens=8, temperature=0.0)
    far, near = await both(served, asked)
    assert far.text == near.text


async def test_a_tool_is_called(served: Served) -> None:
    asked = request("What is the weather in Paris?", model="embedded", max_tokens=40,
                    temperature=0.0, tools=(TOOL,), tool_choice="required")  # fmt: skip
    async with closing(client(served)) as backend:
        sample = (await backend.complete(asked)).samples[0]
        streamed = (await backend.complete(asked, lambda chunk: None)).samples[0]
    assert sample.finish_reason == "tool_calls" and sample.tool_calls[0].name == "weather"
    assert json.loads(sample.tool_calls[0].arguments).keys() == {"city"}
    assert streamed.tool_calls[0].arguments == sample.tool_calls[0].arguments


async def test_refusals_of_a_real_server_are_typed(served: Served) -> None:
    async with closing(client(served), client(served, api_key="wrong-key")) as backend:
        with pytest.raises(PromptTooLong):
            await backend.complete(request("word " * 20_000, model="embedded"))
        with pytest.raises(ModelNotFound):
            await backend.complete(request("hi", model="embeded"))
    async with closing(client(served, api_key="wrong-key")) as stranger:
        with pytest.raises(AuthenticationFailed) as caught:
            await stranger.complete(request("hi", model="embedded"))
    assert "wrong-key" not in str(caught.value)


async def test_the_only_model_of_a_server_need_not_be_named(served: Served) -> None:
    async with closing(client(served)) as backend:
        assert (await backend.complete(request("hi", model="", max_tokens=2))).model == "embedded"


class City(BaseModel):
    name: str = Field(max_length=20)  # which the token limit cannot cut, whatever is drawn


@ppl
def choose(question: str) -> Any:
    f"{question}"
    return select(["yes", "no"])


@ppl
def typed(question: str, kind: Any) -> Any:
    f"{question}"
    return gen(response_format=kind, max_tokens=60)


@ppl
def told(question: str) -> Any:
    f"{question}"
    return gen(stream=True, max_tokens=12)


def test_programs_choose_type_and_stream_over_http(served: Served) -> None:
    with using(client(served, model="embedded"), seed=1):
        assert choose("Is water wet?") in ("yes", "no")
        assert isinstance(typed("A city in France?", City).response_obj, City)
        assert typed("Is it warm in June?", Literal["yes", "no"]).response_obj in ("yes", "no")
        assert str(told("Hello!")) == "".join(told("Hello!"))


async def test_cancelling_stops_the_engine(served: Served) -> None:
    begun = asyncio.Event()
    asked = request("Tell me a long story.", model="embedded", max_tokens=400, temperature=1.0)
    async with closing(client(served)) as backend:
        task = asyncio.ensure_future(backend.complete(asked, lambda chunk: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await backend.complete(request("hi", model="embedded", max_tokens=2))).text
