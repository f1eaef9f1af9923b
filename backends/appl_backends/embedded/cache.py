"""The interface of a prefix cache: a sequence opens it, publishes what it computed, and closes.

Invariant: between ``open`` and ``close`` nothing is evicted that the sequence matched or published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from appl_backends.embedded.model import Row

Tokens = NDArray[np.int32]


@dataclass(slots=True)
class Hold:
    """A sequence's place in the cache: the deepest locked node, and the tokens up to it."""

    node: Any
    length: int


@dataclass(frozen=True, slots=True)
class CacheReport:
    """Blocks and tokens of a cache; ``protected`` tokens are in use, the rest can be evicted."""

    blocks: int = 0
    free_blocks: int = 0
    tokens: int = 0
    protected: int = 0
    nodes: int = 0
    evicted: int = 0


class PrefixCache(Protocol):
    """Computed keys and values by token prefix, apart for each name of a space."""

    shares: bool

    def match(self, tokens: Tokens, space: str = "") -> int:
        """The number of leading *tokens* in the cache."""

    def open(self, tokens: Tokens, row: Row, space: str = "") -> Hold:
        """Lock the longest held prefix of *tokens* and copy it into the empty *row*."""

    def publish(self, hold: Hold, tokens: Tokens, row: Row) -> None:
        """Keep what *row* has computed of *tokens* beyond *hold*, as far as there is room."""

    def close(self, hold: Hold) -> None:
        """Unlock *hold*; it may be evicted from now on."""

    def clear(self) -> None:
        """Evict all that is not locked."""

    def report(self) -> CacheReport:
        """The state of the cache now."""
