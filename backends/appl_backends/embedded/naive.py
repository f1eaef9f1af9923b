"""The cache that never shares: the radix cache's oracle in tests, and its switch for ablations.

Invariant: same interface as ``radix.RadixCache``; every prompt is computed from its first token.
"""

from __future__ import annotations

from appl_backends.embedded.cache import CacheReport, Hold, Tokens
from appl_backends.embedded.model import Row


class NaiveCache:
    """Holds nothing."""

    shares = False

    def match(self, tokens: Tokens, space: str = "") -> int:
        """The number of leading *tokens* in the cache: none."""
        return 0

    def open(self, tokens: Tokens, row: Row, space: str = "") -> Hold:
        """Begin a sequence in *row*, which stays empty."""
        return Hold(None, 0)

    def publish(self, hold: Hold, tokens: Tokens, row: Row) -> None:
        """Keep nothing of *row*."""

    def close(self, hold: Hold) -> None:
        """End a sequence."""

    def clear(self) -> None:
        """There is nothing to evict."""

    def report(self) -> CacheReport:
        """All zero."""
        return CacheReport()
