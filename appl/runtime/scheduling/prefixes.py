"""Shared prefixes: the blocks of tokens that prompts share with each other and the server's cache.

A server that reuses computed prefixes saves nothing if ten questions about one long text come at
once: it computes the text ten times, as none is computed yet when the others arrive. So the text is
sent first, and the questions follow (prefix first).

Invariant: a block stands for itself and everything before it, so that two prompts have a block in
common exactly if they agree up to its end (but for collisions of 64-bit hashes, which cost time).
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from appl.backend import PrefixCaching, Request
from appl.runtime.scheduling.server_times import SentRequest
from appl.runtime.scheduling.warming_cost import SharedBeginning

BLOCK = 32
LEAST = 96
UNKNOWN_CACHE = 2_000_000
EXPECTED_ANSWER = 256
"""The tokens of an answer without a limit."""


@dataclass(slots=True, eq=False)
class Footprint:
    """The prompt of one call: its tokens, the blocks of them, and the tokens of its answers.

    ``tail`` is the number of tokens that stand, or will stand, behind the last block. The first
    ``ahead`` blocks have been sent ahead of it, whether or not they are still known. ``own`` tokens
    were not held for others when it was admitted. It was ``sent``, and ``leads`` the prompts with
    that block, which the server had not computed.
    """

    ids: Sequence[int]
    blocks: Sequence[int]
    answers: int
    own: int = 0
    ahead: int = 0
    sent: SentRequest | None = None
    leads: int | None = None
    admitted: bool = False
    counted: bool = field(default=True, repr=False)
    tail: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.tail = len(self.ids) - BLOCK * len(self.blocks) + self.answers


class Cache:
    """The known contents of one server's cache, and the room that is kept in it.

    That is for ``blocks`` that prompts may share, and ``tails`` tokens behind those of each.
    All runs that ask the server share it, and count its room together.
    """

    def __init__(self) -> None:
        self.blocks: Counter[int] = Counter()
        self.tails = 0
        self.known: OrderedDict[int, None] = OrderedDict()

    @property
    def used(self) -> int:
        """The number of tokens that room is kept for."""
        return BLOCK * len(self.blocks) + self.tails

    def fresh(self, each: Footprint) -> int:
        """The number of tokens of *each* that room is not kept for already."""
        return BLOCK * sum(block not in self.blocks for block in each.blocks) + each.tail

    def fits(self, each: Footprint, tokens: int | None) -> bool:
        """True if a cache of *tokens* holds *each* besides all that was admitted."""
        return tokens is None or each.admitted or self.used + self.fresh(each) <= tokens

    def admit(self, each: Footprint) -> None:
        """Keep room for *each* until it is released."""
        if each.admitted:
            return
        each.admitted = True
        self.tails += each.tail
        self.blocks.update(each.blocks)

    def release(self, each: Footprint) -> None:
        """Keep no room for *each* any more."""
        if each.admitted:
            each.admitted = False
            self.tails -= each.tail
            _less(self.blocks, each.blocks)

    def warmed(self, blocks: Sequence[int], tokens: int | None) -> None:
        """Note that *blocks* are in the cache of *tokens*; the least recently used give way."""
        known = self.known
        for block in reversed(blocks):  # caches drop the ends of prompts before their beginnings
            known[block] = None
            known.move_to_end(block)
        while len(known) * BLOCK > (tokens or UNKNOWN_CACHE):
            known.popitem(last=False)


class Prefixes:
    """The blocks of waiting prompts, compared with those in the server's *cache*."""

    def __init__(self, caching: PrefixCaching, cache: Cache) -> None:
        self._caching, self._known = caching, cache.known
        self._key = ("blocks", id(caching))
        self._waiting: Counter[int] = Counter()
        self._latest: dict[int, Footprint] = {}
        self._led: dict[int, float] = {}

    @property
    def empty(self) -> bool:
        """True if nothing waits."""
        return not (self._waiting or self._latest or self._led)

    def add(self, request: Request) -> Footprint:
        """Count the prompt of *request* among those that wait; returns its footprint."""
        ids = self._caching.prompt_tokens(request)
        extra = repr(request.sampling.extra) if request.sampling.extra else ""
        blocks = _blocks(request, ids, (self._key, len(ids), extra))
        most = request.sampling.max_tokens or EXPECTED_ANSWER
        found = Footprint(ids, blocks, most * request.n)
        self._waiting.update(blocks)
        self._latest.update(dict.fromkeys(blocks, found))
        return found

    def beginning(self, each: Footprint) -> SharedBeginning | None:
        """The cold blocks of *each* that other waiting prompts have too; ``None`` if too few.

        If some of those prompts have more in common, that is another beginning, after this one.
        """
        blocks, waiting, cold = each.blocks, self._waiting, self._first_cold(each)
        calls = waiting[blocks[cold]] if cold < len(blocks) else 0
        if calls < 2:
            return None
        end = cold + 1
        while end < len(blocks) and waiting[blocks[end]] == calls:
            end += 1
        tokens = (end - cold) * BLOCK
        return SharedBeginning(end, tokens, calls) if tokens >= LEAST else None

    def _first_cold(self, each: Footprint) -> int:
        cold = each.ahead
        while cold < len(each.blocks) and each.blocks[cold] in self._known:
            cold += 1
        return cold

    def shared(self, each: Footprint, end: int) -> int:
        """The number of tokens in the first *end* blocks, and shared ones right behind them."""
        tokens, other = end * BLOCK, self._latest.get(each.blocks[end - 1], each).ids
        most = min(len(each.ids), len(other), tokens + BLOCK)
        while tokens < most and each.ids[tokens] == other[tokens]:
            tokens += 1
        return tokens

    def cold(self, each: Footprint) -> int:
        """The number of tokens of *each* that the cache is not known to have."""
        rest = len(each.ids) - BLOCK * len(each.blocks)
        return rest + BLOCK * sum(block not in self._known for block in each.blocks)

    def sent(self, each: Footprint) -> None:
        """Note that *each* waits no longer: it is on its way, or given up."""
        if each.counted:
            each.counted = False
            _less(self._waiting, each.blocks)
            for block in each.blocks:
                if self._latest.get(block) is each:
                    del self._latest[block]

    def lead(self, each: Footprint, now: float) -> int:
        """Note that *each* is sent *now*; it leads if nothing cold of it has been sent before.

        Returns the number of its tokens from the first cold block on.
        """
        self.sent(each)
        cold = self._first_cold(each)
        if cold < len(each.blocks) and each.blocks[cold] not in self._led:
            each.leads = each.blocks[cold]
            self._led[each.leads] = now
        return len(each.ids) - BLOCK * cold

    def over(self, each: Footprint) -> None:
        """Note that *each* is answered, or given up."""
        self.sent(each)
        if each.leads is not None:
            del self._led[each.leads]
            each.leads = None

    def led_since(self, each: Footprint, shared: SharedBeginning) -> float | None:
        """The time at which a prompt with the *shared* beginning of *each* was sent, if one was."""
        return self._led.get(each.blocks[shared.end - shared.tokens // BLOCK])


def _less(counter: Counter[int], blocks: Sequence[int]) -> None:
    for block in blocks:
        if counter[block] > 1:
            counter[block] -= 1
        else:
            del counter[block]


def _blocks(request: Request, ids: Sequence[int], key: tuple[object, int, str]) -> Sequence[int]:
    """One hash a block, each of its tokens and all before them; kept with the prompt.

    Options that a backend declares may keep caches apart, as an adapter or a salt does.
    """
    count = len(ids) // BLOCK
    if not count:
        return ()
    kept = request.messages.cache if request.messages and not request.sampling.tools else {}
    known = kept.get(key)
    if isinstance(known, list):
        return known
    data, at, before = array("q", ids).tobytes(), 0, hash(key[2])
    found: list[int] = []
    for end in range(8 * BLOCK, 8 * BLOCK * count + 1, 8 * BLOCK):
        before = hash((before, data[at:end]))
        found.append(before)
        at = end
    kept[key] = found
    return found
