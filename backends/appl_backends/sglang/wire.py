"""HTTP to one server over one pool of connections that stay open; what goes wrong is typed here.

Invariant: whatever fails leaves this module as a ``BackendError``, and a connection whose answer
was not read to its end is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from typing import Any
from urllib.parse import urlsplit

from appl.backend_http import (
    ANSWER_BYTES,
    ERROR_BYTES,
    Lines,
    address,
    asked_of,
    check_url,
    error_of_payload,
    errors_of_http,
    excerpt,
    not_json,
    read_json,
    too_long,
    unreachable,
)
from appl.errors import BackendError, BackendTimeout, ConfigError, MalformedResponse
from appl_backends.sglang.http import Connection, NotHttp, Pool, TooLong

_DRAIN_S = 0.5
"""Seconds in which the end of a stream comes whose last event has come."""

PROBE_S = 30.0
"""Seconds in which a server must say what it is: these questions need no model."""

STOP_S = 5.0
"""Seconds in which a server must take the word that a request is to be stopped."""

KEEP_S = 4.0
"""Seconds for which an idle connection is kept: a little less than the server keeps its end."""

ADMIN = frozenset({"/abort_request", "/flush_cache"})
"""What takes the administrator's key, where the server has one."""

_FAILS = (OSError, NotHttp)


class Wire:
    """The connections to the server at *url*.

    *key* is sent as a bearer token, *admin* with what only an administrator may do. *connections*
    bounds how many are open at once; *connect* is the time to make one, in seconds. ``who`` is who
    is asked, for errors.
    """

    def __init__(
        self, url: str, key: str | None, admin: str | None, connections: int, connect: float
    ) -> None:
        host, port, secure, self._path = _parts(url)
        self.url = url.rstrip("/")
        self.who = asked_of("sglang", "", self.url)
        self._connect = connect
        self._secrets = tuple(each for each in (key, admin) if each)
        self._around = _around(url, key), _around(url, admin or key)
        self._heads: dict[tuple[str, str], bytes] = {}
        self._pool = Pool(
            host,
            port,
            ssl.create_default_context() if secure else None,
            limit=connections,
            connect=connect,
            keep=KEEP_S,
        )

    def names(self, model: str) -> None:
        """Say *model* in errors from now on."""
        self.who = asked_of("sglang", model, self.url)

    def get(self, path: str) -> Awaitable[Any]:
        """The JSON at *path*, within ``PROBE_S``. Raises ``BackendError``."""
        return self.within(PROBE_S, self.exchange("GET", path, b""), path)

    async def within(self, seconds: float, answer: Awaitable[Any], path: str) -> Any:
        """The *answer* of *path*, if it comes in so many *seconds*. Raises ``BackendTimeout``."""
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as error:
            if isinstance(error, BackendError):
                raise
        raise BackendTimeout(
            f"{self.who} did not answer {path} within {seconds} s", deadline="connect"
        )

    def post(self, path: str, body: bytes) -> Awaitable[Any]:
        """The JSON that the server answers to *body*. Raises ``BackendError``."""
        return self.exchange("POST", path, body)

    async def exchange(self, method: str, path: str, body: bytes) -> Any:
        """The JSON that the server answers to *body*, ``None`` for nothing.

        Raises ``BackendError``.
        """
        connection = await self._taken()
        try:
            answer = await connection.ask(self._request(method, path, body), ANSWER_BYTES)
            data = connection.body()
        except TooLong:
            answer, data = connection.answer, connection.body()[:ERROR_BYTES]
            if answer.status == 200:
                raise too_long(self.who) from None
        except _FAILS as error:
            raise self._failed(error) from error
        finally:
            self._pool.give(connection)
        if answer.status != 200:
            raise self._refused(answer.status, answer.headers, data)
        try:
            return read_json(data) if data else None
        except ValueError:
            kind = answer.headers.get("content-type", "")
            raise not_json(data, self.who, content_type=kind, secrets=self._secrets) from None

    async def stream(self, path: str, body: bytes) -> AsyncGenerator[Any, None]:
        """The JSON events that the server streams, up to ``[DONE]``. Raises ``BackendError``."""
        connection = await self._taken()
        try:
            answer = await connection.head(self._request("POST", path, body))
            if answer.status != 200:
                data = await _beginning(connection)
                raise self._refused(answer.status, answer.headers, data)
            kind = answer.headers.get("content-type", "")
            async for event in self._events(connection, kind):
                yield event
        except BackendError:
            raise
        except _FAILS as error:
            raise self._failed(error) from error
        finally:
            self._pool.give(connection)

    async def aclose(self) -> None:
        """Close all connections."""
        self._pool.close()

    async def _events(self, connection: Connection, kind: str) -> AsyncIterator[Any]:
        async for line in _lines(connection, self.who):
            if line[:1] == b"<":
                raise not_json(line, self.who, content_type=kind, secrets=self._secrets)
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data != b"[DONE]":
                yield self._event(data)
                continue
            await _drained(connection)
            return
        raise MalformedResponse(f"{self.who} ended its stream before the answer was complete")

    def _event(self, data: bytes) -> Any:
        try:
            found = read_json(data)
        except ValueError:
            raise not_json(data, self.who, secrets=self._secrets) from None
        if isinstance(found, Mapping) and "error" in found:
            raise error_of_payload(found, self.who, secrets=self._secrets)
        return found

    async def _taken(self) -> Connection:
        try:
            return await self._pool.take()
        except TimeoutError:
            raise BackendTimeout(
                f"{self.who}: no connection within {self._connect} s", deadline="connect"
            ) from None
        except OSError as error:
            raise unreachable(error, self.who, secrets=self._secrets) from error

    def _request(self, method: str, path: str, body: bytes) -> bytes:
        head = self._heads.get((method, path))
        if head is None:
            around = self._around[path in ADMIN]
            first = f"{method} {self._path}{path} HTTP/1.1\r\n"
            head = self._heads[method, path] = (first + around).encode("latin-1")
        return b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def _refused(self, status: int, headers: Mapping[str, str], data: bytes) -> BackendError:
        return errors_of_http(status, headers, data, self.who, secrets=self._secrets)

    def _failed(self, error: BaseException) -> BackendError:
        if isinstance(error, TooLong):
            return too_long(self.who)
        if isinstance(error, NotHttp):
            said = excerpt(str(error), self._secrets)
            return MalformedResponse(f"{self.who} does not answer as HTTP does: {said}")
        return unreachable(error, self.who, begun=True, secrets=self._secrets)


