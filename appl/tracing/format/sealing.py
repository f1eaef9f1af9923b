"""Records that only a run key opens: AES-256-GCM, bound to what is shown in their place.

Invariant: what was changed, or moved beside another shown record, does not open.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from appl.base.extras import library
from appl.errors import TraceCorrupt

if TYPE_CHECKING:
    from appl.tracing.format.keys import RunKey

_NONCE = 12


class Sealer:
    """Seals and opens with one run key. Raises ``MissingExtra``."""

    def __init__(self, key: RunKey) -> None:
        use = "the encryption of answers under privacy = 'redacted' (not under 'digests')"
        ciphers = library("privacy", use, "cryptography.hazmat.primitives.ciphers.aead")
        self._cipher = ciphers.AESGCM(key.sealing)

    def seal(self, record: bytes, shown: bytes) -> bytes:
        """*record* encrypted, with a nonce of its own before it; bound to *shown*."""
        nonce = os.urandom(_NONCE)
        sealed: bytes = self._cipher.encrypt(nonce, record, shown)
        return nonce + sealed

    def open(self, sealed: bytes, shown: bytes) -> bytes:
        """The bytes that were sealed. Raises ``TraceCorrupt``."""
        try:
            record: bytes = self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], shown)
        except Exception:
            raise TraceCorrupt("a sealed record does not open with the key of its run") from None
        return record
