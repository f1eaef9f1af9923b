from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appl_backends.sglang.http import AnswerParser, Broken, Connection, NotHttp, Pool

BODY = b'{"a": 1}\r\n\r\nHTTP/1.1 0'
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Y: z\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;x=y\r\n" + BODY[:5] + b"\r\n%x\r\n" % len(BODY[5:]) + BODY[5:] + b"\r\n0\r\nT: x\r\n\r\n"
)
CLOSED = b"HTTP/1.1 200 OK\r\n\r\n" + BODY
PROVISIONAL = b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH


def read(data: bytes, cuts: list[int]) -> tuple[AnswerParser, bytes]:
    answer, body = AnswerParser(), []
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        body.append(answer.feed(data[at:cut]))
        at = max(at, cut)
    answer.eof()
    return answer, b"".join(body)


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, CLOSED, PROVISIONAL])
@given(cuts=st.lists(st.integers(0, 120)))
def test_an_answer_is_the_same_however_its_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    answer, body = read(data, [min(cut, len(data)) for cut in cuts])
    assert (answer.status, body, answer.complete) == (200, BODY, True)
    assert answer.keeps is (data is not CLOSED)


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, PROVISIONAL])
@given(end=st.integers(0, 400))
def test_half_an_answer_is_never_complete(data: bytes, end: int) -> None:
    answer = AnswerParser()
    answer.feed(data[: min(end, len(data) - 1)])
    assert not answer.eof()


def test_names_of_headers_are_lower_case() -> None:
    assert read(LENGTH, [])[0].headers == {"content-length": str(len(BODY)), "x-y": "z"}


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200 OK\r\n", True),
    ],
)
def test_a_connection_is_kept_when_the_server_keeps_it(head: bytes, keeps: bool) -> None:
    assert read(head + b"Content-Length: 0\r\n\r\n", [])[0].keeps is keeps


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, b"HTTP/1.1 204 No\r\n\r\n"])
def test_a_connection_with_more_than_the_answer_is_not_kept(data: bytes) -> None:
    assert not read(data + b"x", [])[0].keeps
    assert not read(data + b"x", [len(data)])[0].keeps


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
    ],
)
def test_what_is_no_http_is_said_so(data: bytes) -> None:
    with pytest.raises(NotHttp):
        AnswerParser().feed(data)


# -- the pool

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
    pool = Pool("127.0.0.1", port, None, limit=limit, connect=5.0, keep=5.0)
    try:
        yield pool
    finally:
        pool.close()
        listening.close()


async def ask(pool: Pool) -> bytes:
    connection = await pool.take()
    try:
        await connection.ask(ASK)
        return connection.body()
    finally:
        pool.give(connection)


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
        pool.give(held)
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
        pool.give(connection)
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
    pool = Pool("127.0.0.1", 9, None, limit=1, connect=5.0, keep=5.0)
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
            pool.give(connection)
    assert server.connections == 1


async def test_a_stream_that_is_left_closes_its_connection() -> None:
    server = Server(lambda number: CHUNKED[:-20])
    async with pooled(server) as pool:
        connection = await pool.take()
        await connection.head(ASK)
        pool.give(connection)
        assert not connection.is_open


async def test_what_nobody_asked_for_closes_the_connection() -> None:
    connection = Connection()
    connection.data_received(b"hello")
    assert not connection.is_open
