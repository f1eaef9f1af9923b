"""Clients of the embedded model's server that read nothing, or slowly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from appl_backends.embedded import Embedded
from appl_backends.embedded.server import Address, Keys, serve
from tests.slow import asked, connected, ended, read_slowly

from .conftest import ENDLESS, HELLO

VECTORS = {"input": ["a"] * 999, "encoding_format": "float"}
LONG = {"text": HELLO, "stream": True, "return_logprob": True, "sampling_params": ENDLESS}


@asynccontextmanager
async def served(reading: float) -> AsyncIterator[tuple[int, httpx.AsyncClient]]:
    """The port of a server in this process, and a client of it that behaves."""
    ready: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(Embedded(), Keys.of("none"), ready.set_result, reading=reading)
    )
    url = (await ready).url
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        try:
            yield int(url.rpartition(":")[2]), client
        finally:
            await client.post("/shutdown")
            await task


@pytest.mark.parametrize(("path", "body"), [("/generate", LONG), ("/v1/embeddings", VECTORS)])
async def test_a_client_that_never_reads_is_disconnected(path: str, body: Any) -> None:
    async with served(reading=0.3) as (port, client), connected(port) as link:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(link, asked(path, json.dumps(body).encode(), {}))
        assert await ended(link)
        # Its answer is aborted: nothing is left that the engine works at.
        state = {"open_requests": 1}
        while state["open_requests"] or state["running"]:
            state = (await client.get("/server_info")).json()["internal_states"][0]
        assert state["aborts"] == (path == "/generate")


async def test_a_client_that_reads_slowly_gets_everything() -> None:
    async with served(reading=1.0) as (port, _), connected(port) as link:
        loop = asyncio.get_running_loop()
        sent = asked("/v1/embeddings", json.dumps(VECTORS).encode(), {"Connection": "close"})
        await loop.sock_sendall(link, sent)
        began = loop.time()
        found = await read_slowly(link, 15, 0.1)
        assert loop.time() - began > 1.0
        assert len(json.loads(found.partition(b"\r\n\r\n")[2])["data"]) == 999
