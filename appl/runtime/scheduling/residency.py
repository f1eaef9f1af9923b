"""Residency: which conversations may be in a server's cache, and which go on first.

A cache that drops what was used least recently is bad for conversations that go on by turns and
are together larger than the cache: each has been dropped when its next turn comes. So a
conversation is let in while the largest expected sum of all contexts, at any one coming turn, fits.
Those that were let in go on before newcomers. The prompt of one that is busy elsewhere, with a
tool say, is kept as long as that pays. A newcomer's turn comes by its wait over the room and time
that it will take, so that short ones go first and nobody starves.

Invariant: nothing here reads a clock or does I/O; the scheduler and a simulator drive it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from math import log2
from typing import Any

from appl.runtime.scheduling.context_profile import Ahead, ContextProfile
from appl.runtime.scheduling.server_times import ServerTimes
from appl.runtime.scheduling.turn_forecast import LINGER, UNTOLD, KindHistory, TurnBounds

ROOM = 0.95
"""The share of the cache that newcomers are let in for."""

IDLE_ROOM = 1.14
"""The share that they are let in for while nobody is served: a server that rests serves nobody."""

PATIENCE = 2.5
"""The longest wait of one that was let in, as a multiple of the time to compute the cache."""

QUICKEST_S = 1 / 35_000
"""The least time to compute a token that counts: that of an 8B model on one H200.

