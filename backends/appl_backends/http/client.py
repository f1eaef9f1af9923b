"""An HTTP client of one server: what goes wrong becomes a ``BackendError`` here.

Invariant: a connection whose answer was not read to its end is closed, no redirect is followed, no
body is longer than it may be, and a request that a server may have worked on is sent once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NoReturn
from urllib.parse import quote, urlsplit

from appl.backend_http import (
    ANSWER_BYTES,
    ERROR_BYTES,
    errors_of_http,
    excerpt,
    too_long,
    unreachable,
)
from appl.errors import (
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    ConfigError,
    MalformedResponse,
)
from appl_backends.http.connection import Answer, Broken, Connection, NotHttp, TooLong
from appl_backends.http.pool import Pool, most_connections, pool_for
from appl_backends.http.route import Route, bracketed, route_to

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

        Raises ``ConfigError`` for a header that could not be sent.
        """
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

    async def exchange(self, head: bytes, body: Body, who: str) -> tuple[Answer, bytes]:
        """The answer to a request, and its body. Raises ``BackendError``.

        *who* is asked, in the form of :func:`~appl.backend_http.asked_of`.
        """
        pool, connection = await self._send(head, body, who, Connection.ask, ANSWER_BYTES)
        answer, data = connection.answer, connection.body()
        pool.give(connection)
        if answer.coded or not answer.ok:
            self._check(answer, data, who)
        return answer, data

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
            pool.give(connection)

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
        pool, again = self._pool_here(), False
        while True:
            connection = pool.take_idle() or await self._take_connection(pool, who)
            try:
                await ask(connection, data, most)
                return pool, connection
            except BaseException as error:
                was_used = connection.used
                pool.give(connection)
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

    def _pool_here(self) -> Pool:
        pool = self._pool
        if pool is None or pool.inherited or pool.loop is not asyncio.get_running_loop():
            pool = self._pool = pool_for(self._route_to_server(), self._limit, self._connect)
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
