"""Beginnings: what the prompts of several waiting calls begin with, sent alone before them.

A server that reuses computed prefixes saves nothing if ten questions about one long text come at
once: it computes the text ten times, as none is computed yet when the others arrive. So the text is
sent first, and the questions follow. Each of these then waits for one request more; every call that
is under way gains the time in which the server would compute the text again.

Invariant: a block stands for itself and everything before it, so that two prompts have a block in
common exactly if they agree up to its end (but for collisions of 64-bit hashes, which cost time).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from appl.backend import Request
from appl.runtime.scheduling.prefix_order.room import BLOCK, KnownBlocks, OrderedCall, less

REQUEST = 1500
"""The tokens of prompts that a server computes in the time of one request more."""
LEAST = 96
"""The least tokens of a beginning that is sent alone."""


class SharedBeginning(NamedTuple):
    """``calls`` that wait share the first ``end`` blocks; ``tokens`` of them are to be computed."""

    end: int
    tokens: int
    calls: int

    def pays(self, everybody: int) -> bool:
        """True if sending it alone saves *everybody*, its calls included, more than it costs."""
        return self.tokens * (self.calls - 1) * everybody >= REQUEST * self.calls


class Beginnings:
    """The beginnings that the waiting prompts of one run share; *known* blocks are computed."""

    def __init__(self, known: KnownBlocks) -> None:
        self._known = known
        self._waiting = Counter[int]()

    def add(self, ask: OrderedCall) -> None:
        """Note that *ask* waits."""
        self._waiting.update(ask.blocks)

    def remove(self, ask: OrderedCall) -> None:
        """Note that *ask* waits no longer: it is sent, or given up."""
        less(self._waiting, ask.blocks)

    def of(self, ask: OrderedCall) -> SharedBeginning | None:
        """The beginning of *ask* that others share and the cache has not; ``None`` if too short.

        If some of the others have more in common, that is another beginning, after this one.
        """
        blocks, waiting = ask.blocks, self._waiting
        cold = self._known.count(blocks, ask.ahead)
        calls = waiting[blocks[cold]] if cold < len(blocks) else 0
        if calls < 2:
            return None
        end = bisect_left(blocks, True, lo=cold, key=lambda block: waiting[block] < calls)
        tokens = (end - cold) * BLOCK
        return SharedBeginning(end, tokens, calls) if tokens >= LEAST else None


def shared_tokens(ask: OrderedCall, end: int, others: Iterable[OrderedCall]) -> int:
    """The number of tokens in the first *end* blocks, and of shared ones right behind them."""
    key, tokens = ask.blocks[end - 1], end * BLOCK
    for other in others:
        if other is not ask and len(other.blocks) >= end and other.blocks[end - 1] == key:
            most = min(len(ask.ids), len(other.ids), tokens + BLOCK)
            while tokens < most and ask.ids[tokens] == other.ids[tokens]:
                tokens += 1
            break
    return tokens


def blocks_of(request: Request, ids: Sequence[int], server: object) -> Sequence[int]:
    """One hash a block of *ids*, each of its tokens and all before it; kept with the prompt.

    Options that a backend declares may keep caches apart, as an adapter or a salt does.
    """
    count = len(ids) // BLOCK
    if not count:
        return ()
    extra = repr(request.sampling.extra) if request.sampling.extra else ""
    key = ("blocks", id(server), len(ids), extra)
    kept = request.messages.cache if request.messages and not request.sampling.tools else {}
    known = kept.get(key)
    if isinstance(known, list):
        return known
    data, before, found = array("q", ids).tobytes(), hash(extra), list[int]()
    for end in range(8 * BLOCK, 8 * BLOCK * count + 1, 8 * BLOCK):
        before = hash((before, data[end - 8 * BLOCK : end]))
        found.append(before)
    kept[key] = found
    return found
