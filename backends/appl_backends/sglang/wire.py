"""The JSON that is exchanged with one SGLang server.

Invariant: whatever fails leaves this module as a ``BackendError``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from appl.backend.check import read_json
from appl.backend.http import (
    address,
    check_url,
    describe_server,
    error_of_payload,
    host_of,
    is_error,
    not_json,
)
from appl.errors import BackendError, BackendTimeout, ConfigError, MalformedResponse
from appl_backends.http.client import Body, HttpClient
from appl_backends.http.events import EventParser, opened, whole

PROBE_S = 30.0
"""Seconds in which a server must say what it is: these questions need no model."""

STOP_S = 5.0
"""Seconds in which a server must take the word that a request is to be stopped."""

ADMIN = frozenset(
    {
        "/abort_request",
        "/add_external_corpus",
        "/flush_cache",
        "/list_external_corpora",
        "/load_lora_adapter",
        "/remove_external_corpus",
    }
)
"""The paths that take the administrator's key, where the server has one."""


class Wire:
    """Asks the server at *url*.

    *key* is sent as a bearer token, *admin* with what only an administrator may do. *connections*
    bounds how many are open at once; *connect* is the time to make one, in seconds. ``who`` is who
    is asked, for errors.
    """

    def __init__(
        self, url: str, key: str | None, admin: str | None, connections: int, connect: float
    ) -> None:
        check_url(url, "the url of an SGLang server")
        if urlsplit(url).query:
            shown = address(url)
            raise ConfigError(f"the url of an SGLang server is http://host:port, got {shown!r}")
        self.url = url.rstrip("/")
        self.who = describe_server("sglang", "", self.url)
        self._key, self._admin = key, admin or key
        self._secrets = tuple(each for each in (key, admin) if each)
        self._heads: dict[tuple[str, str], bytes] = {}
        self._http = HttpClient(url, connect=connect, limit=connections, secrets=self._secrets)

    @property
    def place(self) -> str:
        """Host, port and path of the server: the same, however this machine is called."""
        host, path = host_of(self.url), urlsplit(self.url).path
        return host.replace("localhost", "127.0.0.1") + path

    @property
    def learned(self) -> dict[object, object]:
        """Facts that clients with this key keep about the server, until it closes a connection."""
        kept: Any = self._http.learned.setdefault(("sglang", self.url, self._key), {})
        return kept  # type: ignore[no-any-return]

    def names(self, model: str) -> None:
        """Say *model* in errors from now on."""
        self.who = describe_server("sglang", model, self.url)

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

    async def post(self, path: str, body: Body) -> Any:
        """The JSON that the server answers to *body*. Raises ``BackendError``."""
        return await self.exchange("POST", path, body)

    def exchange(self, method: str, path: str, body: Body) -> Coroutine[object, object, Any]:
        """The JSON that the server answers to *body*, ``None`` for nothing, to be awaited.

        Raises ``BackendError``.
        """
        head = self._heads.get((method, path)) or self._head(method, path)
        return self._http.exchange(head, body, self.who)

    async def tell(self, path: str) -> None:
        """Post nothing to *path*, and take whatever text it answers. Raises ``BackendError``."""
        head = self._heads.get(("POST", path)) or self._head("POST", path)
        await self._http.exchange(head, b"", self.who, lambda body, *_: None)

    async def stream(self, path: str, body: Body) -> AsyncGenerator[Any, None]:
        """The JSON events that the server streams, up to ``[DONE]``. Raises ``BackendError``."""
        # Without a limit: each event may hold the whole text again, and the text has a limit.
        head, most = self._heads.get(("POST", path)) or self._head("POST", path), sys.maxsize
        async with self._http.stream(head, body, self.who, most) as (kind, pieces):
            is_stream, first = await opened(kind, pieces)
            if not is_stream:  # it did not stream, or it is no answer
                for each in self._whole(await whole(first, pieces, self.who), kind):
                    yield each
                return
            events = EventParser(self.who)
            piece: bytes | None = first
            while piece is not None:
                for _, data in events.feed(piece):
                    if data.startswith("[DONE]"):
                        return
                    yield self._event(data)
                piece = await anext(pieces, None)
            raise MalformedResponse(f"{self.who} ended its stream before the answer was complete")

    def _whole(self, body: bytes, kind: str) -> list[Any]:
        """The answers in a *body* that is not streamed, each of which is all there is of it."""
        found = self._event(body, kind)
        return found if isinstance(found, list) else [found]

    async def aclose(self) -> None:
        """Leave the connections."""
        await self._http.aclose()

    def _event(self, data: bytes | str, kind: str = "") -> Any:
        try:
            found = read_json(data)
        except ValueError:
            raise not_json(data, self.who, content_type=kind, secrets=self._secrets) from None
        if isinstance(found, dict) and "text" not in found and is_error(found):
            raise error_of_payload(found, self.who, secrets=self._secrets)
        return found

    def _head(self, method: str, path: str) -> bytes:
        """The beginning of a request, which is kept."""
        key = self._admin if path in ADMIN else self._key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        head = self._http.head(method, self._http.path + path, headers)
        self._heads[method, path] = head
        return head
