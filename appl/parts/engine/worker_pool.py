"""The workers of a distributed map: who works on which items, and when to hire another one.

Invariant: once a worker was lost, items go only to workers that are ready. A worker may never
start, as its place in the cluster may be gone: what was assigned to it then goes to a worker that
is ready and has room.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from appl.parts.engine.protocol import Engine, Worker
from appl.parts.engine.work_items import WorkItem
from appl.parts.engine.worker_connection import WorkerConnection
from appl.runtime.concurrency.loop_thread import io_thread, void

if TYPE_CHECKING:
    from appl.parts.engine.distributed_map import DistributedMap

_CLOSING_S = 10.0


class HiredWorker:
    """A worker, by its number from 1, and the items that it works on.

    ``replaces`` says that it was hired after another one was lost. ``ready``: it has started.
    ``gone``: it has ended, in order or by being lost.
    """

    def __init__(self, mapping: DistributedMap, number: int, replaces: bool) -> None:
        self.number, self.replaces = number, replaces
        self.units: dict[int, WorkItem] = {}
        self.connection = WorkerConnection(mapping, self)
        self.worker: Worker | None = None
        self.ready = self.gone = False

    def tell(self, *messages: tuple[object, ...]) -> None:
        """Send *messages* unless the worker is gone."""
        if self.worker is not None and not self.gone and messages:
            self.worker.tell(pickle.dumps(messages, 5))

    def give(self, units: Iterable[WorkItem]) -> None:
        """Send *units*, which were assigned to this worker: now, or when it is ready.

        Items that were not sent can still go to another worker.
        """
        if self.ready:
            self.tell(*(unit.message() for unit in units))

    def started(self) -> None:
        """The worker is ready: send the items that were assigned to it meanwhile."""
        self.ready = True
        self.give(self.units.values())

    def release(self) -> list[WorkItem]:
        """Take all items from the worker."""
        units, self.units = self.units, {}
        return list(units.values())

    def close(self) -> None:
        """End the worker after its last item; kill it if it has not started."""
        if self.ready or self.worker is None:
            self.tell(("close",))
        else:
            self.worker.kill()

    def cancel(self) -> None:
        """Stop the worker: its items are dropped. Kill it if it does not end by itself in time."""
        self.units.clear()
        self.tell(("cancel",))
        io = io_thread()
        io.send(self.connection.abort)
        # call_later is not safe on another thread: the loop schedules the timer itself.
        io.send(lambda: void(io.loop.call_later(_CLOSING_S, self._kill)))

    def _kill(self) -> None:
        if not self.gone and self.worker is not None:
            self.worker.kill()


class WorkerPool:
    """Hires workers of *engine* for *mapping*, at most as many as the engine allows.

    ``setup`` is the first message to a worker. ``why`` says why the last one was lost.
    """

    setup = b""
    why: BaseException | None = None

    def __init__(self, engine: Engine, mapping: DistributedMap) -> None:
        self._engine, self._mapping = engine, mapping
        self._hired: list[HiredWorker] = []
        self._failed_starts = 0

    def __iter__(self) -> Iterator[HiredWorker]:
        return iter(tuple(self._hired))

    def present(self) -> list[HiredWorker]:
        """The workers that have not ended."""
        return [hired for hired in self._hired if not hired.gone]

    def room(self) -> int:
        """The largest number of items that can be worked on at once."""
        return self._engine.at_once * self._engine.workers

    def at_work(self) -> int:
        """The number of items that workers have."""
        return sum(len(hired.units) for hired in self._hired)

    def worker_for(self, unit: WorkItem) -> HiredWorker | None:
        """The worker with the fewest items; one by itself for an item that may kill its worker."""
        if all(hired.units for hired in self._usable()) and self._may_hire():
            hired = HiredWorker(self._mapping, len(self._hired) + 1, self.why is not None)
            self._hired.append(hired)
            hired.worker = self._engine.hire(self.setup, hired.connection)
        fewest = min(self._usable(), key=self._order, default=None)
        if fewest is None or self._full(fewest) or (unit.alone and fewest.units):
            return None
        return fewest

    def unsent(self) -> WorkItem | None:
        """Take an item from a worker that has not started, if one that is ready has room."""
        if any(hired.ready and not self._full(hired) for hired in self.present()):
            for hired in self.present():
                if not hired.ready and hired.units:
                    return hired.units.pop(min(hired.units))
        return None

    def _usable(self) -> list[HiredWorker]:
        return [hired for hired in self.present() if hired.ready or self.why is None]

    def _full(self, hired: HiredWorker) -> bool:
        """True if *hired* has no room for another item."""
        alone = any(item.alone for item in hired.units.values())
        return alone or len(hired.units) >= self._engine.at_once

    def _order(self, hired: HiredWorker) -> tuple[bool, bool, int]:
        """A key that puts workers first that are ready and have room."""
        return self._full(hired), not hired.ready, len(hired.units)

    def _may_hire(self) -> bool:
        """True if one more worker may start; after a loss only one at a time, which may fail."""
        present = self.present()
        starting = self.why is not None and any(not hired.ready for hired in present)
        few = len(present) < self._engine.workers
        return few and not starting and self._failed_starts < self._engine.tries

    def started(self, hired: HiredWorker) -> None:
        """Note that *hired* is ready."""
        self._failed_starts = 0
        hired.started()

    def lost(self, hired: HiredWorker, why: BaseException) -> list[WorkItem]:
        """Note that *hired* is lost; return the items that had not been sent to any worker."""
        self.why = why
        self._failed_starts += hired.replaces and not hired.ready
        starting = (other for other in self.present() if not other.ready)
        return [unit for other in starting for unit in other.release()]

    def hopeless(self) -> bool:
        """True if no worker is left and new ones do not start."""
        return self._failed_starts >= self._engine.tries and not self.present()
