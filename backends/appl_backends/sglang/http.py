"""HTTP/1.1, as much as a client of one server needs: an answer read from bytes, and a pool.

Invariant: the reader does no input or output, and gives the same for the same bytes however they
are cut; a connection is used again only when the answer before was read to its end. A general
library costs several times the CPU of all else that happens to a call here.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Literal

HEAD_BYTES = 1 << 16
"""The most bytes that the head of an answer may have."""

_Mode = Literal["head", "length", "size", "chunk", "gap", "trailer", "close", "end"]


class NotHttp(Exception):
    """What came is no HTTP/1.1 answer."""


class Broken(ConnectionError):
    """The connection ended before the answer did; ``begun`` when some of it was there."""

    def __init__(self, reason: str, *, begun: bool) -> None:
        super().__init__(reason)
        self.begun = begun


class Answer:
    """One answer, read from the bytes that are fed in.

    ``headers`` have lower-case names; ``keeps`` says whether the connection can be used again.
    """

    __slots__ = ("_left", "_mode", "_rest", "headers", "keeps", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.keeps = True
        self._rest, self._left = b"", 0
        self._mode: _Mode = "head"

    @property
    def begun(self) -> bool:
        """Whether anything of it has come."""
        return self._mode != "head" or bool(self._rest)

    @property
    def complete(self) -> bool:
        """Whether all of it has come."""
        return self._mode == "end"

    def feed(self, data: bytes) -> bytes:
        """What *data* adds to the body. Raises ``NotHttp``."""
        if self._mode == "length":
            return self._sized(data)
        if self._mode == "close":
            return data
        if self._mode == "end":
            self.keeps = self.keeps and not data  # nobody asked for more
            return b""
        self._rest += data
        if self._mode == "head" and not self._read_head():
            return b""
        if self._mode in ("length", "close"):
            data, self._rest = self._rest, b""
            return self.feed(data) if data or self._mode == "length" else b""
        return self._chunks()

    def eof(self) -> bool:
        """The connection has ended: whether the answer has, too."""
        if self._mode == "close":
            self._mode = "end"
        return self.complete

    def _read_head(self) -> bool:
        """Read the head, if it is there; those of provisional answers are skipped."""
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head, self._rest = self._rest[:end], self._rest[end + 4 :]
            self._parse(head)
            if self.status >= 200:
                self._frame()
                return True
        if len(self._rest) > HEAD_BYTES or not b"HTTP/1.".startswith(self._rest[:7]):
            raise NotHttp(repr(self._rest[:80]))
        return False

    def _parse(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit():
            raise NotHttp(repr(first[:80]))
        self.status = int(rest[:3])
        self.headers = headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise NotHttp(repr(line[:80]))
            headers[name.lower()] = value.strip()
        wanted = headers.get("connection", "").lower()
        self.keeps = wanted == "keep-alive" if version == "HTTP/1.0" else wanted != "close"

    def _frame(self) -> None:
        """How the end of the body is known."""
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self._mode, self.keeps = "end", self.keeps and not self._rest
        elif self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._mode = "size"
        elif length is None:
            self._mode, self.keeps = "close", False
        elif length.isdigit():
            self._mode, self._left = "length", int(length)
        else:
            raise NotHttp(f"content-length: {length[:80]}")

    def _sized(self, data: bytes) -> bytes:
        if len(data) > self._left:
            data, self.keeps = data[: self._left], False
        self._left -= len(data)
        if not self._left:
            self._mode = "end"
        return data

    def _chunks(self) -> bytes:
        found: list[bytes] = []
        while self._mode != "end" and (piece := self._step()) is not None:
            found.append(piece)
        return b"".join(found)

    def _step(self) -> bytes | None:
        """Go one part further in a chunked body; ``None`` when more bytes are needed."""
        if self._mode == "chunk":
            data, self._rest = self._rest[: self._left], self._rest[self._left :]
            self._left -= len(data)
            if not self._left:
                self._mode = "gap"
            return data or None
        end = self._rest.find(b"\r\n")
        if end < 0:
            if len(self._rest) > HEAD_BYTES:
                raise NotHttp(repr(self._rest[:80]))
            return None
        line, self._rest = self._rest[:end], self._rest[end + 2 :]
        self._after_line(line)
        return b""

    def _after_line(self, line: bytes) -> None:
        if self._mode == "gap":
            if line:
                raise NotHttp(repr(line[:80]))
            self._mode = "size"
        elif self._mode == "size":
            try:
                self._left = int(line.partition(b";")[0], 16)
            except ValueError:
                raise NotHttp(repr(line[:80])) from None
            self._mode = "chunk" if self._left else "trailer"
        elif not line:
            self._mode, self.keeps = "end", self.keeps and not self._rest


class Connection(asyncio.Protocol):
    """One connection: a request at a time, and its answer."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer = Answer()
        self.idle_since = 0.0
        self._body: list[bytes] = []
        self._failed: Exception | None = None
        self._busy = self._streams = False
        self._waiter: asyncio.Future[None] | None = None

    # -- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self.close()  # nobody asked
            return
        try:
            piece = self.answer.feed(data)
        except NotHttp as error:
            self._fail(error)
            return
        if piece:
            self._body.append(piece)
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
        """Whether another request can go out on it."""
        return self.transport is not None and not self.transport.is_closing()

    async def ask(self, data: bytes) -> Answer:
        """Send *data*, and wait for the whole answer, whose body is :meth:`body`."""
        self._begin(data, streams=False)
        while not self.answer.complete:
            await self._news()
        return self.answer

    async def head(self, data: bytes) -> Answer:
        """Send *data*, and wait for the head of the answer, whose body is in :meth:`pieces`."""
        self._begin(data, streams=True)
        while self.answer.status < 200:
            await self._news()
        return self.answer

    def body(self) -> bytes:
        """What has come of the body and was not taken before."""
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
        self.answer, self._body, self._failed = Answer(), [], None
        self._busy, self._streams = True, streams
        if self.transport is None:
            raise Broken("the server closed it", begun=False)
        self.transport.write(data)

    async def _news(self) -> None:
        """Wait until something has come. Raises ``Broken`` or ``NotHttp``."""
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
        self, host: str, port: int, secure: ssl.SSLContext | None, *,
        limit: int, connect: float, keep: float,
    ) -> None:  # fmt: skip
        self._host, self._port, self._secure = host, port, secure
        self._limit, self._connect, self._keep = limit, connect, keep
        self._open = 0
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()

    async def take(self) -> Connection:
        """A connection, to be given back. Raises ``OSError``, and ``TimeoutError``."""
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
            if waiter.done() and not waiter.cancelled():  # it was just handed over
                self._pass_on(waiter.result())
            raise

    async def _made(self) -> Connection:
        try:
            async with asyncio.timeout(self._connect):
                _, made = await asyncio.get_running_loop().create_connection(
                    Connection, self._host, self._port, ssl=self._secure,
                    happy_eyeballs_delay=0.25,
                )  # fmt: skip
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
