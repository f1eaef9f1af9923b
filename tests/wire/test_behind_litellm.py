"""Answers of providers behind litellm, in the shapes in which servers of others were seen to send them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appl.backend import Chunk, Response
from appl.errors import BackendUnavailable, MalformedResponse
from appl.testing import Fault
from appl_backends.litellm import LiteLLM
from tests.providers.asking import JSON, STREAM, chat, closing, request
from tests.wire.servers import FaultServer


async def answered(
    model: str, path: str, body: bytes, headers: dict[str, str], **options: Any
) -> tuple[Response, str]:
    """The answer of a provider behind litellm that sends *body*, and the pieces of it together."""
    pieces: list[str] = []

    def emit(chunk: Chunk) -> None:
        pieces.append(chunk.text)

    with FaultServer([Fault("given", 200, headers, body)]) as server:
        async with closing(LiteLLM(base_url=server.url + path, api_key="k")) as backend:
            response = await backend.complete(request("q", model=model, **options), emit)
    return response, "".join(pieces)


def events(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in values)


def of_google(text: str, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]},
                            "index": 0, **more}]}  # fmt: skip


GEMINI = "gemini/gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash"


@pytest.mark.parametrize(("word", "reason"), [("STOP", "stop"), ("MAX_TOKENS", "length")])
@pytest.mark.parametrize("text", ["two", ""])
async def test_a_stream_of_gemini_ends_with_its_reason(word: str, reason: str, text: str) -> None:
    body = events(of_google("one "), of_google(text, finishReason=word))
    response, said = await answered(*GEMINI, body, STREAM)
    assert response.text == said == f"one {text}"
    assert response.samples[0].finish_reason == reason


async def test_counts_after_the_end_of_a_stream_of_gemini_are_not_its_reason() -> None:
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    last = {"candidates": [], "usageMetadata": usage}
    body = events(of_google("one ", finishReason="MAX_TOKENS"), last)
    response, _ = await answered(*GEMINI, body, STREAM)
    assert response.text == "one " and response.samples[0].finish_reason == "unknown"


async def test_a_stream_of_gemini_that_breaks_off_is_no_answer() -> None:
    with pytest.raises(MalformedResponse, match="without a finish reason"):
        await answered(*GEMINI, events(of_google("one "), of_google("tw")), STREAM)


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/jsonl; charset=utf-8"])
async def test_a_stream_of_ollama_has_a_value_in_each_line(kind: str) -> None:
    parts = ({"message": {"role": "assistant", "content": "one "}, "done": False},
             {"message": {"role": "assistant", "content": "two"}, "done": False},
             {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop",
              "prompt_eval_count": 3, "eval_count": 2})  # fmt: skip
    body = b"".join(json.dumps({"model": "llama3", **part}).encode() + b"\n" for part in parts)
    response, said = await answered("ollama_chat/llama3", "", body, {"Content-Type": kind})
    assert (response.text, said, response.samples[0].finish_reason) == (
        "one two",
        "one two",
        "stop",
    )


async def test_cohere_is_asked_for_whole_answers() -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "one two"}]}
    data = {"id": "c", "finish_reason": "COMPLETE", "message": message,
            "usage": {"tokens": {"input_tokens": 3, "output_tokens": 2}}}  # fmt: skip
    with FaultServer([Fault("given", 200, JSON, json.dumps(data).encode())]) as server:
        async with closing(LiteLLM(base_url=f"{server.url}/v2/chat", api_key="k")) as backend:
            asked = request("q", model="cohere_chat/command-r")
            response = await backend.complete(asked, lambda chunk: None)
    assert response.text == "one two"


async def test_an_answer_of_groq_may_lack_its_tier() -> None:
    answer = {**chat("hello"), "object": "chat.completion", "created": 1, "x_groq": {"id": "r"}}
    for more in ({}, {"service_tier": None}, {"service_tier": "on_demand"}):
        body = json.dumps({**answer, **more}).encode()
        with FaultServer([Fault("given", 200, JSON, body)]) as server:
            async with closing(LiteLLM(base_url=server.openai_url, api_key="k")) as backend:
                assert (await backend.complete(request("q", model="groq/x"))).text == "hello"


async def test_a_dead_host_behind_litellm_was_not_asked() -> None:
    async with closing(LiteLLM(base_url="http://127.0.0.1:9", api_key="k")) as backend:
        for model in ("openai/m", "groq/m", "gemini/m", "ollama_chat/m"):
            with pytest.raises(BackendUnavailable, match="cannot be reached") as caught:
                await backend.complete(request("q", model=model))
            assert caught.value.worked is False


async def test_what_litellm_cannot_read_is_not_a_connection_that_broke() -> None:
    body = json.dumps({**chat("hello"), "object": "chat.completion", "created": 1}).encode()
    with FaultServer([Fault("given", 200, JSON, body)]) as server:
        async with closing(LiteLLM(base_url=server.openai_url, api_key="k")) as backend:
            with pytest.raises(MalformedResponse, match="litellm cannot read the answer"):
                await backend.complete(request("q", model="groq/x"))
