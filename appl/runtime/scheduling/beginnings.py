"""Beginnings: what the prompts of several waiting calls begin with, and whether it goes first.

A cache of prompts saves nothing if ten questions about one long text come at once: none of them
finds the text there when it arrives. So the text is sent first, and the questions follow. What that
is worth is told by a profile: a server of one's own loses time, a provider charges for each write.

Invariant: a block stands for itself and everything before it, so that two prompts have a block in
common exactly if they agree up to its end (but for collisions of 64-bit hashes, which cost time).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

REQUEST = 1500
"""The tokens of prompts that a server computes in the time of one request more."""


class WaitingPrompt(Protocol):
    """The prompt of a call that waits, as *blocks*; the first ``ahead`` were sent ahead of it."""

    @property
    def blocks(self) -> Sequence[int]:
        """A hash for each block, of its content and all before it."""

    @property
    def ahead(self) -> int:
        """The number of its first blocks that were sent ahead of it."""


class Cached(Protocol):
    """The blocks that a cache is known to have."""

    def count(self, blocks: Sequence[int], ahead: int = 0) -> int:
        """The number of *blocks* that are known, from the first on; *ahead* at least."""


Ask = TypeVar("Ask", bound=WaitingPrompt)
Ask_in = TypeVar("Ask_in", bound=WaitingPrompt, contravariant=True)


class BeginningProfile(Protocol[Ask_in]):
    """The rule of a kind of cache for beginnings: their length, and the least that counts."""

    @property
    def least(self) -> int:
        """The least tokens of a beginning that is sent ahead."""

    def tokens(self, ask: Ask_in, start: int, end: int) -> int:
        """The tokens of *ask* from block *start* to block *end*."""


class SharedBeginning(NamedTuple):
    """``calls`` that wait share the first ``end`` blocks; ``tokens`` of them are to be computed."""

    end: int
    tokens: int
    calls: int

    def pays(self, everybody: int) -> bool:
        """True if sending it alone saves *everybody*, its calls included, more than it costs.

        This is the profile of a server of one's own: each of the calls waits for one request more,
        and all gain the time in which the server would compute the beginning again.
        """
        return self.tokens * (self.calls - 1) * everybody >= REQUEST * self.calls

    @property
    def saved(self) -> int:
        """The tokens that need not be computed, or paid for, again."""
        return self.tokens * (self.calls - 1)


class Beginnings(Generic[Ask]):
    """The beginnings that the waiting prompts of one run share; *cached* blocks are computed."""

    def __init__(self, cached: Cached, profile: BeginningProfile[Ask]) -> None:
        self._cached, self._profile = cached, profile
        self.waiting = Counter[int]()

    def add(self, ask: Ask) -> None:
        """Note that *ask* waits."""
        self.waiting.update(ask.blocks)

    def remove(self, ask: Ask) -> None:
        """Note that *ask* waits no longer: it is sent, or given up."""
        less(self.waiting, ask.blocks)

    def of(self, ask: Ask) -> SharedBeginning | None:
        """The beginning of *ask* that others share and the cache has not; ``None`` if too short.

        If some of the others have more in common, that is another beginning, after this one.
        """
        blocks, waiting = ask.blocks, self.waiting
        cold = self._cached.count(blocks, ask.ahead)
        calls = waiting[blocks[cold]] if cold < len(blocks) else 0
        if calls < 2:
            return None
        end = bisect_left(blocks, True, lo=cold, key=lambda block: waiting[block] < calls)
        tokens = self._profile.tokens(ask, cold, end)
        return SharedBeginning(end, tokens, calls) if tokens >= self._profile.least else None


def less(counter: Counter[int], blocks: Sequence[int]) -> None:
    """Count *blocks* once less."""
    for block in blocks:
        if counter[block] > 1:
            counter[block] -= 1
        else:
            del counter[block]
