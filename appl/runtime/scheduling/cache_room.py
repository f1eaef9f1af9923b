"""The room in a server's cache, for all runs of the process that ask the server.

Two runs that each count the cache as wholly theirs overfill it together. So there is one count of
it, and one order of the calls that wait for room: first those of a run that has nothing with the
server, so that each run goes on however much the others have to do; then by priority and age.

Invariant: everything here runs on the I/O loop. While a run waits for room, something is with the
server whose end wakes the first run that waits, or the first has been woken. A run that is woken
and cannot look is passed over, and looks by itself when it can.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Iterator
from itertools import count
from math import inf
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from appl.backend import PrefixCaching, SharesCache, offers
from appl.runtime.concurrency.loop_thread import LoopThread, io_thread
from appl.runtime.scheduling.cache_share import CacheLease, CacheShare
from appl.runtime.scheduling.policy import Policy
from appl.runtime.scheduling.prefixes import Cache, Footprint
from appl.runtime.scheduling.residency import ROOM, CachedConversation, Place, Residency
from appl.runtime.scheduling.server_times import times_of
from appl.runtime.scheduling.timers import Clock, LoopClock
from appl.runtime.scheduling.turn_forecast import KindHistory, TurnMemory

RoomTurn = tuple[bool, int, Place]
"""True if the run has something with the server, the negative priority, the place; smallest first.
"""


class RoomUser(Protocol):
    """The part of a run that asks the server.

    ``admitted`` calls of it have room; none begins while it is ``paused``.
    """

    admitted: int
    paused: bool

    def __len__(self) -> int:
        """The number of its calls that wait for room, or for their end to be noted."""

    def turn(self) -> RoomTurn | None:
        """The turn of its next call that had no room; ``None`` when there is none."""

    def look(self) -> bool:
        """Look soon for calls that may go; false when it cannot at present."""


class Room:
    """The room in the cache of *whose* server, by *clock*, and the runs that wait for it.

    *foresees* is the switch of ``Residency``; ``waiting`` are the runs whose next call has no room.
    ``uncounted`` tokens are taken by calls that are not counted (see ``UncountedCalls``).
    """

    def __init__(
        self, whose: object = None, clock: Clock | None = None, foresees: bool = True
    ) -> None:
        self._shared = whose, clock, io_thread()  # as long as this is there, so is what it is for
        self.cache = Cache()
        self._histories = _histories_of(whose)
        self.residency = Residency(kinds=self._histories, foresees=foresees, times=times_of(whose))
        self._kept: dict[CachedConversation, Footprint] = {}
        self.numbers: Iterator[int] = count()
        self.uncounted = self._told = 0
        self.users: WeakSet[RoomUser] = WeakSet()
        self.waiting: dict[RoomUser, None] = {}
        self._tokens, self._mine = 0, 0.0
        self._share: CacheShare | None = None

    def join(self, user: RoomUser) -> None:
        """Add *user*, which asks for room from now on."""
        self.users.add(user)

    def leave(self, user: RoomUser) -> None:
        """Remove *user*, which has given back its room; the last one forgets the server."""
        self.users.discard(user)
        self.waiting.pop(user, None)
        if not self.users:
            _forget(self)  # the server may have been restarted when it is asked the next time
            share, self._share = self._share, None
            if share is not None:
                share.give_back()
        self.tell()

    def measure(self, tokens: int) -> None:
        """Note that the cache has *tokens*, a share of which is for this process."""
        self._tokens = tokens
        self._touch()
        self._fit()

    # -- beside other processes

    def divide(self, lease: CacheLease) -> None:
        """Take but a share of the cache from now on, under *lease*."""
        clock = self._shared[1] or LoopClock()
        self._share = CacheShare(lease, clock, self._wanted, self._changed)

    def _wanted(self) -> float:
        """The tokens that are wanted of the cache; all of them while somebody waits."""
        if self.waiting:
            return inf
        counted = max(self.residency.held, self.residency.profile.peak)
        return counted + (self.uncounted if self._told else 0)  # nothing for one call alone

    def _changed(self) -> None:
        self._fit()
        self._wake()
        if self.waiting:
            self._touch()  # another process may leave, or be killed, of which nobody tells

    def _fit(self) -> None:
        share = self._share
        self._mine = self._tokens if share is None else share.of(self._tokens)
        # What is not counted is taken for the most that it may become.
        self.residency.tokens = max(self._mine - self.uncounted, self._mine / 2)

    def _touch(self) -> None:
        if self._share is not None:
            self._share.touch()

    # -- beside other runs

    def keep(self, who: CachedConversation, each: Footprint, now: float) -> None:
        """Keep the prompt *each* of *who*, which is busy elsewhere, as long as that pays."""
        self._kept[who] = each
        self.residency.rest(who, each.own, now)

    def release(self, who: CachedConversation) -> None:
        """Release what is kept for *who*, if anything is."""
        each = self._kept.pop(who, None)
        if each is not None:
            self.cache.release(each)
            self.residency.drop(who)

    def sweep(self, now: float) -> None:
        """Release what does not pay any more."""
        for who in self.residency.lapsed(now):
            self.release(who)

    def recall(self, memory: TurnMemory) -> None:
        """Learn from the runs in *memory*, as somebody has to wait for room; once a server."""
        memory.keep(self._histories)
        if self._histories.reading is None:
            io = io_thread()
            io.workers += 1  # which ``_recall`` counts back
            reading = self._recall(memory)
            self._histories.reading = io.loop.create_task(reading, context=contextvars.Context())

    async def _recall(self, memory: TurnMemory) -> None:
        # A slow disk holds up nobody: until the records are there, those who wait go on waiting.
        try:
            self.residency.recall(await asyncio.to_thread(memory.load))
        finally:
            io_thread().workers -= 1
        self.tell()

    @property
    def idle(self) -> bool:
        """True if nothing is with the server that comes to an end by itself."""
        # A paused run may have admitted calls that it does not begin: nothing of them ends.
        return not any(user.admitted and not user.paused for user in self.users)

    def takes(self, tokens: int, caching: PrefixCaching) -> bool:
        """Take *tokens* of the cache, uncounted; false if anything is counted, or short.

        One call goes in any case.
        """
        if self.cache.blocks or self.cache.tails:
            return False
        if self.uncounted and (whole := caching.cache_tokens) is not None:
            if self.uncounted > self._told:  # it has doubled, which other processes need to see
                self._told = 2 * self.uncounted
                self.measure(whole)
            if self.uncounted + tokens > ROOM * self._mine:
                return False
        self.uncounted += tokens
        return True

    def gives_back(self, tokens: int) -> None:
        """Give back *tokens* that were taken uncounted."""
        self.uncounted -= tokens
        if not self.uncounted:
            self._told = 0
        if self.waiting:
            self._fit()
            self.tell()

    def wait(self, user: RoomUser) -> None:
        """Note that the next call of *user* has no room."""
        self.waiting[user] = None
        self._touch()

    def others_wait(self, user: RoomUser) -> bool:
        """True if a run other than *user* waits for room."""
        return len(self.waiting) > (user in self.waiting)

    def is_turn(self, user: RoomUser, turn: RoomTurn) -> bool:
        """True if *user* goes next; if not, the one that does is woken."""
        # Those before it are asked to look. If none of them can at present (a paused run, say),
        # this one goes: otherwise all would wait for a run that does nothing.
        before = [each for at, each in self._turns() if at < turn and each is not user]
        return not any(each.look() for each in before)

    def tell(self) -> None:
        """Wake the run whose turn it is: there may be room, for other processes as well."""
        self._touch()
        self._wake()

    def _wake(self) -> None:
        if len(self.waiting) == 1:  # nobody else's turn is compared with its own
            (only,) = self.waiting
            if len(only):
                only.look()
            else:
                self.waiting = {}
        elif self.waiting:
            any(each.look() for _, each in self._turns())  # it ends at the first that can look

    def _turns(self) -> list[tuple[RoomTurn, RoomUser]]:
        """The runs that wait for room, each with its turn, the next one first."""
        turns = [(user.turn(), user) for user in self.waiting]
        self.waiting = {user: None for turn, user in turns if turn is not None}
        found = [(turn, user) for turn, user in turns if turn is not None]
        return sorted(found, key=lambda each: each[0])


class _Histories(dict[str, KindHistory]):
    """The histories by kind; *reading* adds those of earlier processes, once it is needed."""

    reading: asyncio.Task[None] | None = None


_histories: WeakKeyDictionary[object, _Histories] = WeakKeyDictionary()


def _histories_of(whose: object) -> _Histories:
    """The histories of the conversations with *whose* server, in all runs of this process."""
    return _Histories() if whose is None else _histories.setdefault(whose, _Histories())


open_rooms: WeakValueDictionary[tuple[int, ...], Room] = WeakValueDictionary()
_watching_forks = False


def _watch_forks() -> None:
    """Have a forked child forget all rooms: it has a loop of its own."""
    global _watching_forks
    if not _watching_forks:
        _watching_forks = True
        os.register_at_fork(after_in_child=open_rooms.clear)


def room_of(caching: PrefixCaching, policy: Policy, whose: object) -> Room:
    """The room in the cache of *caching*, shared by all runs that ask *whose* server.

    It is shared by runs of one clock only. The *policy* counts of the run that asks first.
    """
    clock, leases = policy.clock, policy.leases
    if whose is None:
        return Room(None, clock, policy.foresee)
    key = _key(whose, clock, io_thread())
    found = open_rooms.get(key)
    if found is None:
        _watch_forks()
        found = open_rooms[key] = Room(whose, clock, policy.foresee)
        if leases is not None and offers(caching, SharesCache):
            found.divide(leases.lease(caching.cache_address))
    return found


def _key(whose: object, clock: Clock | None, io: LoopThread) -> tuple[int, ...]:
    return id(whose), id(clock), id(io)


def _forget(room: Room) -> None:
    key = _key(*room._shared)
    if open_rooms.get(key) is room:
        del open_rooms[key]
