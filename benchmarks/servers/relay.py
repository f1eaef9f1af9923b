"""A relay between a client and a server: it passes the bytes on, and knows what was asked.

Invariant: it neither reads ahead nor holds back, so that both sides see the other's pace and end.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time

_QUESTION = re.compile(rb"(POST|GET) (\S+) HTTP/1\.[01]\r\n")
_PIECE = 1 << 16


class Exchange:
    """One connection: the bytes of both sides, and when the client closed it."""

    def __init__(self) -> None:
        self.sent, self.answered = bytearray(), bytearray()
        self.left: float | None = None


class Relay:
    """Listens on a port of its own for the server at *port*; usable in a ``with`` block."""

    def __init__(self, port: int) -> None:
        self._port, self.server = port, f"http://127.0.0.1:{port}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.exchanges: list[Exchange] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def questions(self) -> int:
        """How many requests with a body were sent through it."""
        found = (m for each in self.exchanges for m in _QUESTION.finditer(bytes(each.sent)))
        return sum(match[1] == b"POST" for match in found)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            exchange = Exchange()
            self.exchanges.append(exchange)
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                client.close()
                continue
            for one, other, kept in (
                (client, server, exchange.sent),
                (server, client, exchange.answered),
            ):
                passing = (one, other, kept, exchange if one is client else None)
                threading.Thread(target=_pass_on, args=passing, daemon=True).start()


def _pass_on(
    one: socket.socket, other: socket.socket, kept: bytearray, client: Exchange | None
) -> None:
    """Pass on what *one* sends, and its end; *client* is the exchange if *one* is the client."""
    with contextlib.suppress(OSError):
        while piece := one.recv(_PIECE):
            kept += piece
            other.sendall(piece)
    if client is None:  # the client reads the rest, and then the end
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)
        return
    client.left = time.monotonic()
    for end in (other, one):  # who has gone reads no more: the server is told at once
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
