"""An engine for tests of ``map(engine=…)``: its workers are threads, which a test can kill.

Invariant: driver and worker exchange bytes, as with a real engine. A lost worker sends nothing
more.
"""

from __future__ import annotations

import itertools
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

from appl.errors import WorkerLost
from appl.parts.engine.protocol import Listener, Worker
from appl.parts.engine.worker_process import WorkerProcess

_held: dict[int, object] = {}
_keys = itertools.count()


class Threads:
    """An engine whose workers are threads of this process.

    ``lose(worker)`` is called after each batch that worker number *worker* (from 0) has sent; if it
    returns true, the worker dies now, with everything it has not sent. ``hired`` are the workers so
    far. Only the first *room* of them ever start, as on a cluster whose lost nodes are not
    replaced: the others are lost once no other worker is left.
    """

    def __init__(
        self,
        workers: int = 2,
        at_once: int = 4,
        tries: int = 3,
        lose: Callable[[int], bool] = lambda worker: False,
        room: float = math.inf,
    ) -> None:
        self.workers, self.at_once, self.tries, self._lose = workers, at_once, tries, lose
        self._room = room
        self.hired: list[ThreadWorker] = []

    def open(self) -> None:
        """Do nothing: threads need no preparation."""

    def close(self) -> None:
        """Wait for the threads of workers that were not lost; lost ones were told to stop."""
        for worker in self.hired:
            worker.join()

    def hire(self, setup: bytes, listener: Listener) -> Worker:
        """Start one more thread."""
        starts = len(self.hired) < self._room
        worker = ThreadWorker(self, len(self.hired), setup, listener, starts)
        self.hired.append(worker)
        self.died()
        return worker

    def dies(self, number: int) -> bool:
        """True if worker *number* dies now."""
        return self._lose(number)

    def died(self) -> None:
        """Lose the workers that wait for a place if all others are lost."""
        alive = [worker for worker in self.hired if not worker.lost]
        if not any(worker.starts for worker in alive):
            for worker in alive:
                worker.kill("it did not start in time")

    @staticmethod
    def dumps(value: object) -> bytes:
        """Pickle *value* if possible, otherwise keep it here, as for functions inside of tests."""
        try:
            return pickle.dumps(value)
        except Exception:
            return pickle.dumps(_LocalValue(value))


class _LocalValue:
    """A value that stays in this process."""

    def __init__(self, value: object) -> None:
        self.key = next(_keys)
        _held[self.key] = value

    def __reduce__(self) -> Any:
        return _cached_object, (self.key,)


def _cached_object(key: int) -> object:
    return _held[key]


class ThreadWorker:
    """One worker: a thread, which is not listened to any more once it is killed.

    It starts if it *starts*; if not, it waits for a place.
    """

    def __init__(
        self, engine: Threads, number: int, setup: bytes, listener: Listener, starts: bool
    ) -> None:
        self._engine, self._number, self._listener, self.starts = engine, number, listener, starts
        self._lock = threading.RLock()
        self.lost = False
        self.sent = 0
        self._process = WorkerProcess(setup, self._heard)
        self._thread = threading.Thread(target=self._process.run, daemon=True)
        if starts:
            self._thread.start()

    def _heard(self, batch: bytes) -> None:
        # The lock orders batches and the death of the worker: nothing is heard after `lost`. It is
        # reentrant, as `lose` may kill the worker from here.
        with self._lock:
            if not self.lost:
                self.sent += 1
                self._listener.heard(self, batch)
                if self._engine.dies(self._number):
                    self.kill()

    def tell(self, batch: bytes) -> None:
        """Pass *batch* from the driver to the worker."""
        if not self.lost:
            self._process.receive(batch)

    def kill(self, why: str = "") -> None:
        """Drop everything the worker sends from now on; its thread ends by itself."""
        with self._lock:
            if self.lost:
                return
            self.lost = True
            self._listener.lost(self, WorkerLost(why or f"worker {self._number} died"))
        self._process.receive(pickle.dumps([("cancel",)]))
        self._engine.died()

    def join(self) -> None:
        """Wait for the thread's end, unless the worker was lost: its end is not predictable."""
        if not self.lost:
            self._thread.join(10)
