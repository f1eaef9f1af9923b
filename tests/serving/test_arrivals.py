"""Requests that do not end, do not fit or are none: each has an end, and one line in the log."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from appl.testing import Served, serving
from appl_backends.embedded import Embedded
from appl_backends.embedded.server import Address, Keys, serve
from tests.fuzzed import exchange
from tests.serving.conftest import ENDLESS, HELLO

HEAD = b"POST /generate HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PATIENCE = 20.0


@asynccontextmanager
async def served(arrival: float) -> AsyncIterator[str]:
    """A server in this process that gives requests *arrival* seconds; its address."""
    ready: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    backend = Embedded()
    task = asyncio.create_task(serve(backend, Keys.of("none"), ready.set_result, arrival=arrival))
    url = (await ready).url
    try:
        yield url
    finally:
        await exchange(url, b"POST /shutdown HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", PATIENCE)
        await task


async def answer(url: str, sent: bytes, patience: float = PATIENCE) -> bytes:
    """All that a connection brings until the server ends it, after *sent* and nothing more."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    try:
        async with asyncio.timeout(patience):
            return await reader.read()
    finally:
        writer.close()


async def test_requests_that_do_not_end_are_ended_and_long_answers_are_not() -> None:
    body = json.dumps(
        {"text": HELLO, "sampling_params": {**ENDLESS, "max_new_tokens": 200}}
    ).encode()
    long = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with served(arrival=0.2) as url:
        nothing, half_a_head, half_a_body, half_a_chunk, whole, two = await asyncio.gather(
            answer(url, b""),
            answer(url, HEAD),
            answer(url, HEAD + b"Content-Length: 99\r\n\r\n{"),
            answer(url, HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"),
            answer(url, long),
            answer(url, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /hea"),
        )
    assert nothing == b"" and half_a_head == b""
    assert half_a_body.startswith(b"HTTP/1.1 408") and half_a_chunk.startswith(b"HTTP/1.1 408")
    assert whole.startswith(b"HTTP/1.1 200") and b'"completion_tokens": 200' in whole
    assert two.startswith(b"HTTP/1.1 200") and two.count(b"HTTP/1.1") == 1


async def test_a_head_that_does_not_end_is_ended() -> None:
    async with served(arrival=0.2) as url:
        assert await answer(url, HEAD, patience=3.0) == b""


async def test_a_length_above_the_limit_is_refused_before_the_body_comes() -> None:
    """A body that is waited for would be late: 408."""
    async with served(arrival=0.2) as url:
        refused = await answer(url, HEAD + b"Content-Length: 99999999999\r\n\r\n{")
    assert refused.startswith(b"HTTP/1.1 413")


def status(url: str, raw: bytes) -> int:
    return asyncio.run(exchange(url, raw, PATIENCE)).status


def test_a_body_above_the_limit_is_refused_before_it_is_sent() -> None:
    with serving("--api-key", "none", "--max-body", "1000") as server:
        for length, expected in ((b"1001", 413), (b"99999999999", 413), (b"2", 400)):
            assert status(server.url, HEAD + b"Content-Length: %b\r\n\r\n{}" % length) == expected
        chunk = b"3e9\r\n" + b" " * 1001 + b"\r\n"
        assert status(server.url, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk) == 413


def test_a_compressed_body_is_refused_whether_it_is_good_or_bad(shared: Served) -> None:
    body = b'{"text": "Hello", "sampling_params": {"max_new_tokens": 1}}'
    key = f"Authorization: {shared.headers['Authorization']}\r\n".encode()
    for coding in (b"gzip", b"deflate", b"br", b"zstd", b"gzip, gzip", b"x"):
        for sent in (gzip.compress(body), gzip.compress(body)[:-9], zlib.compress(body), body, b""):
            head = HEAD + key + b"Content-Encoding: %b\r\n" % coding
            raw = head + b"Content-Length: %d\r\n\r\n%b" % (len(sent), sent)
            assert status(shared.url, raw) == 400, coding


def test_a_malformed_request_is_one_line_of_the_log(tmp_path: Path) -> None:
    malformed = (
        HEAD + b"Content-Length: x\r\n\r\n", HEAD + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
        HEAD + b"no colon\r\n\r\n", b"GET / HTTP/9x\r\n\r\n",
    )  # fmt: skip
    other = (b"G\x01T / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\n\r\n")  # no HTTP: not worth a line
    log = tmp_path / "log.txt"
    with serving("--api-key", "none", log=log) as server:
        assert {status(server.url, each) for each in (*malformed, *other)} == {400}
        assert status(server.url, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") == 200
    said = log.read_text().splitlines()
    assert len(said) == len(malformed), said
    assert all(line.startswith("appl serve: malformed request: ") for line in said)
    assert all(len(line) < 300 for line in said)
