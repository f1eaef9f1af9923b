"""Whatever is sent, the answer is an answer or a refusal, and the server lives on."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from appl.testing import Served
from tests.drawn import counts

from .conftest import HELLO, Client

PATHS = (
    "/generate",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/abort_request",
    "/tokenize",
    "/detokenize",
)
BODIES: dict[str, dict[str, Any]] = {
    "/generate": {
        "text": HELLO, "input_ids": None, "rid": None, "stream": False, "return_logprob": True,
        "logprob_start_len": 0, "top_logprobs_num": 1, "token_ids_logprob": [5], "lora_path": None,
        "return_text_in_logprobs": True, "image_data": None, "priority": 1, "extra_key": None,
        "return_prompt_token_ids": True,
        "sampling_params": {
            "max_new_tokens": 2, "temperature": 0.5, "top_p": 0.9, "n": 1, "stop": ["x"], "regex": "",
            "json_schema": None, "ebnf": None, "stop_token_ids": [3], "sampling_seed": 1, "top_k": -1,
            "min_new_tokens": 0, "stream_interval": 1, "ignore_eos": False, "min_p": 0,
            "structural_tag": None, "logit_bias": None, "skip_special_tokens": True,
        },
    },
    "/v1/chat/completions": {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "me"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "t"},
        ],
        "model": "embedded", "max_tokens": 2, "temperature": 0.5, "top_p": 0.9, "n": 1, "stop": "x",
        "seed": 1, "stream": False, "logprobs": True, "top_logprobs": 1, "stream_options": None,
        "response_format": {"type": "text", "json_schema": {"name": "x", "schema": {}}},
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}],
        "tool_choice": "auto", "continue_final_message": False, "regex": None, "rid": None,
        "stop_token_ids": [], "priority": 1,
    },
    "/v1/completions": {
        "prompt": "x", "model": "", "max_tokens": 2, "temperature": 0.5, "top_p": 1, "n": 1,
        "stop": None, "logprobs": 1, "seed": None, "stream": False, "regex": None, "echo": False,
    },
    "/v1/embeddings": {
        "model": "", "input": ["x", "y"], "dimensions": 256, "encoding_format": "base64",
    },
    "/abort_request": {"rid": "x", "abort_all": False},
    "/tokenize": {"prompt": "x"},
    "/detokenize": {"tokens": [1, 2]},
}  # fmt: skip

numbers = st.one_of(
    st.integers(-3, 9), st.sampled_from([2**31, 2**63, -(2**64), 10**400]), st.floats()
)
texts = st.one_of(
    st.text(max_size=8), st.sampled_from(["(", "{}", '{"type":7}', "\ud800", "<|end|>"])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
# The longest answer is short even where its limit was taken away.
LIMITS = {"max_new_tokens", "max_tokens"}


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside *data*."""
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    found = [path] if path else []
    return found + [place for key, value in inner for place in places(value, (*path, key))]


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    key, *rest = path
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[key] = changed(data[key], tuple(rest), value)
    return copy


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, Any]:
    path = draw(st.sampled_from(sorted(BODIES)))
    body: Any = BODIES[path]
    for _ in range(draw(st.integers(1, 3))):
        found = [place for place in places(body) if not LIMITS & {*place}]
        if not found:
            break
        body = changed(body, draw(st.sampled_from(found)), draw(values))
        if isinstance(body, dict) and "sampling_params" in body:
            inner = body["sampling_params"]
            if not isinstance(inner, dict):
                body = {**body, "sampling_params": {"max_new_tokens": 2}}
    return path, body


def answered(client: Client, path: str, body: bytes) -> None:
    found = client.http.post(path, content=body, headers=client.server.headers)
    assert found.status_code in (200, 400, 401, 404), (found.status_code, found.text, body)
    if found.status_code != 200:
        error = found.json()
        said = error.get("error", error)
        assert said == "Unauthorized" or isinstance(said["message"], str)


