"""Beginnings of token ids: the profile of a server of one's own, which computes them again.

Each of the calls that share a beginning waits for one request more; every call that is under way
gains the time in which the server would compute the text again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from appl.backend import Request
from appl.runtime.scheduling.beginnings import (
    Beginnings as Beginnings,
    SharedBeginning as SharedBeginning,
)
from appl.runtime.scheduling.prefix_order.room import BLOCK, OrderedCall

LEAST = 96
"""The least tokens of a beginning that is sent alone."""


class ServerProfile:
    """Beginnings on a server of one's own, in blocks of so many tokens."""

    least = LEAST

    def tokens(self, ask: OrderedCall, start: int, end: int) -> int:
        """The tokens of *ask* from block *start* to block *end*."""
        return (end - start) * BLOCK


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
    cache = request.messages.cache if request.messages and not request.sampling.tools else {}
    cached = cache.get(key)
    if isinstance(cached, list):
        return cached
    data, before, hashes = array("q", ids).tobytes(), hash(extra), list[int]()
    for end in range(8 * BLOCK, 8 * BLOCK * count + 1, 8 * BLOCK):
        before = hash((before, data[end - 8 * BLOCK : end]))
        hashes.append(before)
    cache[key] = hashes
    return hashes
