"""The interface of an engine: workers, and byte batches carried to and from them in order."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Receives what workers send. Called on any thread, in order for each worker."""

    def heard(self, worker: Worker, batch: bytes) -> None:
        """Receive *batch* from *worker*."""

    def lost(self, worker: Worker, why: BaseException) -> None:
        """*worker* is gone, and all it sent was received. Not called for a worker that closed."""


class Worker(Protocol):
    """A process that works on items; it runs a ``worker_process.WorkerProcess``."""

    def tell(self, batch: bytes) -> None:
        """Send *batch* from any thread, without waiting."""

    def kill(self) -> None:
        """End the worker at once, whatever it does."""


class Engine(Protocol):
    """Runs the items of a ``map`` in other processes.

    ``workers`` is the largest number of processes, ``at_once`` the number of items that each works
    on at once, and ``tries`` how often an item is started if its workers are lost.
    """

    workers: int
    at_once: int
    tries: int

    def open(self) -> None:
        """Prepare to hire workers; called once for each ``map``."""

    def close(self) -> None:
        """End the remaining workers and release what ``open`` started."""

    def hire(self, setup: bytes, listener: Listener) -> Worker:
        """Start a worker with *setup*; *listener* receives what it sends."""

    @staticmethod
    def dumps(value: object) -> bytes:
        """Serialize *value*, including functions. Raises an error that says why it cannot."""
