"""The room in a server's prefix cache: who may ask, so that little is computed again.

A conversation is an activation that asks by turns. Newcomers are let in, in their order, while the
expected contexts of all that were let in fit into the cache. Those that were let in keep their
rank: where their contexts do not fit together after all, the later ones wait. One that rests for
longer than it takes to compute the whole cache holds no room.

Invariant: plain numbers, and no clock is read. A call that was added is returned by ``next`` once.
Whoever was let in waits for at most ``WAIT_S`` seconds. While newcomers have waited for
``LONG_WAIT_S``, the one that came first is let in each time that as many seconds have passed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf
from operator import itemgetter
from typing import Any

from appl.runtime.scheduling.beginnings import less

BLOCK = 32
"""The tokens of a block: prompts are compared by blocks."""
PREFILL = 35_000
"""The tokens of prompts that a server computes in a second: an 8B model on one H200."""
PART = 0.6
"""The part of the growth to come for which room is kept: not all conversations end together."""
FULL = 0.9
"""The part of the cache up to which conversations that were let in go on together."""
FIRST_TURNS, LONGER = 8, 2
"""Until one of its kind has ended, a conversation is expected to take as many turns, or so many
times as many as the longest has taken."""
NEWS = 0.1
"""The weight of the latest turn in the mean growth; and the change of a mean that counts."""
WAIT_S = 20.0
"""The most seconds that a call of one that was let in waits for room."""
LONG_WAIT_S = 60.0
"""While newcomers wait for so many seconds, one is let in each time that as many have passed; and
the most seconds that a call waits for the beginning of its prompt."""
MOST_KNOWN = 2_000_000
"""The most tokens that are known to be in a server's cache."""


@dataclass(eq=False, slots=True)
class OrderedCall:
    """A call that is ready: its prompt as *blocks*, and the *tokens* of prompt and answers.

    It waits ``since`` a time. The first ``ahead`` blocks were sent ahead of it.
    """

    call: Any
    conversation: CachedConversation
    ids: Sequence[int]
    blocks: Sequence[int]
    tokens: int
    since: float
    ahead: int = 0
    is_sent: bool = False
    is_let_in: bool = False


@dataclass(slots=True)
class Kind:
    """The conversations of one function: how many have ended, their turns, and their growth.

    ``longest`` is the most turns of one so far. ``growth`` are the tokens of a turn in the mean.
    ``assumed`` are the turns by which room is kept at present.
    """

    ended: int = 0
    turns: int = 0
    longest: int = 0
    growth: float | None = None
    assumed: float = FIRST_TURNS

    def expected(self) -> float:
        """The number of turns that one of them is expected to take."""
        return self.turns / self.ended if self.ended else max(FIRST_TURNS, LONGER * self.longest)


@dataclass(eq=False, slots=True)
class CachedConversation:
    """The calls of one activation that go on from each other.

    ``body`` is its function. So many calls were ``made`` ready, the latest in ``line`` of it. It
    takes at least ``least`` turns and at most ``most``, by its graph about ``length``, and has
    begun ``turn``. Its latest turn had
    ``size`` tokens, ``own`` of which no other held; ``prompts`` are the blocks of its calls, and
    ``tail`` the tokens behind these. Room is kept for ``to_come`` tokens more. Of its ``open``
    calls so many are ``running``. ``is_last`` is true if no call is to come.
    """

    address: str
    kind: Kind
    rank: int | None = None
    body: Any = None
    made: int = 0
    line: int | None = None
    has_ended: bool = False
    least: float = 0
    most: float = inf
    length: float = FIRST_TURNS
    is_last: bool = False
    turn: int = 0
    size: int = 0
    own: int = 0
    tail: int = 0
    to_come: float = 0.0
    open: int = 0
    running: int = 0
    waiting: deque[OrderedCall] = field(default_factory=deque)
    prompts: list[Sequence[int]] = field(default_factory=list)


