"""The server that is asked, and the account there: plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from appl.backend.price_table import seller_at


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The server and the account. ``repr`` shows no key.

    With *of_environment* the account may be named by variables of the environment, which are meant
    for this server.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    organization: str | None = None
    project: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    azure_endpoint: str | None = None
    azure_ad_token: str | None = field(default=None, repr=False)
    api_version: str | None = None
    connect_s: float = 10.0
    of_environment: bool = False

    @property
    def is_azure(self) -> bool:
        """True if it is reached as Azure is: by deployments and versions of the interface."""
        return bool(self.azure_endpoint or self.api_version)

    @property
    def seller(self) -> str | None:
        """The provider that is paid, if the address belongs to one whose prices are known."""
        if self.is_azure:
            endpoint = self.azure_endpoint or self.base_url
            return seller_at(endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT"))
        return "openai" if self.base_url is None else seller_at(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not be shown."""
        parts = urlsplit(self.base_url or "")
        asked = (value for _, value in parse_qsl(parts.query))
        found = (
            self.api_key,
            self.azure_ad_token,
            *self.headers.values(),
            *asked,
        )
        return tuple(secret for secret in found if secret and len(secret) > 3)
