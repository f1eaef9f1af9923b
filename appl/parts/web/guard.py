"""Refuses requests by their host, their origin and the form of their body.

Invariant: a page of another site gets no answer, although its visitor's browser can reach a
loopback address; no request holds a connection for longer than it may take to arrive.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web

from appl.parts.web.refusals import Refusal

ARRIVAL_SECONDS = 20.0
"""The most seconds for the head of a request to arrive, and for its body."""
_LOOKS = 10
"""The number of checks of the connections in that time."""
_LOCAL = frozenset({"localhost"})
_ELSEWHERE = ("cross-site", "same-site")  # a page of another site asks through a browser


class Hosts:
    """The names under which a server may be addressed.

    Addresses in digits are always allowed, because only a name can be made to point elsewhere
    (DNS rebinding). *names* are allowed besides ``localhost``.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = _LOCAL | {name.lower() for name in names}

    def check(self, request: web.Request) -> None:
        """Raise ``Refusal`` for a foreign host, and for a page of another origin."""
        origin = request.headers.get("Origin")
        elsewhere = request.headers.get("Sec-Fetch-Site", "none") in _ELSEWHERE
        if elsewhere or (origin is not None and _netloc(origin) != request.host.lower()):
            raise Refusal("Forbidden: the request comes from a page of another origin", 403)
        if not self._allows(_hostname(request.host)):
            raise Refusal("Forbidden: unknown host; --allow-host NAME allows it", 403)

    def _allows(self, host: str | None) -> bool:
        if host is None:
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return host in self._names
        return True


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


async def arrive(request: web.Request, most_bytes: int, seconds: float) -> None:
    """Have the whole body of *request* here.

    Raises ``Refusal`` if it is compressed, late, or says that it is longer than *most_bytes*.
    """
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("identity", ""):
        raise Refusal("the body is compressed; send it as it is")
    if (request.content_length or 0) > most_bytes:
        raise web.HTTPRequestEntityTooLarge(most_bytes, request.content_length or 0)
    try:
        async with asyncio.timeout(seconds):
            await request.read()
    except TimeoutError:
        raise Refusal(f"the body did not arrive within {seconds:g} s", 408) from None


class Arrivals:
    """Ends connections whose next request does not arrive within so many *seconds*.

    aiohttp limits the time between two requests of a connection only.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[web.RequestHandler, float] = {}
        self._busy: set[web.RequestHandler] = set()

    def begin(self, request: web.Request) -> None:
        """The head of *request* is here."""
        self._busy.add(request.protocol)

    def end(self, request: web.Request) -> None:
        """*request* has been answered."""
        self._busy.discard(request.protocol)
        self._since[request.protocol] = time.monotonic()

    async def watch(self, server: web.Server) -> None:
        """Look after the connections of *server* until cancelled."""
        while True:
            await asyncio.sleep(self._seconds / _LOOKS)
            self.look(server.connections, time.monotonic())

    def look(self, connections: Collection[web.RequestHandler], now: float) -> None:
        """End those of *connections* that have waited for a request for too long at *now*."""
        # Connections that have ended drop out here, and new ones start their time.
        self._since = {peer: self._since.get(peer, now) for peer in connections}
        for connection, since in self._since.items():
            if connection not in self._busy and now - since > self._seconds:
                connection.force_close()


class OneLine(logging.Filter):
    """Logs a malformed request as one line: a stranger's bytes are no bug of the server."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten *record*, and drop it if the client has gone away."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            words = " ".join(str(error).split())
            record.msg, record.args = "appl serve: malformed request: %.200s", (words,)
            record.exc_info = record.exc_text = None
        return not isinstance(error, ConnectionError)