class KnownBlocks:
    """The blocks that a server's cache is known to have; the least recently used are dropped."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def add(self, blocks: Sequence[int], tokens: float) -> None:
        """Note that *blocks* are in the cache, which holds so many *tokens*."""
        stored = self._blocks
        for block in reversed(blocks):  # caches drop the ends of prompts before their beginnings
            stored[block] = None
            stored.move_to_end(block)
        while len(stored) * BLOCK > min(tokens, MOST_KNOWN):
            stored.popitem(last=False)

    def count(self, blocks: Sequence[int], ahead: int = 0) -> int:
        """The number of *blocks* that are known, from the first on; *ahead* at least."""
        return bisect_left(blocks, True, lo=ahead, key=lambda block: block not in self._blocks)


class Room:
    """The room in one server's cache, which holds *tokens*, for all runs that ask the server.

    ``held`` counts the blocks of conversations that were let in, ``inside`` are these, and
    ``resting`` those of them that have no call, with the time since when. ``tails`` are their
    tokens that no other can share, and ``to_come`` those that are expected of all. ``running``
    calls are with the server. ``waiting`` are the lines whose next call has no room. ``known``
    blocks are in the cache.
    """

    def __init__(self, tokens: float = inf, shared_by: object = None) -> None:
        self.tokens = tokens
        self._shared_by = shared_by  # which lives as long as this does
        self.known = KnownBlocks()
        self.held = Counter[int]()
        self.inside: dict[CachedConversation, None] = {}
        self.resting: dict[CachedConversation, float] = {}
        self.kinds: dict[object, Kind] = {}
        self.numbers = count()
        self.tails = self.running = 0
        self.to_come = 0.0
        self.is_stale = False
        self.overdue_let_in = -inf
        self.lines: set[Line] = set()
        self.waiting: dict[Line, None] = {}

    def tell(self) -> None:
        """Have all lines look again, as there may be room for their next calls."""
        for line in [*self.waiting]:
            line.look()

    @property
    def used(self) -> int:
        """The tokens that those inside hold."""
        return BLOCK * len(self.held) + self.tails

    def lapse(self, now: float) -> None:
        """Keep no room for those that have rested for too long *now*."""
        while self.resting:
            conversation, since = next(iter(self.resting.items()))
            if since + self.tokens / PREFILL > now:
                return
            self.leave(conversation)

    def own_tokens(self, ask: OrderedCall) -> int:
        """The tokens of *ask* that no other conversation holds, nor another call of its turn."""
        # A block stands for all before it: whoever holds one holds those before it, too.
        mine = () if ask.conversation.running else ask.conversation.prompts

        def is_own(at: int) -> bool:
            block, times = ask.blocks[at], 0
            for blocks in mine:
                times += at < len(blocks) and blocks[at] == block
            return self.held[block] <= times

        return ask.tokens - BLOCK * bisect_left(range(len(ask.blocks)), True, key=is_own)

    def admits(self, ask: OrderedCall) -> bool:
        """True if the newcomer of *ask* fits, as long as all go on as is expected of them."""
        if self.is_stale:
            self.is_stale = False
            for conversation in self.inside:
                self._expect(conversation)
        more = self.own_tokens(ask) + _to_come(ask.conversation, ask.tokens)
        return not self.inside or self.used + self.to_come + more <= self.tokens

    def continues(self, ask: OrderedCall) -> bool:
        """True if *ask* fits beside those that run, and those before it that hold room."""
        own, conversation = self.own_tokens(ask), ask.conversation
        most = FULL * self.tokens
        if not self.running or self.used + own <= most:
            return True

        before = (
            other.own
            for other in self.inside
            if other.running > 0
            or (other is not conversation and _rank(other) < _rank(conversation))
        )
        return own + sum(before) <= most

    def enter(self, ask: OrderedCall) -> None:
        """Take room for *ask*, which goes now."""
        conversation, own = ask.conversation, self.own_tokens(ask)
        ask.is_let_in = True
        self.running += 1
        if not conversation.running:  # a turn begins
            kind = conversation.kind
            self._release(conversation)
            if conversation.turn:
                growth = ask.tokens - conversation.size
                kind.growth = (
                    growth if kind.growth is None else (1 - NEWS) * kind.growth + NEWS * growth
                )
            conversation.size = ask.tokens
            conversation.turn += 1
            kind.longest = max(kind.longest, conversation.turn)
            self._check(kind)
        if self.tokens < inf:
            conversation.prompts.append(ask.blocks)
            self.held.update(ask.blocks)
        tail = ask.tokens - BLOCK * len(ask.blocks)
        conversation.own, conversation.tail, self.tails = (
            conversation.own + own,
            conversation.tail + tail,
            self.tails + tail,
        )
        conversation.running += 1
        self.inside[conversation] = None
        self._expect(conversation)

    def _check(self, kind: Kind) -> None:
        """Count anew if more, or fewer, turns are expected than are assumed."""
        expected = kind.expected()
        if abs(expected - kind.assumed) > NEWS * kind.assumed:
            kind.assumed, self.is_stale = expected, True

    def end(self, conversation: CachedConversation) -> None:
        """Count *conversation* among those of its kind that have ended."""
        if conversation.turn:
            conversation.kind.ended += 1
            conversation.kind.turns += conversation.turn
            self._check(conversation.kind)
        self.leave(conversation)

    def leave(self, conversation: CachedConversation) -> None:
        """Keep no room for *conversation*."""
        self._release(conversation)
        self.to_come -= conversation.to_come
        conversation.to_come = 0.0
        self.inside.pop(conversation, None)
        self.resting.pop(conversation, None)

    def _release(self, conversation: CachedConversation) -> None:
        for blocks in conversation.prompts:
            less(self.held, blocks)
        conversation.prompts.clear()
        self.tails -= conversation.tail
        conversation.own = conversation.tail = 0

    def _expect(self, conversation: CachedConversation) -> None:
        tokens = _to_come(conversation, conversation.size)
        self.to_come += tokens - conversation.to_come
        conversation.to_come = tokens


def _to_come(conversation: CachedConversation, size: int) -> float:
    """The tokens to come for which room is kept, if the latest turn of it has *size*."""
    kind = conversation.kind
    growth, turns = size if kind.growth is None else kind.growth, 0.0
    if not conversation.is_last:  # those that are expected after the present one, or the first
        turns = min(max(kind.expected(), conversation.least), conversation.most)
        turns = max(0.0, turns - max(1, conversation.turn))
    return PART * growth * turns


def _rank(conversation: CachedConversation) -> float:
    return inf if conversation.rank is None else conversation.rank


class _Queue:
    """Conversations that wait, by rank and by time; *wait_s* seconds are too long."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self.since: dict[CachedConversation, float] = {}
        self._by_rank: list[tuple[tuple[float, ...], CachedConversation]] = []
        self._by_time: list[tuple[float, int, CachedConversation]] = []
        self._numbers = count()

    def __iter__(self) -> Iterator[CachedConversation]:
        """All of them, by rank."""
        ranked = dict.fromkeys(
            conversation for _, conversation in sorted(self._by_rank, key=itemgetter(0))
        )
        return (conversation for conversation in ranked if conversation in self.since)

    def add(self, conversation: CachedConversation, rank: tuple[float, ...]) -> None:
        """Add *conversation*, which waits as long as its first call; a smaller *rank* is first."""
        number, since = next(self._numbers), conversation.waiting[0].since
        self.since[conversation] = since
        heappush(self._by_rank, ((*rank, number), conversation))
        heappush(self._by_time, (since, number, conversation))

    def first(self) -> CachedConversation | None:
        """The first by rank."""
        heap = self._by_rank
        while heap and heap[0][-1] not in self.since:
            heappop(heap)
        return heap[0][-1] if heap else None

    def overdue(self, now: float) -> CachedConversation | None:
        """The one that waits longest, if that is too long *now*."""
        heap = self._by_time
        while heap and self.since.get(heap[0][-1]) != heap[0][0]:
            heappop(heap)
        return heap[0][-1] if heap and heap[0][0] + self._wait_s <= now else None

    def due(self) -> float:
        """The time from which the one that waits longest is overdue."""
        self.overdue(-inf)
        return self._by_time[0][0] + self._wait_s if self._by_time else inf

    def remove(self, conversation: CachedConversation) -> None:
        """Remove *conversation*, if it is there."""
        self.since.pop(conversation, None)


