"""Refuses requests by their host, their origin and the form of their body; ends slow clients.

Invariant: a page of another site gets no answer, although its visitor's browser can reach a
loopback address; no request holds a connection for longer than it may take to arrive, and no
answer for longer than a client may leave it unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import logging
import socket
import struct
import termios
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web

from appl.parts.web.refusals import Refusal

ARRIVAL_SECONDS = 20.0
"""The most seconds for the head of a request to arrive, and for its body."""
READING_SECONDS = 30.0
"""The most seconds for which a client may leave unread what was sent to it."""
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
        if not self._allows(request.host):
            raise Refusal("Forbidden: unknown host; --allow-host NAME allows it", 403)

    def _allows(self, host: str) -> bool:
        """True if the header ``Host`` has an IP address or an allowed name."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if name is None:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
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
    """Ends connections whose next request, or whose reading of an answer, does not go on.

    The next request of a connection must arrive within *arrival* seconds: aiohttp limits the time
    between two requests only. A client may leave an answer unread for *reading* seconds; one that
    reads slowly gets all of it.
    """

    def __init__(self, arrival: float, reading: float = READING_SECONDS) -> None:
        self._arrival, self._reading = arrival, reading
        self._since: dict[web.RequestHandler, float] = {}
        self._unread: dict[web.RequestHandler, tuple[int, float]] = {}
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
            await asyncio.sleep(min(self._arrival, self._reading) / _LOOKS)
            self.look(server.connections, time.monotonic())

    def look(self, connections: Collection[web.RequestHandler], now: float) -> None:
        """End those of *connections* on which nothing has gone on for too long at *now*."""
        # Connections that have ended drop out here, and new ones start their time.
        self._since = {peer: self._since.get(peer, now) for peer in connections}
        # The bytes that each client has not taken, and since when it has taken nothing: meanwhile
        # the handler waits for room, and the size stays the same.
        unread: dict[web.RequestHandler, tuple[int, float]] = {}
        for peer in connections:
            size = _queued(peer.transport)
            before, unchanged = self._unread.get(peer, (size, now))
            unread[peer] = size, unchanged if size == before else now
        self._unread = unread
        for connection, (size, unchanged) in self._unread.items():
            if size:
                self._since[connection] = now  # the time of its next request has not begun
                if now - unchanged > self._reading:
                    _reset(connection)
            elif connection not in self._busy and now - self._since[connection] > self._arrival:
                connection.force_close()


def _queued(transport: asyncio.BaseTransport | None) -> int:
    """The bytes that wait to be sent: in this process, and in the system's buffer of the socket.

    The system takes more only when much of its buffer is free, which a slow reader needs long for.
    """
    if not isinstance(transport, asyncio.Transport) or transport.is_closing():
        return 0
    data = b"\0" * struct.calcsize("i")
    with contextlib.suppress(OSError):
        data = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, data)
    sending: int = struct.unpack("i", data)[0]
    return transport.get_write_buffer_size() + sending


def _reset(connection: web.RequestHandler) -> None:
    """End *connection* now: closed only, it would last until the client has read the rest."""
    transport = connection.transport
    if isinstance(transport, asyncio.Transport):
        with contextlib.suppress(OSError):
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        transport.abort()


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