def _parts(url: str) -> tuple[str, int, bool, str]:
    """Host, port, whether it is secure, and the path before all others."""
    check_url(url, "the url of an SGLang server")
    parts = urlsplit(url.rstrip("/"))
    if not parts.hostname or parts.query:
        raise ConfigError(f"the url of an SGLang server is http://host:port, got {address(url)!r}")
    secure = parts.scheme == "https"
    return parts.hostname, parts.port or (443 if secure else 80), secure, parts.path


def _around(url: str, key: str | None) -> str:
    """The head of a request after its first line, up to the length of the body."""
    host = urlsplit(url).netloc
    if key is not None and not key.isprintable():
        raise ConfigError("the key of an SGLang server holds characters that no key has")
    allowed = f"Authorization: Bearer {key}\r\n" if key else ""
    return (
        f"Host: {host}\r\nUser-Agent: appl\r\n{allowed}Content-Type: application/json\r\n"
        "Content-Length: "
    )


async def _beginning(connection: Connection) -> bytes:
    """The first bytes of the body of an error."""
    data = b""
    async for piece in connection.pieces():
        data += piece
        if len(data) >= ERROR_BYTES:
            break
    return data[:ERROR_BYTES]


async def _drained(connection: Connection) -> None:
    """Read the end of a body, for a short time, so that the connection can be used again."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in connection.pieces():
                pass


async def _lines(connection: Connection, who: str) -> AsyncIterator[bytes]:
    """The lines of a body that are not empty."""
    lines = Lines(who)
    async for piece in connection.pieces():
        for line in lines.feed(piece):
            if line.strip():
                yield line
    if rest := lines.rest().strip():
        yield rest
