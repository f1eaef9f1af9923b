"""An HTTP client of one server, and its connections, which outlive the runs that use them.

Invariant: what goes wrong becomes a ``BackendError`` here. A connection is used again only if the
answer before was read to its end, on the loop that it was made on, and in the process that made it.
No redirect is followed, no body is longer than it may be, and a request that a server may have
worked on is sent once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

from appl.backend.check import ANSWER_BYTES, read_json
from appl.backend.http import ERROR_BYTES, errors_of_http, excerpt, not_json, too_long, unreachable
from appl.base.threads import lasting_loops
from appl.errors import (
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    ConfigError,
    MalformedResponse,
)
from appl.prompt.secret_headers import conceal_headers
from appl_backends.http.connection import Answer, Broken, Connection, NotHttp, TooLong
from appl_backends.http.route import Route, bracketed, route_to

KEEP_S = 4.0
"""Seconds for which an idle connection is kept: servers close theirs after 5 s or more."""

_A_TURN = 16
"""The most connections that are begun in one turn of the loop."""

_DRAIN_S = 0.5
"""Seconds in which the end of a stream comes whose last event has come."""

_FAILURES = (OSError, NotHttp)
_PLAIN = ("", "identity")
_HEADERS = {
    "User-Agent": "appl",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}

_Ask = Callable[[Connection, bytes, int], Awaitable[object]]
Body = bytes | Sequence[bytes]
"""A body, in one or more pieces: a long one is put together once, with the head."""


class HttpClient:
    """Asks the server at *url*, over connections that all clients of the process share.

    *connect* is the longest time to make a connection, in seconds, *limit* the most connections at
    once, by default half of the files that may be open. *secrets* are taken out of errors. ``path``
    is that of the URL.
    """

    def __init__(
        self, url: str, *, connect: float, limit: int | None = None, secrets: Sequence[str] = ()
    ) -> None:
        parts = urlsplit(url.rstrip("/"))
        self.path, self.secrets = quoted(parts.path), tuple(secrets)
        self._secure = parts.scheme.lower() == "https"
        self._host = _ascii(parts.hostname or "")
        self._port = parts.port or (443 if self._secure else 80)
        self._named_port = "" if parts.port is None else f":{parts.port}"
        self._connect, self._limit = connect, limit or most_connections()
        self._route: Route | None = None
        self._pool: Pool | None = None

    @property
    def learned(self) -> dict[object, object]:
        """Facts about the server that its clients keep, until it closes a connection."""
        return pool_for(self._route_to_server(), self._limit, self._connect).learned

    def head(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        """The beginning of a request for *target*, up to the length of its body.

        The server may repeat *headers* in an answer: those that look secret are masked from now on.
        Raises ``ConfigError`` for a header that could not be sent.
        """
        conceal_headers("headers", headers)
        route = self._route_to_server()
        host = f"{bracketed(self._host)}{self._named_port}"
        given = {name.lower() for name in headers}
        fields = {name: value for name, value in _HEADERS.items() if name.lower() not in given}
        if route.proxy is not None and route.tls is None:
            target = f"http://{host}{target}"
            if route.proxy.authorization:
                fields["Proxy-Authorization"] = route.proxy.authorization
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
        lines += [_field(name, value) for name, value in {**fields, **headers}.items()]
        return "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")

    async def exchange(
        self,
        head: bytes,
        body: Body,
        who: str,
        read: Callable[[bytes], Any] = read_json,
        most: int = ANSWER_BYTES,
    ) -> Any:
        """The answer of at most *most* bytes as *read* reads it, ``None`` if it is empty.

        *who* is asked, in the form of :func:`~appl.backend.http.asked_of`. Raises ``BackendError``,
        also for what *read* refuses with a ``ValueError``.
        """
        pool, connection = await self._send(head, body, who, Connection.ask, most)
        answer, data = connection.answer, connection.body()
        pool.give(connection, connection.finish())
        if answer.coded or not answer.ok:
            self._check(answer, data, who)
        try:
            return read(data) if data else None
        except ValueError:
            kind = answer.content_type
            raise not_json(data, who, content_type=kind, secrets=self.secrets) from None

    @contextlib.asynccontextmanager
    async def stream(
        self, head: bytes, body: Body, who: str, most: int
    ) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """The content type of an answer, and its body as it comes. Raises ``BackendError``.

        A stream of events has *most* bytes at most, another answer ``ANSWER_BYTES``. If all of it
        but its end was taken, that is waited for, for a short time.
        """
        pool, connection = await self._send(head, body, who, Connection.head, most)
        try:
            if not connection.answer.ok:
                data = b"".join([piece async for piece in connection.pieces()])
                self._check(connection.answer, data, who)
            self._check(connection.answer, b"", who)
            yield connection.answer.content_type, connection.pieces()
            await _drain(connection)
        except BackendError:  # of whoever reads it; a timeout is an OSError, too
            raise
        except _FAILURES as error:
            self._fail(error, who)
        finally:
            pool.give(connection, connection.finish())

    async def aclose(self) -> None:
        """Leave the connections to others; close them if there are none."""
        pool, self._pool = self._pool, None
        if pool is not None and not pool.inherited:
            pool.leave()

    async def _send(
        self, head: bytes, body: Body, who: str, ask: _Ask, most: int
    ) -> tuple[Pool, Connection]:
        """The connection on which a request was sent, and answered as far as *ask* waits."""
        pieces = (body,) if isinstance(body, bytes) else body
        data = b"".join((head, b"%d\r\n\r\n" % sum(map(len, pieces)), *pieces))
        pool, again = self._pool, False
        if pool is None or pool.inherited or pool.loop is not asyncio.get_running_loop():
            pool = self._join_pool()
        while True:
            connection = pool.take_idle() or await self._take_connection(pool, who)
            was_used, connection.used = connection.used, True
            try:
                await ask(connection, data, most)
                return pool, connection
            except BaseException as error:
                pool.give(connection, connection.finish())
                if again or not was_used or not _is_harmless(error, head):
                    if isinstance(error, _FAILURES):
                        self._fail(error, who)
                    raise
            again = True  # the server closed its end of an idle connection at this very moment

    async def _take_connection(self, pool: Pool, who: str) -> Connection:
        try:
            return await pool.take()
        except TimeoutError:
            failed: BackendError = BackendTimeout(
                f"{who}: no connection within {self._connect} s", deadline="connect"
            )
        except ssl.SSLCertVerificationError as error:
            failed = BackendUnavailable(
                f"{who}: its certificate is not accepted ({error.verify_message}); SSL_CERT_FILE "
                "may name a file with the authorities to trust",
                worked=False,
            )
        except OSError as error:
            proxy = self._route_to_server().proxy
            asked = who if proxy is None else f"{who}, asked through {proxy},"
            failed = unreachable(error, asked, secrets=self.secrets)
        except NotHttp:
            failed = BackendUnavailable(f"{who}: its proxy does not answer as HTTP does")
        raise failed

    def _route_to_server(self) -> Route:
        if self._route is None:
            self._route = route_to(self._host, self._port, self._secure)
        return self._route

    def _join_pool(self) -> Pool:
        self._pool = pool = pool_for(self._route_to_server(), self._limit, self._connect)
        pool.users += 1
        return pool

    def _check(self, answer: Answer, data: bytes, who: str) -> None:
        """Raise ``BackendError`` for an answer that is an error, or compressed."""
        encoding = answer.headers.get("content-encoding", "").strip().lower()
        plain = encoding in _PLAIN
        if not answer.ok:
            text = data[:ERROR_BYTES] if plain else b""
            error = errors_of_http(answer.status, answer.headers, text, who, secrets=self.secrets)
            raise error from None
        if not plain:
            raise MalformedResponse(
                f"{who} sent an answer that is compressed ({encoding[:20]!r}), which was not asked "
                "for; a proxy may stand in between",
                status=200,
            )

    def _fail(self, error: Exception, who: str) -> NoReturn:
        if isinstance(error, TooLong):
            raise too_long(who, error.most) from None
        if isinstance(error, NotHttp):
            found = excerpt(str(error), self.secrets)
            raise MalformedResponse(f"{who} does not answer as HTTP does: {found}") from None
        raise unreachable(error, who, begun=True, secrets=self.secrets) from None


class Pool:
    """The connections of one loop by one route, at most *limit*.

    A connection must be made within *connect* seconds. Whoever comes first is served first.
    ``users`` is the number of clients, and ``inherited`` is true in a process that was forked.
    """

    def __init__(self, route: Route, limit: int, connect: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self.inherited = False
        self._route, self._limit, self._connect = route, limit, connect
        self._learned: dict[object, object] = {}
        self._open = 0  # with those that are being made
        self._making: set[asyncio.Task[Connection]] = set()
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._wanted = 0  # how many in ``_waiting`` are not cancelled
        self._is_planned = self._is_swept = False

    @property
    def learned(self) -> dict[object, object]:
        """Facts about the server that clients keep here, until it closes a connection.

        A server that was started anew has closed all of them, and may be another one.
        """
        if not self._open or not all(connection.is_open for connection in self._idle):
            self._learned.clear()
        return self._learned

    def take_idle(self) -> Connection | None:
        """A connection that is open, to be given back; ``None`` if all are taken."""
        # The last connection that was given back comes first, so that the others grow old and are
        # closed when there are more than needed.
        while self._idle:
            found = self._idle.pop()
            if time.monotonic() - found.idle_since < KEEP_S and found.is_open:
                return found
            self._drop(found)
        return None

    async def take(self) -> Connection:
        """A connection, to be given back. Raises what :meth:`Route.connect` raises."""
        found = self.take_idle()
        if found is not None:
            return found
        waiter: asyncio.Future[Connection] = self.loop.create_future()
        self._waiting.append(waiter)
        self._wanted += 1
        self._make_connections()
        try:
            return await waiter
        except asyncio.CancelledError:
            # A connection may have been handed over before the cancellation arrived; it would be
            # lost with this task.
            if waiter.cancelled():
                self._wanted -= 1
            elif waiter.exception() is None:
                self.give(waiter.result(), waiter.result().is_open)
            raise

    def give(self, connection: Connection, is_fit: bool) -> None:
        """Take *connection* back: the next who waits gets it, or may make one.

        It is kept for another request if it *is_fit* for one.
        """
        waiter = self._next() if is_fit and self._waiting else None
        if waiter is not None:
            waiter.set_result(connection)
        elif is_fit and (self.users or self._is_kept):
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
            if not self._is_swept:
                self._sweep_later()
        else:
            self._drop(connection)
            self._make_connections()

    def leave(self) -> None:
        """Note that there is one user less; without any, a loop that will end keeps nothing."""
        self.users -= 1
        if not (self._is_kept or self.loop.is_closed()):  # a loop that has ended closes nothing
            self._sweep()

    @property
    def is_unused(self) -> bool:
        """True if nobody needs it any more."""
        return self.loop.is_closed() or not (self.users or self._open)

    @property
    def _is_kept(self) -> bool:
        """True if idle connections stay open."""
        return self.users > 0 or self.loop in lasting_loops

    def _next(self) -> asyncio.Future[Connection] | None:
        """Whoever has waited longest. Those that are done were cancelled."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._wanted -= 1
                return waiter
        return None

    def _drop(self, connection: Connection) -> None:
        self._open -= 1
        if not self._open or not connection.is_open:  # nothing would tell of a new server, or did
            self._learned.clear()
        connection.close()

    # -- making connections

    def _make_connections(self) -> None:
        """Begin a few connections for those who wait, and more in the next turns of the loop.

        An answer that comes meanwhile frees a connection for one of them, who then needs no other.
        """
        self._is_planned = False
        for _ in range(_A_TURN):
            if not self._lacks_connections:
                return
            self._open += 1
            # The context of a call would live as long as the connection, so it gets an empty one.
            task = self.loop.create_task(self._made(), context=Context())
            self._making.add(task)
            task.add_done_callback(self._take_over, context=Context())
        if self._lacks_connections and not self._is_planned:
            self._is_planned = True
            self.loop.call_soon(self._make_connections, context=Context())

    @property
    def _lacks_connections(self) -> bool:
        return len(self._making) < self._wanted and self._open < self._limit

    async def _made(self) -> Connection:
        async with asyncio.timeout(self._connect):
            return await self._route.connect()

    def _take_over(self, task: asyncio.Task[Connection]) -> None:
        """Hand a new connection over, or the reason why there is none."""
        self._making.discard(task)
        error = ConnectionAbortedError("the loop ends") if task.cancelled() else task.exception()
        if error is None and task.result().is_open:
            self.give(task.result(), True)
            return
        # A server that hangs up at once is an error for who waits: to connect anew for as long as
        # it does so would be a storm.
        error = error or ConnectionResetError("the server hung up at once")
        self._open -= 1
        waiter = self._next()
        if waiter is not None:
            waiter.set_exception(error)
        self._make_connections()

    # -- closing

    def _sweep_later(self) -> None:
        self._is_swept = True
        self.loop.call_later(KEEP_S, self._sweep_again, context=Context())

    def _sweep_again(self) -> None:
        self._is_swept = False
        self._sweep()

    def _sweep(self) -> None:
        """Close the connections that are idle for long, or all that are idle if none is kept."""
        since = time.monotonic() - KEEP_S if self._is_kept else float("inf")
        while self._idle and self._idle[0].idle_since <= since:
            self._drop(self._idle.popleft())
        if self._idle:
            self._sweep_later()


