"""What a server says of itself is kept for all runs of a process, until it may be another server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest_asyncio

from appl_backends.sglang.probe import FRESH_S, ServerFacts, server_at
from appl_backends.sglang.wire import Wire
from tests.wire.servers import FaultServer


def wire_to(server: FaultServer, key: str | None = None) -> Wire:
    return Wire(server.url, key, None, 4, 5.0)


async def said(server: FaultServer, key: str | None = None) -> str:
    """The model that *server* has, as a client of its own takes it to be."""
    wire = wire_to(server, key)
    try:
        return (await server_at(wire)).model
    finally:
        await wire.aclose()


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FaultServer]:
    """A server whose facts were asked by a client that is still there, and that has changed since.

    It has the model ``first`` when it is asked the first time, and ``second`` later.
    """
    with FaultServer(model="first") as server:
        wire = wire_to(server)
        assert (await server_at(wire)).model == "first"
        server.model = "second"
        yield server
        await wire.aclose()


async def test_a_client_after_another_does_not_ask_again(server: FaultServer) -> None:
    assert await said(server) == "first"


async def test_a_client_with_another_key_asks_anew(server: FaultServer) -> None:
    assert await said(server, key="another") == "second"


async def test_a_server_that_was_started_anew_is_asked_anew(server: FaultServer) -> None:
    server.kill()
    server.revive()
    wire = wire_to(server)
    while wire.learned:  # until the loop has seen the end of the connection
        await asyncio.sleep(0)
    assert (await server_at(wire)).model == "second"
    await wire.aclose()


async def test_what_is_old_is_asked_anew(server: FaultServer) -> None:
    wire = wire_to(server)
    wire.learned[ServerFacts] = await server_at(wire), time.monotonic() - FRESH_S - 1.0
    assert await said(server) == "second"
    await wire.aclose()


async def test_another_loop_asks_anew(server: FaultServer) -> None:
    assert await asyncio.to_thread(asyncio.run, said(server)) == "second"


FORKED = """
import asyncio, os, sys
from appl_backends.sglang.probe import server_at
from appl_backends.sglang.wire import Wire
wire, loop = Wire(sys.argv[1], None, None, 4, 5.0), asyncio.new_event_loop()
async def learned():
    return len(wire.learned)
loop.run_until_complete(server_at(wire))
child = os.fork()
if not child:
    os._exit(loop.run_until_complete(learned()))
assert os.waitpid(child, 0)[1] == 0 and loop.run_until_complete(learned()) == 1
loop.run_until_complete(wire.aclose())
"""


def test_a_forked_process_asks_anew() -> None:
    with FaultServer() as server:
        subprocess.run([sys.executable, "-c", FORKED, server.url], check=True, timeout=60)


async def test_without_a_client_nothing_is_kept_of_a_loop_that_will_end() -> None:
    with FaultServer(model="first") as server:
        assert await said(server) == "first"
        server.model = "second"
        assert await said(server) == "second"
