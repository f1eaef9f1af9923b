"""One HTTP/1.1 connection: a request at a time, and its answer, which httptools reads.

Invariant: an answer is the same however its bytes are cut. A general client costs several times the
CPU of all else that happens to a call here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httptools

from appl.backend.check import ANSWER_BYTES
from appl.backend.http import ERROR_BYTES

HEAD_BYTES = 1 << 16
"""The most bytes that the head of an answer may have."""


class NotHttp(Exception):
    """The data is no HTTP/1.1 answer."""


class TooLong(NotHttp):
    """The body of the answer has more than *most* bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} bytes")
        self.most = most


class Broken(ConnectionError):
    """The connection ended before the answer did.

    ``unsent`` is true if the request was not written, ``begun`` if some of the answer has come.
    """

    def __init__(self, reason: str, *, begun: bool, unsent: bool = False) -> None:
        super().__init__(reason)
        self.begun, self.unsent = begun, unsent


class Answer:
    """One answer, read from the bytes that are fed in.

    ``status`` is 0 until the head has come, with ``headers``; ``ok`` says that the server does what
    it was asked for, ``coded`` that the body is perhaps compressed.
    ``complete`` says whether all of it has come, ``keeps`` whether the connection can be used
    again, ``begun`` whether anything has come.
    """

    def __init__(self) -> None:
        self.status = 0
        self.begun = self.complete = self.ok = False
        self.keeps = True
        self.coded = False
        self._raw: dict[bytes, bytes] = {}
        self._head: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._count = self._head_size = 0
        # The parser calls these two itself, once for each header and for each piece of the body.
        self.on_header, self.on_body = self._raw.__setitem__, self._pieces.append
        self._parser = httptools.HttpResponseParser(self)

    @property
    def headers(self) -> dict[str, str]:
        """The headers, with their names in lower case. Few answers need them."""
        return {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in self._head.items()
        }

    @property
    def content_type(self) -> str:
        """The header ``Content-Type`` in lower case, empty if there is none."""
        for name, value in self._head.items():
            if name.lower() == b"content-type":
                return value.decode("latin-1").lower()
        return ""

    def feed(self, data: bytes) -> bytes:
        """Read *data* and return what it adds to the body. Raises ``NotHttp``."""
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
            self._head_size += len(data)
            if self._head_size > HEAD_BYTES:
                raise NotHttp(f"a head of more than {HEAD_BYTES} bytes")
        if self.complete:
            del self._pieces[self._count :]  # what follows an answer is not in its body
            del self._parser  # it holds methods of this object: nothing would free them but a sweep
        body = b"".join(self._pieces)
        self._pieces.clear()
        return body

    def eof(self) -> bool:
        """Note that the connection has ended; true if the answer has ended, too."""
        if self.status and not self.headers.keys() & {"content-length", "transfer-encoding"}:
            self.complete = True
        return self.complete

    # -- called by the parser

    def on_message_begin(self) -> None:
        self.keeps = self.keeps and not self.complete

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self.complete:  # what follows an answer, or its chunks, is no head
            self.status, self.ok = status, status < 300
            self.keeps = self._parser.should_keep_alive()
            self._head = self._raw.copy()  # what comes behind chunks is no header
            self.coded = b"content-encoding" in b"\n".join(self._head).lower()

    def on_message_complete(self) -> None:
        if not self.status:  # a provisional answer: the real one follows
            self._raw.clear()
        elif not self.complete:
            self.complete, self._count = True, len(self._pieces)


_NO_ANSWER = Answer()
"""In place of an answer of which nothing has come; bytes that come are the first of a new one.

Thousands of requests may wait for theirs, each with a parser and its methods otherwise.
"""


class Connection(asyncio.Protocol):
    """One connection; ``used`` is true if it has carried a request.

    ``is_open`` says that another request can go out on it, as far as is known.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer = _NO_ANSWER
        self.idle_since = 0.0
        self.is_open = self.used = False
        self._body: list[bytes] = []
        self._failed: Exception | None = None
        self._busy = self._streams = False
        self._size = self._most = 0
        self._waiter: asyncio.Future[None] | None = None

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # No request is open: these bytes would be taken for the answer to the next one.
            self.close()
            return
        if self.answer is _NO_ANSWER:
            self.answer = Answer()
        try:
            piece = self.answer.feed(data)
        except NotHttp as error:
            self._fail(error)
            return
        if piece:
            self._body.append(piece)
            self._size += len(piece)
            if self._size > min(self._most, ERROR_BYTES) and not self._fits():
                return
        if self._streams or self.answer.complete:
            self._wake()

    def eof_received(self) -> None:
        self.is_open = False  # the loop closes it

    def connection_lost(self, error: Exception | None) -> None:
        self.transport, self.is_open = None, False
        if self._busy and not self.answer.eof():
            reason = str(error) if error is not None else "the server closed it"
            self._failed = self._failed or Broken(reason, begun=self.answer.begun)
        self._wake()

    # -- called by the pool and the client

    def ask(
        self, data: bytes, most: int = ANSWER_BYTES, *, streams: bool = False
    ) -> asyncio.Future[None]:
        """Send *data*; returns a future of the whole answer, whose body is :meth:`body`.

        The body has *most* bytes at most. The future of an answer that *streams* is that of the
        first piece of it. Raises ``Broken`` if the connection is closed.
        """
        self.answer, self._body, self._failed = _NO_ANSWER, [], None
        self._busy, self._streams, self._size, self._most = True, streams, 0, most
        transport = self.transport
        if transport is None or transport.is_closing():
            raise Broken("the server closed it", begun=False, unsent=True)
        transport.write(data)
        # Once, for a whole answer: what comes before its end wakes nobody.
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        return waiter

    async def head(self, data: bytes, most: int = ANSWER_BYTES) -> Answer:
        """Send *data*, and wait for the head of the answer, whose body is in :meth:`pieces`.

        The body has *most* bytes at most if it is a stream of events.
        """
        await self.ask(data, most, streams=True)
        while not self.answer.status:
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

    def finish(self) -> bool:
        """End the request; true if another one can go out on the connection."""
        self._busy = False
        return self.answer.complete and self.answer.keeps and self.is_open

    def close(self) -> None:
        """End it."""
        self.is_open = False
        if self.transport is not None:
            self.transport.abort()

    def _fits(self) -> bool:
        """End a body that is too long; true if what has come will do, as that of an error does."""
        if not self.answer.ok:
            if self._size > ERROR_BYTES:
                self.answer.complete, self.answer.keeps = True, False
            return True
        events = not self._streams or "event-stream" in self.answer.content_type
        limit = self._most if events else ANSWER_BYTES
        if self._size > limit:
            self._fail(TooLong(limit))
        return self._size <= limit

    def _news(self) -> asyncio.Future[None]:
        """A future of the next that comes. It raises ``Broken`` or ``NotHttp``."""
        # The callers look for data and then wait for this without an ``await`` between. The loop
        # calls ``data_received`` at an ``await`` only, so nothing is missed before it is made.
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        if self._failed is not None:
            waiter.set_exception(self._failed)
        return waiter

    def _fail(self, error: Exception) -> None:
        self._failed = error
        self.close()
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():  # nobody waits, or whoever did was cancelled
            return
        if self._failed is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(self._failed)
