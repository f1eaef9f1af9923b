from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from appl_backends.http.client import Pool
from appl_backends.http.connection import Broken, Connection
from appl_backends.http.route import Route, address_of
from tests.connections.test_connection import BODY, CHUNKED

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ASK = b"GET / HTTP/1.1\r\n\r\n"


class Server:
    """Answers every request with what *reply* gives; keeps count."""

    def __init__(self, reply: Callable[[int], bytes] = lambda number: OK) -> None:
        self.reply = reply
        self.connections = self.requests = 0
        self.held: asyncio.Event | None = None

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                if self.held is not None:
                    await self.held.wait()
                writer.write(self.reply(self.requests))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def pooled(server: Server, limit: int = 10) -> AsyncIterator[Pool]:
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = Pool(Route("127.0.0.1", port, None, None), limit, 5.0)
    pool.users = 1
    try:
        yield pool
    finally:
        pool.leave()
        listening.close()


async def ask(pool: Pool) -> bytes:
    connection = await pool.take()
    try:
        await connection.ask(ASK)
        return connection.body()
    finally:
        pool.give(connection, connection.finish())


async def test_a_connection_is_used_again() -> None:
    server = Server()
    async with pooled(server) as pool:
        assert [await ask(pool) for _ in range(5)] == [b"ok"] * 5
    assert (server.connections, server.requests) == (1, 5)


async def test_no_more_connections_are_open_than_the_limit() -> None:
    server = Server()
    async with pooled(server, limit=3) as pool:
        assert await asyncio.gather(*(ask(pool) for _ in range(50))) == [b"ok"] * 50
    assert server.connections == 3


async def test_an_answer_that_closes_its_connection_makes_room_for_another() -> None:
    server = Server(lambda number: OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
    async with pooled(server, limit=2) as pool:
        assert await asyncio.gather(*(ask(pool) for _ in range(9))) == [b"ok"] * 9
    assert server.connections == 9


async def test_whoever_is_cancelled_leaves_its_place_to_the_next() -> None:
    server = Server()
    server.held = asyncio.Event()
    async with pooled(server, limit=1) as pool:
        first, second, third = (asyncio.ensure_future(ask(pool)) for _ in range(3))
        while not server.requests:
            await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        server.held.set()
        assert await third == b"ok"
        assert first.cancelled() or first.cancelling()
    assert server.connections == 2


async def test_who_is_cancelled_when_its_turn_has_come_hands_it_on() -> None:
    server = Server()
    async with pooled(server, limit=1) as pool:
        held = await pool.take()
        await held.ask(ASK)
        waiting = [asyncio.ensure_future(ask(pool)) for _ in range(2)]
        await asyncio.sleep(0)
        pool.give(held, held.finish())
        waiting[0].cancel()
        assert await waiting[1] == b"ok"
    assert server.connections == 1


async def test_a_server_that_closes_before_it_answers_breaks_the_request() -> None:
    async with pooled(Server(lambda number: OK[:20])) as pool:
        connection = await pool.take()
        asking = asyncio.ensure_future(connection.ask(ASK))
        while not connection.answer.begun:
            await asyncio.sleep(0)
        assert connection.transport is not None
        connection.transport.abort()
        with pytest.raises(Broken) as caught:
            await asking
        assert caught.value.begun
        pool.give(connection, connection.finish())
        assert await pool.take() is not connection


async def test_a_connection_that_went_while_idle_is_not_used() -> None:
    server = Server()
    async with pooled(server) as pool:
        await ask(pool)
        (idle,) = pool._idle
        idle.close()
        await asyncio.sleep(0)
        assert await ask(pool) == b"ok"
    assert server.connections == 2


async def test_nobody_there_leaves_the_place_free() -> None:
    pool = Pool(Route("127.0.0.1", 9, None, None), 1, 5.0)
    for _ in range(3):
        with pytest.raises(OSError):
            await pool.take()


async def test_a_body_is_streamed_as_it_comes() -> None:
    server = Server(lambda number: CHUNKED)
    async with pooled(server) as pool:
        for _ in range(2):
            connection = await pool.take()
            answer = await connection.head(ASK)
            assert answer.status == 200
            assert b"".join([piece async for piece in connection.pieces()]) == BODY
            pool.give(connection, connection.finish())
    assert server.connections == 1


async def test_a_stream_that_is_left_closes_its_connection() -> None:
    server = Server(lambda number: CHUNKED[:-20])
    async with pooled(server) as pool:
        connection = await pool.take()
        await connection.head(ASK)
        pool.give(connection, connection.finish())
        assert not connection.is_open


async def test_a_burst_opens_fewer_connections_than_calls_if_answers_come_at_once() -> None:
    server = Server()
    async with pooled(server, limit=1000) as pool:
        assert await asyncio.gather(*(ask(pool) for _ in range(400))) == [b"ok"] * 400
    assert server.connections < 400


async def test_nobody_waits_for_ever_if_connections_fail_and_some_are_cancelled() -> None:
    pool = Pool(Route("127.0.0.1", 9, None, None), 2, 5.0)
    waiting = [asyncio.ensure_future(pool.take()) for _ in range(50)]
    await asyncio.sleep(0)
    for each in waiting[::3]:
        each.cancel()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in found} == {ConnectionRefusedError, asyncio.CancelledError}
    assert pool.is_unused


async def test_a_loop_that_will_end_keeps_no_connection_without_users() -> None:
    server = Server()
    async with pooled(server) as pool:
        await ask(pool)
        assert not pool.is_unused
        pool.leave()
        assert pool.is_unused
        pool.users = 1


def test_a_connection_that_was_reset_at_once_has_no_address() -> None:
    known = asyncio.Transport({"peername": ("127.0.0.1", 80)})
    assert address_of(known) == "127.0.0.1"
    assert address_of(asyncio.Transport({"peername": None})) == address_of(None) == ""


class HangsUp:
    """A route to a server that hangs up as soon as a connection is made."""

    def __init__(self) -> None:
        self.made = 0

    async def connect(self) -> Connection:
        self.made += 1
        assert self.made < 10, "it is connected with again and again"
        return Connection()  # without a transport, as one that is lost


def test_a_server_that_hangs_up_at_once_is_an_error_and_not_asked_again_and_again() -> None:
    async def program() -> int:
        route: Any = HangsUp()
        pool = Pool(route, 10, 5.0)
        with pytest.raises(ConnectionResetError, match="hung up at once"):
            await asyncio.wait_for(pool.take(), 5)
        return int(route.made)

    assert asyncio.run(program()) == 1