The quicker a server is, the sooner prompts are dropped, and the later come the turns that find
nothing cached. On a simulated server of 90,000 tokens a second all would be done in 0.88 of the
time, but 99 of 100 turns would take up to 2.2 times as long.
"""

_FIRST_TURN_S = 1.0
_QUIET = 0.1
_MOMENT_S = 1e-3
_FEW = 64

Place = tuple[int, float]
"""The place in the order of going on: 0 and the rank; 1 and the negative urgency of a newcomer."""

_Class = tuple[int, str, int, int]


@dataclass(slots=True, eq=False)
class CachedConversation:
    """An activation that asks by turns: its *kind*, its *age*, and the size of its context.

    ``turn`` is the number of turns begun, ``rank`` its place in the order of letting in; it is
    known before where a conversation around it was let in. ``known`` are the sizes at coming turns
    where the program has said them, and ``last`` is true where none comes after them. ``told`` are
    the turns that it takes in all, as far as its graph tells. ``held``
    tokens are held for it; ``whole`` is its size with what it shares, ``growth`` what its latest
    turn has added. ``kept`` is the time until which tokens are held while it is ``resting``, busy
    elsewhere, and ``away`` once they are not; ``since`` is the time of its latest change. ``ahead``
    is what is expected of it, ``coming`` its size at the first turn there.
    """

    kind: str
    age: tuple[int, ...] = ()
    priority: int = 0
    rank: int | None = None
    size: float = 0.0
    whole: float = 0.0
    growth: float = 0.0
    turn: int = 0
    known: Sequence[float] = ()
    last: bool = False
    told: TurnBounds = UNTOLD
    running: bool = False
    resting: bool = False
    away: bool = False
    held: float = 0.0
    kept: float | None = None
    since: float = 0.0
    grown: float = 0.0
    ended: bool = False
    coming: float = 0.0
    ahead: Ahead | None = field(default=None, repr=False)

    @property
    def is_told(self) -> bool:
        """True if the program has said how it goes on."""
        return bool(self.known or self.last)

    def __lt__(self, other: CachedConversation) -> bool:
        return self.age < other.age


class Residency:
    """The account of all conversations of one server with a cache of so many *tokens*.

    ``recompute_s`` is the time to compute the whole cache, ``held`` the tokens held for all.
    *kinds* is the history of earlier conversations. *foresees* is the switch: without it newcomers
    are let in by what is used now. *times* are those of the server.
    """

    def __init__(
        self,
        tokens: float = 0.0,
        kinds: dict[str, KindHistory] | None = None,
        foresees: bool = True,
        times: ServerTimes | None = None,
    ) -> None:
        self.tokens, self.foresees = tokens, foresees
        self.times = ServerTimes() if times is None else times
        self.kinds = {} if kinds is None else kinds
        self.profile = ContextProfile()
        self.held = 0.0
        self.running = 0
        self._inside: dict[CachedConversation, None] = {}
        self._worst: list[tuple[int, int, float, CachedConversation]] = []
        self._lapses: list[tuple[float, int, CachedConversation]] = []
        self._ranks, self._numbers = count(), count()
        self._stale = False
        self._turn_s = _FIRST_TURN_S

    @property
    def token_s(self) -> float:
        """The seconds to compute one token of a prompt, as measured."""
        return max(self.times.prompt_s, QUICKEST_S)

    @property
    def recompute_s(self) -> float:
        """The seconds to compute the whole cache anew."""
        return self.tokens * self.token_s

    # -- what is expected

    def kind(self, name: str) -> KindHistory:
        """The history of the kind *name*."""
        try:
            return self.kinds[name]
        except KeyError:
            found = self.kinds[name] = KindHistory()
            return found

    def recall(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Add the *records* of earlier conversations; those that are none are left out."""
        for name, record in records.items():
            with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                self.kind(name).add(record)
        self._stale = True

    def ahead(self, who: CachedConversation, size: float) -> Ahead:
        """The size of *who* at each coming turn with its chance; *size* at the first of them."""
        if who.is_told:
            return _said([size, *(max(size, each) for each in who.known)])
        history, growth = self.kind(who.kind), self._growth(who, size)
        turns = history.course(who.turn - who.running, who.told).turns
        return [(size + growths * growth, chance) for growths, chance in turns]

    def _growth(self, who: CachedConversation, size: float) -> float:
        """The tokens that a turn adds to *who*: as its own and others of its kind have shown."""
        usual = self.kind(who.kind).growth
        if usual is None:
            return max(size, who.whole)  # nobody has had a second turn: as much as the first
        return (2 * usual + who.grown) / (1 + max(1, who.turn))

    def area(self, who: CachedConversation) -> float:
        """The room that the newcomer *who* will take, times the seconds for which it takes it."""
        if who.is_told:
            expected = sum(size * chance for size, chance in self.ahead(who, who.size))
        else:
            course = self.kind(who.kind).course(0, who.told)
            expected = who.size * course.chances + self._growth(who, who.size) * course.growths
        return max(1.0, expected * self.turn_s(who))

    def alone_s(self, who: CachedConversation) -> float:
        """The seconds that the newcomer *who* takes if it need never wait."""
        if who.is_told:
            turns = 1.0 + len(who.known)
        else:
            turns = self.kind(who.kind).course(0, who.told).chances - LINGER
        return turns * self.turn_s(who)

    def turn_s(self, who: CachedConversation) -> float:
        """The seconds from one turn of *who* to the next."""
        return self._turn_s + self.kind(who.kind).mean_gap_s()

    # -- who may go

    def admits(
        self, who: CachedConversation, size: float, used: float, decisive: bool = False
    ) -> bool:
        """True if a newcomer with *size* tokens of its own may be let in besides *used* tokens.

        The *decisive* one may also go if to compute again what does not fit is quicker than to wait
        until it fits: all are done when it is. Others would be slowed down for nothing.
        """
        room = (ROOM if self.running else IDLE_ROOM) * self.tokens
        if not self.foresees:
            return not self.running or used + size <= room
        if not self._inside:
            return True  # nobody is served by its waiting
        if self._stale:
            self._refresh()
        room -= max(0.0, used - self.held)  # shared beginnings, once
        ahead = self.ahead(who, size)
        if self.profile.fits(ahead, room):
            return True
        if not decisive:
            return False
        again_s = self.profile.overflow(ahead, room) * self.token_s
        return again_s <= self.profile.delay(ahead, room) * self.turn_s(who)

    def _refresh(self) -> None:
        """Count all anew, as what is expected of them has changed much."""
        self._stale = False
        self.profile.clear()
        for who in self._inside:
            if who.ahead is None or not who.is_told:
                who.ahead = self.ahead(who, who.coming)
            self.profile.add(who.ahead)

    def make_way(self, who: CachedConversation, now: float) -> CachedConversation | None:
        """The conversation busy elsewhere that gives way to *who* first; ``None`` if none does.

        If *who* has waited for too long, the two exchange their ranks: otherwise it would lose its
        room again at once, and its whole prompt would be computed for each of its turns.
        """
        while self._worst and self._worst[0][-1].kept != self._worst[0][-2]:
            heappop(self._worst)
        if not self._worst:
            return None
        worst = self._worst[0][-1]
        mine = who.rank is not None and (worst.rank or 0) > who.rank
        if self.is_late(who, now):
            if not mine:
                who.rank, worst.rank = worst.rank, who.rank
            return worst
        return worst if mine or not self.running else None

    def is_late(self, who: CachedConversation, now: float) -> bool:
        """True if *who* was let in and has waited for too long since."""
        return who.rank is not None and now - who.since > PATIENCE * self.recompute_s

    # -- what happens

    def ask(self, who: CachedConversation, size: float, whole: float, now: float) -> None:
        """Note that *who* is ready for its next turn, with *size* tokens of its own of *whole*."""
        if who.running:
            return
        who.growth = whole - who.whole if who.turn else 0.0
        who.whole = whole
        if who.turn:
            self.kind(who.kind).paused(now - who.since)
            self._come_back(who)
        if who.rank is None:
            who.size = size
        elif who.ahead is None:
            self._expect(who, size)
        who.since = now

    def begin(self, who: CachedConversation, size: float, now: float) -> None:
        """Let *who* go with a prompt and answer of *size* tokens of its own."""
        if who.rank is None:
            who.rank = next(self._ranks)
        if not who.running:
            self._count(who)
        who.running, who.kept, who.since = True, None, now
        self._hold(who, size)
        self._expect(who, size)

    def _count(self, who: CachedConversation) -> None:
        self._stale |= self.kind(who.kind).begin(who.turn, who.growth)
        who.grown += who.growth
        who.turn += 1
        self.running += 1

    def rest(self, who: CachedConversation, size: float, now: float) -> None:
        """Note that *who*, answered, is busy elsewhere; its *size* tokens are kept for a while."""
        self._stop(who)
        who.resting = True
        self._turn_s += 0.1 * (now - who.since - self._turn_s)
        who.kept, who.since = now + self.kind(who.kind).keep_s(self.recompute_s), now
        self._hold(who, size)
        who.coming = size + self._growth(who, size)
        self._plan_again(who)
        heappush(self._worst, (-(who.rank or 0), next(self._numbers), who.kept, who))
        heappush(self._lapses, (who.kept, next(self._numbers), who))
        if len(self._worst) > _FEW + 2 * len(self._inside):
            self._tidy()

    def learn(self, who: CachedConversation, known: Sequence[float]) -> None:
        """Note the sizes of *who* at its coming turns, which the program has said meanwhile."""
        who.known = known
        if who.ahead is not None:
            self._plan_again(who)

    def tell(self, who: CachedConversation, told: TurnBounds) -> None:
        """Note the turns that *who* takes in all, as its graph tells them."""
        if told != who.told:
            who.told = told
            if who.ahead is not None:
                self._plan_again(who)

    def shrink(self, who: CachedConversation, tokens: float) -> None:
        """Note that *tokens* fewer are held for *who*, of which other calls are under way."""
        self._hold(who, max(0.0, who.held - tokens))
        self._expect(who, who.held)

    def drop(self, who: CachedConversation) -> None:
        """Note that no room is kept for *who*, which is busy elsewhere."""
        self._stop(who)
        who.kept = None
        self._hold(who, 0.0)
        self._plan(who, None)

    def end(self, who: CachedConversation, finished: bool = True) -> None:
        """Forget *who*; unless it *finished*, its end says nothing of others."""
        if who.ended:
            return
        self.drop(who)
        self._come_back(who)
        who.ended = True
        if finished:
            self._stale |= self.kind(who.kind).end(who.turn)

    def _come_back(self, who: CachedConversation) -> None:
        self.kind(who.kind).away -= who.away
        who.resting = who.away = False

    def lapsed(self, now: float) -> Iterator[CachedConversation]:
        """Those for which it does not pay any more to keep room; each is dropped."""
        while (at := self.next_lapse()) is not None and at <= now:
            who = heappop(self._lapses)[-1]
            self.drop(who)
            if who.resting:  # not if it waits for its turn
                who.away = True
                self.kind(who.kind).away += 1
            yield who

    def next_lapse(self) -> float | None:
        """The time at which the next kept room lapses; ``None`` if none is kept."""
        while self._lapses and self._lapses[0][-1].kept != self._lapses[0][0]:
            heappop(self._lapses)
        return self._lapses[0][0] if self._lapses else None

    def _tidy(self) -> None:
        """Forget what is in the heaps of those that are not kept any more."""
        self._worst = [each for each in self._worst if each[-1].kept == each[-2]]
        self._lapses = [each for each in self._lapses if each[-1].kept == each[0]]
        heapify(self._worst)
        heapify(self._lapses)

    def _stop(self, who: CachedConversation) -> None:
        self.running -= who.running
        who.running = False

    def _hold(self, who: CachedConversation, tokens: float) -> None:
        """Count *tokens* as held for *who*."""
        self.held += tokens - who.held
        who.held = tokens
        who.size = tokens or who.size

    def _expect(self, who: CachedConversation, size: float) -> None:
        """Expect *who* to go on with *size* tokens at the first coming turn."""
        who.coming = size
        self._plan(who, self.ahead(who, size))

    def _plan_again(self, who: CachedConversation) -> None:
        if who.kept is not None and who.is_told:
            self._plan(who, _said([max(who.held, each) for each in who.known]))
        else:
            self._expect(who, who.coming)

    def _plan(self, who: CachedConversation, ahead: Ahead | None) -> None:
        """Plan room for *who* as *ahead* says; ``None``: none at present."""
        if who.ahead is not None:
            self.profile.add(who.ahead, -1)
        who.ahead = ahead
        if ahead is None:
            self._inside.pop(who, None)
        else:
            self.profile.add(ahead)
            self._inside[who] = None


