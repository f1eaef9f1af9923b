"""HTTP/1.1, as much as a client of one server needs: an answer read by httptools, and a pool.

Invariant: an answer is the same however its bytes are cut, and a connection is used again only
when the answer before was read to its end. A general client costs several times the CPU of all
else that happens to a call here.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator

import httptools

HEAD_BYTES = 1 << 16
"""The most bytes that the head of an answer may have."""


class NotHttp(Exception):
    """The data is no HTTP/1.1 answer."""


class TooLong(NotHttp):
    """The body of the answer is longer than it may be."""


class Broken(ConnectionError):
    """The connection ended before the answer did; ``begun`` when some of it was there."""

    def __init__(self, reason: str, *, begun: bool) -> None:
        super().__init__(reason)
        self.begun = begun


class AnswerParser:
    """One answer, read from the bytes that are fed in.

    ``status`` is 0 until the head has come; ``headers`` have lower-case names; ``complete`` says
    whether all of it has come, ``keeps`` whether the connection can be used again, ``begun``
    whether anything has come.
    """

    __slots__ = ("_body", "_parser", "_size", "begun", "complete", "headers", "keeps", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.begun = self.complete = False
        self.keeps = True
        self._body: list[bytes] = []
        self._size = 0
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> bytes:
        """Reads *data* and returns what it adds to the body. Raises ``NotHttp``."""
        self.begun = self.begun or bool(data)
        if self.complete:
            self.keeps = self.keeps and not data  # nobody asked for more
            return b""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                raise NotHttp(f"{error}: {data[:80]!r}") from None
            self.keeps = False
        if not self.status:
            self._size += len(data)
            if self._size > HEAD_BYTES:
                raise NotHttp(f"a head of more than {HEAD_BYTES} bytes")
        body, self._body = self._body, []
        return body[0] if len(body) == 1 else b"".join(body)

    def eof(self) -> bool:
        """The connection has ended: whether the answer has, too."""
        if self.status and not self.headers.keys() & {"content-length", "transfer-encoding"}:
            self.complete = True
        return self.complete

    # -- what the parser calls

    def on_message_begin(self) -> None:
        self.keeps = self.keeps and not self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.complete:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self.complete:
            self.status, self.keeps = status, self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        if not self.complete:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self.status:
            self.complete = True
        else:  # a provisional answer: the real one follows
            self.headers.clear()


class Connection(asyncio.Protocol):
    """One connection: a request at a time, and its answer."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer = AnswerParser()
        self.idle_since = 0.0
        self._body: list[bytes] = []
        self._failed: Exception | None = None
        self._busy = self._streams = False
        self._size = self._most = 0
        self._waiter: asyncio.Future[None] | None = None

    # -- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # No request is open: these bytes would be taken for the answer to the next one.
            self.close()
            return
        try:
            piece = self.answer.feed(data)
        except NotHttp as error:
            self._fail(error)
            return
        if piece:
            self._body.append(piece)
            self._size += len(piece)
            if self._most and self._size > self._most:
                self._fail(TooLong(f"more than {self._most} bytes"))
                return
        if self._streams or self.answer.complete:
            self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self._busy and not self.answer.eof():
            reason = str(error) if error is not None else "the server closed it"
            self._failed = self._failed or Broken(reason, begun=self.answer.begun)
        self._wake()

    # -- what the pool calls

    @property
    def is_open(self) -> bool:
        """True if another request can go out on it."""
        return self.transport is not None and not self.transport.is_closing()

    async def ask(self, data: bytes, most: int = 0) -> AnswerParser:
        """Send *data*, and wait for the whole answer, whose body is :meth:`body`.

        Its body has *most* bytes at most, where that is not 0.
        """
        self._begin(data, streams=False)
        self._most = most
        while not self.answer.complete:
            await self._news()
        return self.answer

    async def head(self, data: bytes) -> AnswerParser:
        """Send *data*, and wait for the head of the answer, whose body is in :meth:`pieces`."""
        self._begin(data, streams=True)
        while self.answer.status < 200:
            await self._news()
        return self.answer

    def body(self) -> bytes:
        """The part of the body that has come and was not taken before."""
        taken, self._body = self._body, []
        return taken[0] if len(taken) == 1 else b"".join(taken)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, piece by piece, as it comes."""
        while True:
            if self._body:
                yield self.body()
            elif self.answer.complete:
                return
            else:
                await self._news()

    def over(self) -> bool:
        """The request is done with: whether the connection can be used again."""
        done = self.answer.complete and self.answer.keeps and self.is_open
        self._busy = False
        if not done:
            self.close()
        return done

    def close(self) -> None:
        """End it."""
        if self.transport is not None:
            self.transport.abort()

    def _begin(self, data: bytes, *, streams: bool) -> None:
        self.answer, self._body, self._failed = AnswerParser(), [], None
        self._busy, self._streams, self._size, self._most = True, streams, 0, 0
        if self.transport is None:
            raise Broken("the server closed it", begun=False)
        self.transport.write(data)

    async def _news(self) -> None:
        """Wait until something has come. Raises ``Broken`` or ``NotHttp``."""
        # The callers look for data and then call this without an ``await`` between. The loop calls
        # ``data_received`` at an ``await`` only, so nothing is missed before the waiter is set.
        if self._failed is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failed is not None:
            raise self._failed

    def _fail(self, error: Exception) -> None:
        self._failed = error
        self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Pool:
    """The connections to one server, at most *limit*; an idle one is used for *keep* seconds.

    A connection must be made within *connect* seconds. Whoever comes first is served first.
    """

    def __init__(
        self,
        host: str,
        port: int,
        secure: ssl.SSLContext | None,
        *,
        limit: int,
        connect: float,
        keep: float,
    ) -> None:
        self._host, self._port, self._secure = host, port, secure
        self._limit, self._connect, self._keep = limit, connect, keep
        self._open = 0
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()

    async def take(self) -> Connection:
        """A connection, to be given back. Raises ``OSError``, and ``TimeoutError``."""
        # The last connection that was given back comes first, so that the others grow old and are
        # closed when there are more than needed. A closed one gives back its place.
        while self._idle:
            found = self._idle.pop()
            if found.is_open and time.monotonic() - found.idle_since < self._keep:
                return found
            found.close()
            self._open -= 1
        if self._open >= self._limit:
            handed = await self._turn()
            if handed is not None:
                return handed
        else:
            self._open += 1
        return await self._made()

    def give(self, connection: Connection) -> None:
        """*connection* is free: the next who waits gets it, or its place."""
        usable = connection.over()
        # A waiter gets the connection, or ``None``: the place, to make one of its own. ``_open``
        # does not change then. A waiter that is done was cancelled, and is passed over.
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection if usable else None)
                return
        if usable and self._keep:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.close()
            self._open -= 1

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it is given back."""
        self._keep = 0.0
        idle, self._idle = self._idle, []
        for each in idle:
            each.close()
            self._open -= 1

    async def _turn(self) -> Connection | None:
        """Wait for a connection, or for a place to make one."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            # A connection or a place may have been handed over before the cancellation arrived;
            # it would be lost with this task.
            if waiter.done() and not waiter.cancelled():
                self._pass_on(waiter.result())
            raise

    async def _made(self) -> Connection:
        try:
            async with asyncio.timeout(self._connect):
                _, made = await asyncio.get_running_loop().create_connection(
                    Connection,
                    self._host,
                    self._port,
                    ssl=self._secure,
                    happy_eyeballs_delay=0.25,
                )
        except BaseException:
            self._pass_on(None)
            raise
        return made

    def _pass_on(self, connection: Connection | None) -> None:
        """Somebody does without *connection*, or without the place for one."""
        if connection is not None:
            self.give(connection)
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._open -= 1