_pools: dict[tuple[asyncio.AbstractEventLoop, Route, int, float], Pool] = {}
_of_parent: list[Pool] = []
"""Pools of the process that this one was forked from, whose connections must stay as they are."""


def pool_for(route: Route, limit: int, connect: float) -> Pool:
    """The pool of the running loop for *route*."""
    for key, pool in list(_pools.items()):
        if pool.is_unused:
            _pools.pop(key, None)
    key = (asyncio.get_running_loop(), route, limit, connect)
    found = _pools.get(key)
    if found is None:
        found = _pools[key] = Pool(route, limit, connect)
    return found


def most_connections() -> int:
    """Half of the number of files that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if soft == resource.RLIM_INFINITY else soft // 2


def _forget() -> None:
    """In a forked child, leave the connections of the parent alone."""
    for pool in _pools.values():
        pool.inherited = True
    _of_parent.extend(_pools.values())
    _pools.clear()


os.register_at_fork(after_in_child=_forget)


def _is_harmless(error: BaseException, head: bytes) -> bool:
    """True if the request that failed may be sent again: the server did not work on it."""
    if not isinstance(error, Broken) or error.begun:
        return False
    return error.unsent or head.startswith(b"GET ")


async def _drain(connection: Connection) -> None:
    """Read the end of a body, so that the connection can be used again."""
    with contextlib.suppress(TimeoutError, *_FAILURES):  # the answer is there, whatever comes
        async with asyncio.timeout(_DRAIN_S):
            async for _ in connection.pieces():
                pass


def quoted(path: str) -> str:
    """*path* in characters that a request line may have."""
    return quote(path, safe="/%:@!$&'()*+,;=~")


def _field(name: str, value: str) -> str:
    line = f"{name}: {value}"
    if not name.strip() or not line.isprintable() or not line.isascii():
        raise ConfigError(f"the header {name!r:.40} holds characters that no header or key has")
    return line


def _ascii(host: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise ConfigError(f"{host!r:.80} is no name of a server") from None