@counts(150, 500)
def test_a_body_with_odd_values_is_answered_or_refused(client: Client, count: int) -> None:
    @settings(max_examples=count)
    @given(mutations())
    def check(mutation: tuple[str, Any]) -> None:
        path, body = mutation
        answered(client, path, json.dumps(body).encode())

    check()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), body=st.binary(max_size=40))
def test_a_body_that_is_no_json_is_refused(client: Client, path: str, body: bytes) -> None:
    answered(client, path, body)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"1e999", b"{" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b'{"text": NaN}',
     b'{"text": "x", "sampling_params": {"temperature": Infinity}}',
     b'{"text": "x", "sampling_params": {"max_new_tokens": ' + b"9" * 5000 + b"}}",
     b'{"text": "x", "sampling_params": {"regex": "(a{1000}){1000}", "max_new_tokens": 1}}',
     b'{"text": "x", "sampling_params": {"regex": "((((a*)*)*)*)*b", "max_new_tokens": 1}}',
     b'{"input_ids": []}', b'{"input_ids": [[]]}', b'{"input_ids": [3072]}', b'{"input_ids": [-1]}',
     b'{"input_ids": [[1], 2]}', b'{"text": []}', b'{"text": ""}',
     b'{"text": "x", "rid": ["a", "b"]}', b'{"text": ["x", "y"], "rid": ["a", "a"]}'],
)  # fmt: skip
def test_known_troublemakers_are_refused(client: Client, body: bytes) -> None:
    for path in PATHS[:3]:
        answered(client, path, body)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": None}, "Either text, input_ids"),
        ({"sampling_params": {"top_k": 5}}, "top_k is not supported"),
        ({"sampling_params": {"tempurature": 5}}, "Unknown sampling parameter 'tempurature'"),
        ({"sampling_params": {"regex": "a", "ebnf": 'root ::= "a"'}}, "Only one of json_schema"),
        ({"sampling_params": {"max_new_tokens": 4096}}, "maximum context length"),
        ({"sampling_params": {"min_new_tokens": 9, "max_new_tokens": 8}}, "min_new_tokens"),
        ({"text": "word " * 5000}, "longer than the model's context"),
        ({"text": "x" * 200_000}, "longer than the model's context"),
        ({"return_logprob": True, "logprob_start_len": 99}, "logprob_start_len"),
        ({"image_data": "x"}, "image_data is not supported"),
        ({"text": ["x", "y"], "sampling_params": [{}]}, "sampling_params must be one value"),
    ],
)
def test_native_refusals_say_what_is_wrong(
    client: Client, change: dict[str, Any], words: str
) -> None:
    found = client.post("/generate", {"text": HELLO, **change})
    assert found.status_code == 400 and words in found.json()["error"]["message"]


def test_unknown_fields_of_a_request_are_ignored(client: Client) -> None:
    asked = {"max_new_tokens": 1, "top_k": -1, "min_p": 0.0, "skip_special_tokens": True}
    assert client.generate(HELLO, sampling_params=asked, no_logs=True, foo=[1])["text"]


def test_a_body_that_is_too_large_is_refused(client: Client) -> None:
    found = client.http.post("/generate", content=b" " * (17 << 20), headers=client.server.headers)
    assert found.status_code == 413 and "larger than" in found.json()["message"]


def test_two_requests_of_one_name_are_one_too_many(client: Client) -> None:
    found = client.post("/generate", {"text": ["x", "y"], "rid": ["same", "same"]})
    assert found.status_code == 400 and "Duplicate request ID" in found.text


@pytest.mark.parametrize(
    "sent",
    [b"\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"POST /generate HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
     b"POST /generate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"\x16\x03\x01" * 50,
     b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http_hurts_nobody(client: Client, shared: Served, sent: bytes) -> None:
    host, port = shared.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        line.sendall(sent)
    assert client.http.get("/health").status_code == 200
