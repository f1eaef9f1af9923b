"""Fuzzed requests to ``appl serve``: no failure of the server, no traceback, little memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appl.testing import Served, serving
from tests.drawn import counts
from tests.fuzzed import Draft, Verdict, exchange, storm

MEMORY = 300 << 20
SAMPLING = {"max_new_tokens": 2, "temperature": 0.0, "n": 1, "stop": ["x"], "regex": "[a-z]+"}
DRAFTS = [
    Draft("POST", "/generate", {"text": "Hello", "sampling_params": SAMPLING, "rid": "r"}),
    Draft("POST", "/generate", {
        "input_ids": [5, 6, 7], "sampling_params": {"max_new_tokens": 1}, "return_logprob": True,
        "logprob_start_len": 0, "top_logprobs_num": 2, "token_ids_logprob": [1], "stream": True,
    }),
    Draft("POST", "/v1/chat/completions", {
        "model": "embedded", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2,
        "temperature": 0.0, "logprobs": True, "top_logprobs": 2, "stop": ["x"], "seed": 1,
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
    }),
    Draft("POST", "/v1/chat/completions", {
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [
            {"type": "text", "text": "Hello"}]}], "max_tokens": 1, "tool_choice": "auto",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    }),
    Draft("POST", "/v1/completions", {"prompt": "Hello", "max_tokens": 2, "logprobs": 1, "n": 1}),
    Draft("POST", "/v1/embeddings", {
        "model": "embedded", "input": ["Hello", "there"], "dimensions": 256,
        "encoding_format": "base64",
    }),
    Draft("POST", "/v1/embeddings", {"input": [[5, 6], [7]], "encoding_format": "float"}),
    Draft("POST", "/tokenize", {"prompt": "Hello"}),
    Draft("POST", "/detokenize", {"tokens": [5, 6], "skip_special_tokens": False}),
    Draft("POST", "/abort_request", {"rid": "r", "abort_all": False}),
    Draft("GET", "/v1/models/embedded"),
    Draft("GET", "/server_info"),
    Draft("POST", "/flush_cache"),
]  # fmt: skip


def unexpected(status: int) -> bool:
    """A full queue is told with 503; every other 5xx is a failure of the server."""
    return status >= 500 and status != 503


def memory(server: Served) -> int:
    """The largest resident size so far, in bytes."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def storms(tmp_path: Path, seeds: range) -> tuple[Counter[int], list[Verdict], int, str]:
    log = tmp_path / "log.txt"
    sizes = ("--cache-tokens", "512", "--row-tokens", "512", "--max-queued", "64")
    with serving(*sizes, log=log) as server:
        found = asyncio.run(storm(server.url, server.headers, DRAFTS, seeds, unexpected))
        used = memory(server)
        alive = asyncio.run(
            exchange(server.url, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        )
        assert alive.status == 200
    return *found, used, log.read_text()


def check(found: tuple[Counter[int], list[Verdict], int, str], count: int) -> None:
    statuses, failures, used, log = found
    assert failures == [], failures[0].sent[:2000]
    assert sum(statuses.values()) == count
    assert "Traceback" not in log
    assert used <= MEMORY, f"{used >> 20} MiB"


@counts(600, 4_000)
def test_fuzzed_requests_are_answered_or_refused(tmp_path: Path, count: int) -> None:
    found = storms(tmp_path, range(count))
    check(found, count)
    statuses = found[0]
    assert {200, 400, 401, 403, 404, 405} <= set(statuses), statuses
    assert statuses[200] > count / 8 and statuses[400] > 3 / 8 * count, statuses


@pytest.mark.long
def test_many_more_fuzzed_requests_are_answered_or_refused(tmp_path: Path) -> None:
    found = storms(tmp_path, range(1_000_000, 1_200_000))
    print(dict(found[0]), f"{found[2] >> 20} MiB")
    check(found, 200_000)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", b'{"prompt": "' + b"a" * 1_900_000 + b'"}'),
        ("/detokenize", b'{"tokens": [' + b"5," * 900_000 + b"5]}"),
        ("/v1/chat/completions", b'{"messages": [' + b"{}," * 600_000 + b"{}]}"),
        ("/generate", b'{"text": [' + b'"a",' * 400_000 + b'"a"]}'),
        (
            "/generate",
            b'{"text": "x", "sampling_params": {"stop": [' + b'"a",' * 400_000 + b'"a"]}}',
        ),
    ],
    ids=["tokenize", "detokenize", "messages", "prompts", "stops"],
)
def test_large_bodies_are_refused_before_the_work(burdened: Served, path: str, body: bytes) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in burdened.headers.items())
    answer = asyncio.run(exchange(burdened.url, head.encode() + b"\r\n" + body, 60.0))
    assert answer.status == 400
    assert memory(burdened) <= MEMORY


@pytest.fixture(scope="module")
def burdened() -> Iterator[Served]:
    """A server that gets large bodies only."""
    with serving() as server:
        yield server


def test_a_page_of_another_origin_gets_no_answer_with_or_without_keys(
    shared: Served, keyless: Served
) -> None:
    strange: list[dict[str, str]] = [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"}, {"Host": "evil.example:80", "Origin": "http://evil.example:80"},
    ]  # fmt: skip

    def status(server: Served, path: str, heads: dict[str, Any]) -> int:
        given = {"Host": server.url.removeprefix("http://"), **server.admin_headers, **heads}
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        raw = f"POST {path} HTTP/1.1\r\n{head}Content-Length: 2\r\n\r\n{{}}".encode()
        return asyncio.run(exchange(server.url, raw, 60.0)).status

    for server in (shared, keyless):
        for heads in strange:
            assert status(server, "/shutdown", heads) == 403, heads
            assert status(server, "/generate", heads) == 403, heads
        own = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
        assert status(server, "/flush_cache", own) == 200
    with serving("--allow-host", "gpu.lan") as server:
        assert status(server, "/flush_cache", {"Host": "gpu.lan:8000"}) == 200
