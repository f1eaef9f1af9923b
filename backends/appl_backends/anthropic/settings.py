"""The address and the account of a server with Anthropic's interface: plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from appl.backend.http import host_of
from appl.backend.price_table import seller_at

OWN = "https://api.anthropic.com"
VERSION = "2023-06-01"
"""https://platform.claude.com/docs/en/api/versioning"""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The server and the account. ``repr`` shows no key.

    ``base_url`` is the address before ``/v1``. ``api_key`` goes into the header ``x-api-key``,
    ``auth_token`` is a bearer token.
    """

    base_url: str = OWN
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_s: float = 10.0

    @property
    def is_own(self) -> bool:
        """True for Anthropic's own address, where nobody is answered without a key."""
        return host_of(self.base_url) == host_of(OWN)

    @property
    def seller(self) -> str | None:
        """The provider that is paid, if the address belongs to one whose prices are known."""
        return seller_at(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not be shown."""
        asked = (value for _, value in parse_qsl(urlsplit(self.base_url).query))
        found = (self.api_key, self.auth_token, *self.headers.values(), *asked)
        return tuple(secret for secret in found if secret and len(secret) > 3)

    def url(self, path: str) -> str:
        """The address of *path*, as ``/v1/messages``."""
        parts = urlsplit(self.base_url)
        return parts._replace(path=parts.path + path).geturl()

    def all_headers(self) -> dict[str, str]:
        """The headers of each question; those of the user replace others of their name."""
        found = {"anthropic-version": VERSION}
        if self.api_key:
            found["x-api-key"] = self.api_key
        if self.auth_token:
            found["Authorization"] = f"Bearer {self.auth_token}"
        own = {name.lower() for name in self.headers}
        kept = {name: value for name, value in found.items() if name.lower() not in own}
        return {**kept, **self.headers}


def base_of(url: str | None) -> str:
    """*url* without the version and the name of the question, which are put behind it."""
    parts = urlsplit(url or os.environ.get("ANTHROPIC_BASE_URL") or OWN)
    path = parts.path.rstrip("/").removesuffix("/messages").removesuffix("/v1")
    return parts._replace(path=path).geturl()


def is_known(url: str | None) -> bool:
    """True if the keys in the environment are meant for *url*."""
    known = (None, os.environ.get("ANTHROPIC_BASE_URL"))
    return url in known or host_of(url or "") == host_of(OWN)