class Line:
    """The calls of one run that wait for *room*; *look* is called when ``next`` may have one.

    *look* returns true if ``next`` will be asked. ``running`` calls of the run have room, and
    ``size`` wait.
    """

    def __init__(self, room: Room, look: Callable[[], bool]) -> None:
        self.room, self.look = room, look
        self._inside, self._new = _Queue(WAIT_S), _Queue(LONG_WAIT_S)
        self.running = self.size = 0
        # By adapter, the place of the newcomers that wait for it, none of which was sent yet.
        self._groups: dict[object, int] = {}
        self._numbers = count()
        room.lines.add(self)

    def __iter__(self) -> Iterator[OrderedCall]:
        """The calls that wait, in the order in which they would go now."""
        for conversation in (*self._inside, *self._new):
            yield from conversation.waiting

    def add(self, ask: OrderedCall) -> None:
        """Note that *ask* waits."""
        conversation = ask.conversation
        conversation.open += 1
        self.room.resting.pop(conversation, None)  # room is kept for it as long as it has a call
        conversation.waiting.append(ask)
        self.size += 1
        if len(conversation.waiting) == 1:
            self._wait(conversation)

    def _wait(self, conversation: CachedConversation) -> None:
        """Have *conversation* stand in line by its next call."""
        priority = conversation.waiting[0].call.priority
        if conversation.rank is not None:
            self._inside.add(conversation, (-priority, conversation.rank))
        else:  # the shortest first, where their graphs tell how long they are
            self._new.add(
                conversation, (-priority, conversation.length, self._place(conversation.waiting[0]))
            )

    def _place(self, ask: OrderedCall) -> int:
        """The place of *ask* in line; those of one adapter go together.

        A server has few adapters at once and changes them between batches. Once the first of a
        group was sent, whoever comes then stands behind all others.
        """
        number, adapter = next(self._numbers), _adapter_of(ask)
        return number if adapter is None else self._groups.setdefault(adapter, number)

    def let_in(self, ask: OrderedCall) -> None:
        """Count *ask*, which was sent before it was known that others come."""
        conversation = ask.conversation
        conversation.open += 1
        self._enter(ask)

    def _enter(self, ask: OrderedCall) -> None:
        if ask.conversation.rank is None:
            ask.conversation.rank = next(self.room.numbers)
        self.running += 1
        self.room.enter(ask)

    def next(self, now: float) -> OrderedCall | None:
        """The next call that goes; ``None`` if none waits, or there is no room for it.

        One that has ended while it waited takes no room.
        """
        room = self.room
        room.lapse(now)
        conversation = self._inside.overdue(now)  # it goes whether or not it fits
        if conversation is None and room.overdue_let_in + LONG_WAIT_S <= now:
            conversation = self._new.overdue(now)
            if conversation is not None:
                room.overdue_let_in = now
        if conversation is None:
            conversation = self._next_fitting()
        if conversation is None:
            if self.size:
                room.waiting[self] = None
            return None
        room.waiting.pop(self, None)
        (self._new if conversation.rank is None else self._inside).remove(conversation)
        ask = conversation.waiting.popleft()
        if self._groups and conversation.rank is None:
            self._groups.pop(_adapter_of(ask), None)
        self.size -= 1
        if ask.call.outcome is None:
            self._enter(ask)
        if conversation.waiting:
            self._wait(conversation)
        return ask

    def _next_fitting(self) -> CachedConversation | None:
        """The next one of those that were let in, or the next newcomer, if it fits."""
        queue = self._inside if self._inside.since else self._new
        conversation = queue.first()
        if conversation is None or conversation.waiting[0].call.outcome is not None:
            return conversation
        if queue is self._inside:
            fits = self.room.continues(conversation.waiting[0])
        elif self.running and any(line.look() for line in [*self.room.waiting] if not line.running):
            fits = False  # another run, which has nothing with the server, goes first
        else:
            fits = self.room.admits(conversation.waiting[0])
        return conversation if fits else None

    def over(self, ask: OrderedCall, now: float) -> None:
        """Note that *ask*, which was returned by ``next``, is over: answered, or not to be."""
        conversation, room = ask.conversation, self.room
        conversation.open -= 1
        if ask.is_let_in:
            self.running -= 1
            room.running -= 1
            conversation.running -= 1
        if not conversation.open and conversation in room.inside:
            room.resting[conversation] = now

    def look_at(self) -> float:
        """The time at which ``next`` may have a call though nothing has happened."""
        room = self.room
        new = max(self._new.due(), room.overdue_let_in + LONG_WAIT_S)
        lapse = next(iter(room.resting.values()), inf) + room.tokens / PREFILL
        return min(self._inside.due(), new, lapse)

    def sort(self) -> None:
        """Sort the newcomers anew, as more is known of their turns."""
        before, self._new = self._new, _Queue(LONG_WAIT_S)
        for conversation in before:
            self._wait(conversation)

    def leave(self, conversations: Iterable[CachedConversation]) -> None:
        """Keep no room for *conversations*, all those of the run, which is over."""
        room = self.room
        for conversation in conversations:
            room.running -= conversation.running
            room.leave(conversation)
        self.running = self.size = 0
        self._inside, self._new = _Queue(WAIT_S), _Queue(LONG_WAIT_S)
        room.lines.discard(self)
        room.waiting.pop(self, None)
        room.tell()


def _adapter_of(ask: OrderedCall) -> object:
    """The LoRA adapter that *ask* is for, by its name; ``None`` for the model itself."""
    request = getattr(ask.call, "request", None)
    extra = request.sampling.extra if request is not None else ()
    return next((value for name, value in extra if name == "lora"), None) if extra else None
