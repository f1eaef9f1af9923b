"""HTTP to one server over one pool of connections that stay open; what goes wrong is typed here.

Invariant: everything that aiohttp raises leaves this module as a ``BackendError``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from appl.backend_http import asked_of, error_of_payload, errors_of_http, not_json, unreachable
from appl.errors import BackendError, BackendTimeout, ConfigError, MalformedResponse

KEEP_S = 4.0
"""Seconds for which an idle connection is kept: a little less than the server keeps its end."""

ADMIN = frozenset({"/abort_request", "/flush_cache"})
"""What takes the administrator's key, where the server has one."""


class Wire:
    """The connections to the server at *url*.

    *key* is sent as a bearer token, *admin* with what only an administrator may do. *connections*
    bounds how many are open at once; *connect* is the time to make one, in seconds. ``who`` is who
    is asked, for errors.
    """

    def __init__(
        self, url: str, key: str | None, admin: str | None, connections: int, connect: float
    ) -> None:
        self.url = url.rstrip("/")
        if URL(self.url).scheme not in ("http", "https") or not URL(self.url).host:
            raise ConfigError(f"the url of an SGLang server is http://host:port, got {url!r}")
        self._connections, self._connect = connections, connect
        self._secrets = tuple(each for each in (key, admin) if each)
        self._urls: dict[str, URL] = {}
        self._headers = _headers(key)
        self._admin = _headers(admin or key)
        self._session: aiohttp.ClientSession | None = None
        self.who = asked_of("sglang", "", self.url)

    def names(self, model: str) -> None:
        """Say *model* in errors from now on."""
        self.who = asked_of("sglang", model, self.url)

    async def get(self, path: str) -> Any:
        """The JSON at *path*. Raises ``BackendError``."""
        return await self.exchange("GET", path, None)

    async def exchange(self, method: str, path: str, body: bytes | None) -> Any:
        """The JSON that the server answers to *body*, ``None`` for nothing.

        Raises ``BackendError``.
        """
        answer = None
        try:
            answer = await self._asking(method, path, body)
            data = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._failed(error, answer is not None) from error
        if answer.status != 200:
            raise self._refused(answer.status, answer.headers, data)
        try:
            return _decode(data) if data else None
        except ValueError:
            kind = answer.headers.get("Content-Type", "")
            raise not_json(data, self.who, content_type=kind, secrets=self._secrets) from None

    def post(self, path: str, body: bytes) -> Awaitable[Any]:
        """The JSON that the server answers to *body*. Raises ``BackendError``."""
        return self.exchange("POST", path, body)

    async def stream(self, path: str, body: bytes) -> AsyncIterator[Any]:
        """The JSON events that the server streams, up to ``[DONE]``. Raises ``BackendError``."""
        begun = False
        try:
            async with self._asking("POST", path, body) as answer:
                if answer.status != 200:
                    raise self._refused(answer.status, answer.headers, await answer.read())
                begun = True
                async for line in _lines(answer):
                    if not line.startswith(b"data:"):
                        if line[:1] == b"<":
                            raise not_json(line, self.who, content_type=answer.content_type)
                        continue
                    data = line[5:].strip()
                    if data == b"[DONE]":
                        return
                    yield self._event(data)
            raise MalformedResponse(f"{self.who} ended its stream before the answer was complete")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._failed(error, begun) from error

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _event(self, data: bytes) -> Any:
        try:
            found = _decode(data)
        except ValueError:
            raise not_json(data, self.who, secrets=self._secrets) from None
        if isinstance(found, Mapping) and "error" in found:
            raise error_of_payload(found, self.who, secrets=self._secrets)
        return found

    def _asking(self, method: str, path: str, body: bytes | None) -> Any:
        session = self._session
        if session is None:
            session = self._session = self._opened()
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = URL(self.url + path)
        headers = self._admin if path in ADMIN else self._headers
        return session.request(method, url, data=body, headers=headers, allow_redirects=False)

    def _opened(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections, keepalive_timeout=KEEP_S, ttl_dns_cache=60
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**20,
        )

    def _refused(self, status: int, headers: Mapping[str, str], data: bytes) -> BackendError:
        return errors_of_http(status, headers, data, self.who, secrets=self._secrets)

    def _failed(self, error: BaseException, begun: bool) -> BackendError:
        if isinstance(error, asyncio.TimeoutError):
            return BackendTimeout(
                f"{self.who}: no connection within {self._connect} s", deadline="connect"
            )
        lost = not isinstance(error, aiohttp.ClientConnectorError)
        return unreachable(error, self.who, begun=begun or lost, secrets=self._secrets)


def _headers(key: str | None) -> CIMultiDict[str]:
    found = CIMultiDict({"Content-Type": "application/json"})
    if key:
        found["Authorization"] = f"Bearer {key}"
    return found


def _decode(data: bytes) -> Any:
    """The value of UTF-8 JSON text; ``json.loads`` would look for other encodings first."""
    return json.loads(data.decode("utf-8"))


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The lines of a body, however long they are."""
    rest = b""
    async for piece in answer.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest
