"""An error with status 200 is that error: its code decides the class, and its words are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appl.errors import (
    AuthenticationFailed,
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnavailable,
    MalformedResponse,
    ModelNotFound,
    PromptTooLong,
)
from appl.testing import Fault
from appl_backends.embedded import WEIGHTS
from tests.faults.storm import CLIENTS
from tests.providers.asking import JSON, STREAM, closing, request
from tests.wire.servers import FaultServer

WORDS: list[tuple[Any, type[BackendError], str]] = [
    ({"detail": "Model overloaded, retry later"}, BackendBusy, "overloaded"),
    (
        {"object": "error", "message": "max context 4096 exceeded", "code": 400},
        PromptTooLong,
        "4096",
    ),
    (
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow down"},
        BackendBusy,
        "slow down",
    ),
    (
        {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
        BackendBusy,
        "busy",
    ),
    (
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}},
        BackendBusy,
        "quota",
    ),
    ([{"error": {"code": 400, "message": "API key not valid"}}], AuthenticationFailed, "not valid"),
    ({"error": "boom"}, BackendUnavailable, "boom"),
    ({"error": {"message": "no such thing", "code": "model_not_found"}}, ModelNotFound, "no such"),
    ({"error": {"message": "insufficient balance"}}, BackendRefused, "balance"),
    ({"message": "wrong field", "code": "invalid_request_error"}, BackendRefused, "wrong field"),
]


def sse(kind: str, payload: Any) -> bytes:
    head = f"event: {kind}\n" if kind else ""
    return f"{head}data: {json.dumps(payload)}\n\n".encode()


def told(payload: Any) -> Any:
    """*payload* as an error where a message alone is none: an answer of Cohere's has one."""
    plain = isinstance(payload, dict) and payload.keys() <= {"message", "msg", "code", "choices"}
    return {"error": payload} if plain else payload


async def error_of(client: str, body: bytes, headers: dict[str, str], stream: bool) -> BackendError:
    emit = (lambda chunk: None) if stream else None
    with FaultServer([Fault("given", 200, headers, body)], model_path=str(WEIGHTS)) as server:
        async with closing(CLIENTS[client](server)) as backend:
            model = "openai/fault" if client == "litellm" else "fault"
            with pytest.raises(BackendError) as caught:
                await backend.complete(request("q", model=model), emit)
    return caught.value


@pytest.mark.parametrize("client", ["openai", "sglang", "litellm"])
@pytest.mark.parametrize(("payload", "kind", "words"), WORDS)
async def test_an_error_in_place_of_an_answer_is_that_error(
    client: str, payload: Any, kind: type[BackendError], words: str
) -> None:
    if client == "litellm":
        payload = told(payload)
    error = await error_of(client, json.dumps(payload).encode(), JSON, False)
    assert isinstance(error, kind) and words in str(error)


@pytest.mark.parametrize("client", ["openai", "sglang", "litellm"])
@pytest.mark.parametrize("named", ["", "error"])
@pytest.mark.parametrize(("payload", "kind", "words"), WORDS)
async def test_an_error_in_a_stream_is_that_error(
    client: str, named: str, payload: Any, kind: type[BackendError], words: str
) -> None:
    payload = payload[0] if isinstance(payload, list) else payload
    if client == "litellm":
        payload = told(payload)
    error = await error_of(client, sse(named, payload), STREAM, True)
    assert isinstance(error, kind) and words in str(error)


async def test_an_object_without_choices_and_words_is_no_answer() -> None:
    error = await error_of("openai", b'{"msg": "?", "choices": null}', JSON, False)
    assert isinstance(error, MalformedResponse) and "none of 1" in str(error)


async def test_a_stream_that_ends_with_an_error_says_why() -> None:
    choice = {"delta": {"content": ""}, "finish_reason": "error"}
    body = sse("", {"choices": [{"delta": {"content": "so far"}}]})
    body += sse("", {"error": {"code": 502, "message": "upstream gone"}, "choices": [choice]})
    error = await error_of("openai", body, STREAM, True)
    assert isinstance(error, BackendUnavailable) and "upstream gone" in str(error)


@pytest.mark.parametrize(
    "kind", ["Text/Event-Stream; charset=utf-8", "application/json", "text/plain"]
)
async def test_a_stream_is_known_by_its_first_bytes(kind: str) -> None:
    choice = {"delta": {"content": "yes"}, "finish_reason": "stop"}
    body = b": comment\n\ndata:\n\n" + sse("", {"choices": [choice]}) + b"data: [DONE]\n\n"
    for emit in ((lambda chunk: None), None):
        with FaultServer([Fault("given", 200, {"Content-Type": kind}, body)]) as server:
            async with closing(CLIENTS["openai"](server)) as backend:
                assert (await backend.complete(request("q", model="fault"), emit)).text == "yes"
