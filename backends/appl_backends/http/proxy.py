"""The proxy that the environment names for a server.

Invariant: a server on this machine is asked without a proxy, for which ``localhost`` is another
machine; and what ``NO_PROXY`` excepts is asked directly.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from appl.backend.http import address
from appl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; *authorization* is the value of its header, empty for none.

    *variable* of the environment names it.
    """

    host: str
    port: int
    authorization: str = field(default="", repr=False)
    variable: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"the proxy {self.host}:{self.port} that {self.variable} names"


def proxy_of(scheme: str, host: str, port: int, environment: Mapping[str, str]) -> Proxy | None:
    """The proxy for a server, ``None`` if it is asked directly. Raises ``ConfigError``."""
    if _is_local(host) or any(_matches(host, port, entry) for entry in _exceptions(environment)):
        return None
    for name in _variables(scheme, environment):
        if url := environment.get(name, "").strip():
            return _proxy(url if "://" in url else f"http://{url}", name)
    return None


def _variables(scheme: str, environment: Mapping[str, str]) -> Iterator[str]:
    yield f"{scheme}_proxy"
    if scheme != "http" or "REQUEST_METHOD" not in environment:
        yield f"{scheme.upper()}_PROXY"  # in CGI, HTTP_PROXY is a header that a client has sent
    yield from ("all_proxy", "ALL_PROXY")


def _proxy(url: str, name: str) -> Proxy:
    shown = address(url.partition("?")[0])
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname:
            authorization = _basic(parts.username, parts.password)
            return Proxy(parts.hostname, parts.port or 80, authorization, name)
    raise ConfigError(
        f"the proxy in {name} must be http://host:port, got {shown!r}; unset {name}, or name the "
        "server in NO_PROXY"
    )


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _exceptions(environment: Mapping[str, str]) -> list[str]:
    value = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    return [entry.strip().lower() for entry in value.split(",") if entry.strip()]


def _matches(host: str, port: int, entry: str) -> bool:
    """True if *entry* of ``NO_PROXY`` means the server: ``*``, a domain, an address, a network."""
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    name, _, number = entry.partition(":")
    if number and number != str(port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return not name or host == name or host.endswith(f".{name}")


def _is_local(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")
