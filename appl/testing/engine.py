"""An engine for tests of ``map(engine=…)``: workers that are threads, and die when told to.

Invariant: what passes between driver and worker is bytes, as with a real engine; a worker that was
lost sends nothing more.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable
from typing import Any

from appl.backend import Backend
from appl.engine.protocol import Listener, Worker
from appl.engine.station import Station
from appl.errors import WorkerLost
from appl.runtime.event import Instrument
from appl.runtime.run import Run
from appl.runtime.scheduling.lending import Lender
from appl.runtime.world import World

_held: dict[int, Any] = {}
_keys = itertools.count()


class Threads:
    """An engine whose workers are threads of this process.

    ``lose(worker)`` is called after each batch that number *worker* (from 0) has sent: true when it
    dies now, with all that it has not sent. ``hired`` are the workers so far.
    """

    def __init__(
        self,
        workers: int = 2,
        at_once: int = 4,
        tries: int = 3,
        lose: Callable[[int], bool] = lambda worker: False,
    ) -> None:
        self.workers, self.at_once, self.tries, self._lose = workers, at_once, tries, lose
        self.hired: list[Hand] = []

    def open(self) -> None:
        """Nothing is needed."""

    def close(self) -> None:
        """Wait for the threads of those that were not lost; the others were told to stop."""
        for hand in self.hired:
            hand.join()

    def hire(self, order: bytes, listener: Listener) -> Worker:
        """One more thread."""
        hand = Hand(len(self.hired), order, listener, self._lose)
        self.hired.append(hand)
        return hand

    @staticmethod
    def dumps(value: Any) -> bytes:
        """Pickled if that is possible, else kept here, as functions inside of tests are."""
        try:
            return pickle.dumps(value)
        except Exception:
            return pickle.dumps(_Kept(value))


class _Kept:
    """A value that stays where it is."""

    def __init__(self, value: Any) -> None:
        self.key = next(_keys)
        _held[self.key] = value

    def __reduce__(self) -> Any:
        return _kept, (self.key,)


def _kept(key: int) -> Any:
    return _held[key]


class Hand:
    """One worker: a thread, of which nothing is heard any more once it was killed."""

    def __init__(
        self, number: int, order: bytes, listener: Listener, lose: Callable[[int], bool]
    ) -> None:
        self._number, self._listener, self._lose = number, listener, lose
        self._lock = threading.RLock()
        self.lost = False
        self.sent = 0
        self._station = Station(order, self._heard)
        self._thread = threading.Thread(target=self._station.run, daemon=True)
        self._thread.start()

    def _heard(self, batch: bytes) -> None:
        with self._lock:
            if not self.lost:
                self.sent += 1
                self._listener.heard(self, batch)
                if self._lose(self._number):
                    self.kill()

    def tell(self, batch: bytes) -> None:
        """What the driver sends."""
        if not self.lost:
            self._station.receive(batch)

    def kill(self) -> None:
        """Nothing more is heard of it; the thread ends by itself."""
        with self._lock:
            if self.lost:
                return
            self.lost = True
            self._listener.lost(self, WorkerLost(f"worker {self._number} died"))
        self._station.receive(pickle.dumps([("cancel",)]))

    def join(self) -> None:
        """Wait for its end; of one that was lost nobody knows when that is."""
        if not self.lost:
            self._thread.join(10)


class Made:
    """A blueprint for tests: workers' runs with the backend that *make* returns."""

    def __init__(self, make: Callable[[], Backend], **options: Any) -> None:
        self._make, self._options = make, options

    def open(self, lender: Lender, instruments: list[Instrument], world: World) -> Made:
        """A run that asks *lender* for leave, in *world*."""
        options = {"instruments": instruments, "lender": lender, "world": world, **self._options}
        opened = Made(self._make)
        opened.run = Run(self._make(), **options)
        return opened

    run: Run

    def close(self) -> None:
        """Nothing is held."""
