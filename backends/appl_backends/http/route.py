"""The way to a server: its address, the proxy before it, and TLS.

Invariant: a connection made here leads to the server itself, whose certificate was checked, or to a
proxy that passes requests on to a server without TLS.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from appl.errors import BackendRefused, BackendUnavailable, ConfigError
from appl_backends.http.connection import Connection
from appl_backends.http.proxy import Proxy, proxy_of

RESOLVED_S = 10.0
"""Seconds for which the address that was found for a name is used again."""


@dataclass(frozen=True, slots=True)
class Route:
    """All that connections must have in common, so that one can be used for the other."""

    host: str
    port: int
    tls: ssl.SSLContext | None = field(repr=False)
    proxy: Proxy | None
    _found: dict[str, tuple[str, float]] = field(default_factory=dict, compare=False, repr=False)

    async def connect(self) -> Connection:
        """A new connection. Raises ``OSError``, ``NotHttp`` and ``BackendError``."""
        if self.proxy is None:
            return await self._open(self.host, self.port, self.tls)
        connection = await self._open(self.proxy.host, self.proxy.port, None)
        if self.tls is not None:
            try:
                await self._tunnel(connection, self.proxy, self.tls)
            except BaseException:
                connection.close()
                raise
        return connection

    async def _open(self, host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
        # A burst of connections would look the name up as often. If no connection can be made to
        # the address that was right a moment ago, the name is looked up again.
        found, until = self._found.pop(host, ("", 0.0))
        if time.monotonic() < until:
            with suppress(OSError):
                connection = await _open(found, port, tls, host)
                self._found[host] = found, until
                return connection
        connection = await _open(host, port, tls, host)
        address = address_of(connection.transport)
        if address:
            self._found[host] = address, time.monotonic() + RESOLVED_S
        return connection

    async def _tunnel(self, connection: Connection, proxy: Proxy, tls: ssl.SSLContext) -> None:
        """Have *proxy* connect to the server, and begin TLS with that."""
        answer = await connection.head(self._connect_request(proxy))
        if not answer.ok:
            kind = BackendUnavailable if answer.status >= 500 else BackendRefused
            raise kind(
                f"{proxy} answered {answer.status} when it was to connect to "
                f"{self.host}:{self.port}: check {proxy.variable} and NO_PROXY",
                status=answer.status,
                worked=False,
            )
        connection.finish()
        if connection.transport is None:
            raise ConnectionResetError(f"{proxy} hung up")
        transport: Any = await asyncio.get_running_loop().start_tls(
            connection.transport, connection, tls, server_hostname=self.host
        )
        connection.transport = transport

    def _connect_request(self, proxy: Proxy) -> bytes:
        where = f"{bracketed(self.host)}:{self.port}"
        allowed = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        return f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{allowed}\r\n".encode("ascii")


def route_to(host: str, port: int, secure: bool) -> Route:
    """The route that the environment says to a server. Raises ``ConfigError``."""
    proxy = proxy_of("https" if secure else "http", host, port, os.environ)
    return Route(host, port, tls_context() if secure else None, proxy)


def address_of(transport: asyncio.BaseTransport | None) -> str:
    """The address of whom it is connected with; empty if the other side has already hung up."""
    peer = None if transport is None else transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def bracketed(host: str) -> str:
    """*host* as it stands before a port."""
    return f"[{host}]" if ":" in host else host


async def _open(host: str, port: int, tls: ssl.SSLContext | None, name: str) -> Connection:
    is_number = ":" in host or host.replace(".", "").isdigit()
    _, made = await asyncio.get_running_loop().create_connection(
        Connection,
        host,
        port,
        ssl=tls,
        server_hostname=None if tls is None else name,
        happy_eyeballs_delay=None if is_number else 0.25,
    )
    return made


def tls_context() -> ssl.SSLContext:
    """The TLS settings of this process; made anew when the certificates change.

    The authorities are those of ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, else the system's, else
    those of the package certifi. Raises ``ConfigError``.
    """
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    try:
        changed = Path(file).stat().st_mtime_ns if file else 0
    except OSError as error:
        raise ConfigError(f"SSL_CERT_FILE names {file!r}: {error.strerror}") from None
    return _context(file, folder, changed)


@lru_cache(maxsize=4)
def _context(file: str | None, folder: str | None, changed: int) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if not (file or folder or _system_has_certificates()):
        with suppress(ImportError):
            context.load_verify_locations(importlib.import_module("certifi").where())
    return context


def _system_has_certificates() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or bool(paths.capath and any(Path(paths.capath).iterdir()))