class WaitingLine:
    """The conversations of one run that wait for room in *residency*.

    Those that were let in go first, by rank. Newcomers of a kind and size go by age; between kinds
    decides the wait over the room and time to be taken.
    """

    def __init__(self, residency: Residency) -> None:
        self.residency = residency
        self._returning: dict[CachedConversation, None] = {}
        self._ranked: list[tuple[int, int, int, CachedConversation]] = []
        self._new: dict[_Class, list[CachedConversation]] = {}
        self._outside: dict[CachedConversation, None] = {}
        self._numbers = count()
        self._arrived = float("-inf")

    def __len__(self) -> int:
        return len(self._returning) + len(self._outside)

    def __contains__(self, who: CachedConversation) -> bool:
        return who in self._returning or who in self._outside

    def __iter__(self) -> Iterator[CachedConversation]:
        yield from self._returning
        yield from self._outside

    def add(self, who: CachedConversation, now: float) -> None:
        """Have *who* wait."""
        if who in self:
            return
        if who.rank is not None:
            self._returning[who] = None
            heappush(self._ranked, (-who.priority, who.rank, next(self._numbers), who))
            return
        self._outside[who] = None
        self._arrived = now
        key = -who.priority, who.kind, len(who.known), int(2 * log2(max(1.0, who.size)))
        heappush(self._new.setdefault(key, []), who)

    def remove(self, who: CachedConversation) -> None:
        """*who* waits no longer."""
        self._returning.pop(who, None)
        self._outside.pop(who, None)

    def next(self, now: float) -> CachedConversation | None:
        """The conversation that goes next if it fits; those that were let in before newcomers."""
        found = self._first_back(now)
        if found is not None and all(-key[0] <= found.priority for key in self._new):
            return found
        new = self._newcomer(now)
        return found if new is None or (found and new.priority <= found.priority) else new

    def place(self, who: CachedConversation, now: float) -> Place:
        """The place of *who* among those of other runs."""
        return (0, who.rank) if who.rank is not None else (1, -self._urgency(now)(who))

    def _first_back(self, now: float) -> CachedConversation | None:
        while self._ranked and self._ranked[0][-1] not in self._returning:
            heappop(self._ranked)
        if not self._ranked:
            return None
        longest = next(iter(self._returning))
        return longest if self.residency.is_late(longest, now) else self._ranked[0][-1]

    def _newcomer(self, now: float) -> CachedConversation | None:
        heads = self._heads()
        if len(heads) < 2:
            return heads[0] if heads else None
        return self.decisive(now) or max(heads, key=self._urgency(now))

    def _urgency(self, now: float) -> Callable[[CachedConversation], float]:
        return lambda who: (now - who.since + _MOMENT_S) / self.residency.area(who)

    def _heads(self) -> list[CachedConversation]:
        """The oldest newcomer of each class, of the highest priority among them."""
        heads = [head for key in list(self._new) if (head := self._head(key)) is not None]
        most = max((head.priority for head in heads), default=0)
        return [head for head in heads if head.priority == most]

    def _head(self, key: _Class) -> CachedConversation | None:
        those = self._new[key]
        while those and those[0] not in self._outside:
            heappop(those)
        if those:
            return those[0]
        del self._new[key]
        return None

    def decisive(self, now: float) -> CachedConversation | None:
        """The newcomer that takes as long alone as everything that is left, if no more come."""
        residency = self.residency
        if now - self._arrived <= _QUIET * residency.recompute_s:
            return None
        heads = self._heads()
        if not heads:
            return None
        longest = max(heads, key=residency.alone_s)
        left = residency.profile.total * residency.turn_s(longest)
        left += sum(len(those) * residency.area(those[0]) for those in self._new.values())
        return longest if residency.alone_s(longest) * ROOM * residency.tokens >= left else None


def _said(sizes: Sequence[float]) -> Ahead:
    """The *sizes* at turns that are certain; room is taken for one turn more (see ``LINGER``)."""
    found = [(size, 1.0) for size in sizes]
    return [*found, (sizes[-1], LINGER)] if sizes else found
