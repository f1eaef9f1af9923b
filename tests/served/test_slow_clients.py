"""Clients that send slowly, do not read, or go away: each has its end, and no run is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from appl.config import Config
from appl.parts.serving import (
    Network,
    Ready,
    RunLimits,
    RunSettings,
    process,
    served_config,
    served_function,
)
from appl.parts.web import Keys
from tests.slow import PATIENCE, asked, connected, ended, read_slowly, received, send_slowly

KEY = {"Authorization": "Bearer k"}
EVENTS = {**KEY, "Accept": "text/event-stream"}
LARGE = 4_000_000


def large(size: int) -> str:
    return "x" * size


def flood(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"{number:07} " * 1000


def plain(a: int) -> int:
    return a + 1


def texts(texts: list[str]) -> list[list[float]]:
    return [[0.1] * 1000 for _ in texts]


def converse(text: str) -> str:
    return text * LARGE


@dataclass
class Server:
    """A server in this process, and a client that behaves."""

    port: int
    home: Path
    client: httpx.AsyncClient

    async def works(self) -> None:
        found = await self.client.post("/functions/plain", json={"a": 1})
        assert found.json()["result"] == 2

    async def run(self, name: str) -> Any:
        found = await self.client.get(f"/runs/{name}", params={"wait": 60})
        return found.json()

    def runs(self, function: str) -> list[str]:
        return sorted(path.stem for path in (self.home / "runs").glob(f"*-{function}-*.trace"))

    async def one_run(self, function: str) -> Any:
        """The run of *function*, once it has ended."""
        async with asyncio.timeout(PATIENCE):
            while not (names := self.runs(function)):
                await self.works()
        (name,) = names
        return await self.run(name)


@asynccontextmanager
async def served(
    home: Path, *functions: Callable[..., Any], **limits: float
) -> AsyncIterator[Server]:
    ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    config: Config = served_config({"home": str(home), "model": "embedded"})
    made = [served_function(each.__name__, each, __file__) for each in (plain, *functions)]
    network = Network(grace_s=0.0, **limits)  # type: ignore[arg-type]
    serving = asyncio.create_task(
        process.serve(
            made, RunSettings(config, {}), Keys("k", "a"), ready.set_result,
            limits=RunLimits(), network=network,
        )
    )  # fmt: skip
    await asyncio.wait([ready, serving], return_when=asyncio.FIRST_COMPLETED)
    url = ready.result().url
    try:
        async with httpx.AsyncClient(base_url=url, headers=KEY, timeout=PATIENCE) as client:
            yield Server(int(url.rpartition(":")[2]), home, client)
    finally:
        serving.cancel()
        await asyncio.wait([serving])


# -- what is sent slowly


@pytest.mark.parametrize("path", ["/functions/plain", "/v1/chat/completions", "/runs/x/answers"])
async def test_a_body_that_comes_a_byte_at_a_time_is_refused_and_begins_no_run(
    tmp_path: Path, path: str
) -> None:
    head = asked(path, b"", {"Authorization": "Bearer a"}, length=9999)
    async with served(tmp_path, arrival_s=0.3) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head)
        answer = asyncio.create_task(received(reader))
        while not (await asyncio.wait([answer], timeout=0.02))[0]:
            writer.write(b" ")
            await server.works()
        writer.close()
        assert answer.result().startswith(b"HTTP/1.1 408")
        assert b"0.3 s" in answer.result()
        assert all("plain" in name for name in server.runs("*"))


async def test_a_head_that_comes_a_byte_at_a_time_is_ended(tmp_path: Path) -> None:
    async with served(tmp_path, arrival_s=0.3) as server:
        assert (
            await send_slowly(server.port, b"GET /health HTTP/1.1\r\nX: " + b"y" * 999, 0.02) == b""
        )
        await server.works()


async def test_a_body_that_comes_slowly_and_in_time_is_answered(tmp_path: Path) -> None:
    whole = asked("/functions/plain", b'{"a": 6}', {**KEY, "Connection": "close"})
    async with served(tmp_path, arrival_s=30.0) as server:
        assert b'"result": 7' in await send_slowly(server.port, whole, 0.001)


# -- what is not read

UNREAD = {
    "a stream": ("/functions/flood", {"count": 1000}, EVENTS, flood),
    "a whole answer": ("/functions/large", {"size": LARGE}, KEY, large),
    "a conversation": (
        "/v1/chat/completions",
        {"model": "converse", "messages": [{"role": "user", "content": "x"}]},
        KEY,
        converse,
    ),
    "a conversation's stream": (
        "/v1/chat/completions",
        {"model": "converse", "stream": True, "messages": [{"role": "user", "content": "x"}]},
        KEY,
        converse,
    ),
    "vectors": ("/v1/embeddings", {"model": "texts", "input": ["a"] * 999}, KEY, texts),
}


@pytest.mark.parametrize("what", UNREAD)
async def test_a_client_that_never_reads_is_disconnected_and_its_run_ends(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, body, headers, function = UNREAD[what]
    async with served(tmp_path, function, reading_s=0.3) as server:
        async with connected(server.port) as link:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(link, asked(path, json.dumps(body).encode(), headers))
            assert await ended(link)
            await server.works()
        run = await server.one_run(function.__name__)
        assert run["status"] == "finished" and len(str(run["result"])) > 1_000_000
    assert "Traceback" not in caplog.text and "failed" not in caplog.text


async def test_a_client_that_never_reads_holds_up_nobody(tmp_path: Path) -> None:
    body = json.dumps({"count": 500}).encode()
    async with served(tmp_path, flood, reading_s=30.0) as server:
        loop = asyncio.get_running_loop()
        async with connected(server.port) as first, connected(server.port) as second:
            for link in (first, second):
                await loop.sock_sendall(link, asked("/functions/flood", body, EVENTS))
            for _ in range(5):
                await server.works()


async def test_a_client_that_reads_slowly_gets_everything(tmp_path: Path) -> None:
    """It takes longer than it may leave anything unread."""
    body = json.dumps({"count": 300}).encode()
    async with served(tmp_path, flood, reading_s=1.0) as server:
        async with connected(server.port) as link:
            head = {**EVENTS, "Connection": "close"}
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(link, asked("/functions/flood", body, head))
            began = loop.time()
            found = await read_slowly(link, 15, 0.1)
            assert loop.time() - began > 1.0
        assert b"event: end" in found and found.count(b"0000299 ") >= 1000


# -- who goes away


@pytest.mark.parametrize("headers", [KEY, EVENTS, {**KEY, "Prefer": "respond-async"}])
async def test_the_run_of_a_client_that_goes_away_ends(
    tmp_path: Path, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps({"count": 100}).encode()
    async with served(tmp_path, flood) as server:
        async with connected(server.port) as link:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(link, asked("/functions/flood", body, headers))
        run = await server.one_run("flood")
        assert run["status"] == "finished" and len(run["result"]) == 800_000
    assert "Traceback" not in caplog.text


async def test_half_a_request_begins_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = asked("/functions/flood", b'{"count": 2}', KEY)
    async with served(tmp_path, flood) as server:
        for length in (10, len(whole) - 1):
            async with connected(server.port) as link:
                await asyncio.get_running_loop().sock_sendall(link, whole[:length])
            await server.works()
        assert server.runs("flood") == []
    assert "Traceback" not in caplog.text
