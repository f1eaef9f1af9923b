"""Access to the server's paths by API key.

Invariant: keys are compared in constant time, and never shown.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

OPEN_PATHS = ("/health", "/metrics")


@dataclass(frozen=True, slots=True)
class Keys:
    """The key of ordinary requests and that of administration; ``None`` asks for no key."""

    api: str | None
    admin: str | None

    @classmethod
    def of(cls, api: str | None, admin: str | None = None) -> Keys:
        """*api* ``"none"`` for no keys at all; what is ``None`` is drawn at random."""
        if api == "none":
            return cls(None, admin)
        return cls(api or secrets.token_urlsafe(24), admin or secrets.token_urlsafe(24))

    def allow(self, path: str, authorization: str | None, *, admin: bool) -> bool:
        """True if a request with this ``Authorization`` header may have *path*.

        With *admin*, only the key of administration opens it; that key opens everything else too.
        """
        if path in OPEN_PATHS:
            return True
        wanted = [self.admin] if admin and self.admin else [self.api, self.admin]
        known = [key for key in wanted if key is not None]
        if not known or (not admin and self.api is None):
            return True
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        return any(
            [hmac.compare_digest(token.encode("utf-8", "replace"), key.encode()) for key in known]
        )
