"""``Lock``: one program at a time, with a wait that the runtime can see.

Invariant: the lock goes to those who asked in the order of asking.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from appl.runtime.concurrency.fiber import Strand, arrive, strand_here, wait
from appl.runtime.concurrency.promise import Promise, Value


class _Place(Promise):
    """A place in the queue of a lock; done when the lock is this program's."""

    __slots__ = ("lock",)

    def __init__(self, lock: Lock) -> None:
        super().__init__(lock.name, None)
        self.lock = lock

    def blockers(self) -> Iterable[Promise]:
        owner = self.lock.owner
        waits = owner.waits if owner is not None else None
        return (waits,) if waits is not None else ()


class Lock:
    """A lock that programs may hold over a wait, as ``with lock:`` or ``async with lock:``."""

    def __init__(self, name: str = "lock") -> None:
        self.name = name
        self.owner: Strand | None = None
        self._held = False
        self._queue: deque[_Place] = deque()
        self._guard = threading.Lock()

    def _take(self) -> _Place | None:
        # The guard is held for a few lines only, never over a wait: programs of one thread would
        # block each other with it.
        with self._guard:
            if not self._held:
                self._held = True
                return None
            place = _Place(self)
            self._queue.append(place)
            return place

    def acquire(self) -> None:
        """Wait until the lock is free, and take it."""
        place = self._take()
        if place is not None:
            self._wait(place)
        self.owner = strand_here()

    def _wait(self, place: _Place) -> None:
        try:
            wait(place)
        except BaseException:
            self._give_up(place)
            raise

    def _give_up(self, place: _Place) -> None:
        with self._guard:
            if place in self._queue:
                self._queue.remove(place)
                return
        # It was taken out of the queue: the lock is this program's already, and goes on to the
        # next one, or all behind it would wait for ever.
        self.release()

    def release(self) -> None:
        """Give the lock to the next in the queue."""
        with self._guard:
            self.owner = None
            # Handed over directly: with a moment in which it is free, a program that runs now could
            # take it before the one that waited longest.
            place = self._queue.popleft() if self._queue else None
            self._held = place is not None
        if place is not None:
            place.settle(Value(None))

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    async def __aenter__(self) -> Lock:
        place = self._take()
        if place is not None:
            try:
                await arrive(place)
            except BaseException:
                self._give_up(place)
                raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self.release()
