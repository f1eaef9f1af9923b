"""The room in a server's cache, for all runs of the process that ask the server.

Two runs that each count the cache as wholly theirs overfill it together. So there is one account of
it, and one order in which those go that wait for room: first a run of which nothing is with the
server, so that each goes on however much the others have to do; then by priority and age.

Invariant: everything here runs on the I/O loop. While somebody waits for room, something is with
the server whose end tells the first of them, or the first has been told. Who is told and cannot
look is passed over, and looks by himself when he can.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

from appl.runtime.concurrency.loop_thread import LoopThread, io_thread
from appl.runtime.scheduling.foresight import Age
from appl.runtime.scheduling.prefixes import Cache
from appl.runtime.scheduling.residence import Residents
from appl.runtime.scheduling.timers import Clock, LoopClock

Turn = tuple[bool, int, Age]
"""Whether the run has something with the server, the priority, negative, and the age: smaller goes
first."""


class Guest(Protocol):
    """A run's way to the server. Of its calls so many have room; none begins while ``paused``."""

    admitted: int
    paused: bool

    def turn(self) -> Turn | None:
        """When its next call goes that had no room; ``None`` when there is none."""

    def look(self) -> bool:
        """Look soon for what may go; false when it cannot at present."""


class Room:
    """The room in the cache of *whose* server, by *clock*, and who waits for it."""

    def __init__(self, whose: object = None, clock: Clock | None = None) -> None:
        self._shared = whose, clock, io_thread()  # as long as this is there, so is what it is for
        self.cache = Cache()
        self.residents = Residents(self.cache, clock or LoopClock())
        self.numbers: Iterator[int] = count()
        self._guests: WeakSet[Guest] = WeakSet()
        self._waiting: dict[Guest, None] = {}

    def join(self, guest: Guest) -> None:
        """*guest* asks for room from now on."""
        self._guests.add(guest)

    def leave(self, guest: Guest) -> None:
        """*guest* has given back what it had; the last one forgets what is known of the server."""
        self._guests.discard(guest)
        self._waiting.pop(guest, None)
        if not self._guests:
            _forget(self)
        self.tell()

    @property
    def idle(self) -> bool:
        """Whether nothing is with the server that comes to an end by itself."""
        return not any(guest.admitted and not guest.paused for guest in self._guests)

    def wait(self, guest: Guest) -> None:
        """The next call of *guest* has no room."""
        self._waiting[guest] = None

    def is_turn(self, guest: Guest, turn: Turn) -> bool:
        """Whether *guest* goes next; if not, who does is told."""
        if not self._waiting.keys() - {guest}:
            return True
        before = [each for at, each in self._turns() if at < turn and each is not guest]
        return not any(each.look() for each in before)

    def tell(self) -> None:
        """There may be room: whose turn it is looks for it."""
        if self._waiting:
            any(each.look() for _, each in self._turns())

    def _turns(self) -> list[tuple[Turn, Guest]]:
        """Who waits for room, the next one first."""
        if not self._waiting:
            return []
        turns = [(guest.turn(), guest) for guest in self._waiting]
        self._waiting = {guest: None for turn, guest in turns if turn is not None}
        found = [(turn, guest) for turn, guest in turns if turn is not None]
        return sorted(found, key=lambda each: each[0])


_rooms: WeakValueDictionary[tuple[int, ...], Room] = WeakValueDictionary()
_watching_forks = False


def _watch_forks() -> None:
    """A forked child has programs and a loop of its own, and knows nothing of the server."""
    global _watching_forks
    if not _watching_forks:
        _watching_forks = True
        os.register_at_fork(after_in_child=_rooms.clear)


def room_of(whose: object, clock: Clock | None) -> Room:
    """The room that all share who ask *whose* server and measure time with *clock*."""
    key = _key(whose, clock, io_thread())
    found = _rooms.get(key)
    if found is None:
        _watch_forks()
        found = _rooms[key] = Room(whose, clock)
    return found


def _key(whose: object, clock: Clock | None, io: LoopThread) -> tuple[int, ...]:
    return id(whose), id(clock), id(io)


def _forget(room: Room) -> None:
    key = _key(*room._shared)
    if _rooms.get(key) is room:
        del _rooms[key]
