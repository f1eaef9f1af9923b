"""A guard against connections, for as long as a test is answered from its tape.

Invariant: while the guard is active, no thread of this process looks up a name or reaches another
machine through Python's sockets. Sockets of this machine are let through, as tests use them for
servers of their own, and answers from a tape contact no server.

Python calls its audit hooks for each connection, even one made by C code of ``socket``; so nothing
is replaced that a library may have kept, as a guard in place of ``socket.connect`` would do. A hook
cannot be removed: the first test that needs it installs it, and it does nothing between such tests.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
from collections.abc import Iterator
from typing import Any

_CONNECTING = frozenset(["socket.connect", "socket.sendto", "socket.sendmsg"])
_ASKING = frozenset(["socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"])
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_HERE = frozenset(["", "localhost", "localhost.localdomain", "ip6-localhost", "<broadcast>"])


class NetworkBlocked(RuntimeError):
    """A test that is answered from its tape connects to another machine."""


class Guard:
    """An active guard, with the first connection that it refused."""

    def __init__(self) -> None:
        self.first: NetworkBlocked | None = None

    def refuse(self, target: str) -> NetworkBlocked:
        """The error for a connection to *target*; the first is kept if a program swallows it."""
        error = NetworkBlocked(
            f"a connection to {target} was blocked: the test is answered from its tape, and "
            "nothing in it may reach another machine; @pytest.mark.appl(network=True) lets it"
        )
        self.first = self.first or error
        return error


_standing: list[Guard] = []
_hooked = False


@contextlib.contextmanager
def guarded() -> Iterator[Guard]:
    """Refuse connections to other machines inside the block."""
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_audit)
    guard = Guard()
    _standing.append(guard)
    try:
        yield guard
    finally:
        _standing.remove(guard)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _standing or not event.startswith("socket."):
        return
    if event in _CONNECTING:
        sock, address = arguments[:2]
        if getattr(sock, "family", None) in _INTERNET and address and not _is_here(address[0]):
            raise _standing[-1].refuse(f"{address[0]}:{address[1]}")
    elif event in _ASKING and not _is_here(arguments[0]):
        raise _standing[-1].refuse(_word(arguments[0]))


def _is_here(host: object) -> bool:
    """True if *host* means this machine."""
    word = _word(host)
    if host is None or word in _HERE:
        return True
    try:
        address = ipaddress.ip_address(word)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _word(host: object) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
