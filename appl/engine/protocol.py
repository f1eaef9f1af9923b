"""What an engine offers: workers, and bytes carried to them and from them in order."""

from __future__ import annotations

from typing import Any, Protocol


class Listener(Protocol):
    """Who hears what workers send; called on any thread, for one worker in order."""

    def heard(self, worker: Worker, batch: bytes) -> None:
        """*worker* has sent *batch*."""

    def lost(self, worker: Worker, why: BaseException) -> None:
        """*worker* is gone, and all that it had sent was heard; not told of one that was closed."""


class Worker(Protocol):
    """A process that works on items: an ``appl.engine.station.Station`` in it."""

    def tell(self, batch: bytes) -> None:
        """Send *batch*; from any thread, without waiting."""

    def kill(self) -> None:
        """End it at once, whatever it does."""


class Engine(Protocol):
    """Where the items of a ``map`` are worked on.

    ``workers`` is how many processes there may be, ``at_once`` how many items each works on at
    once, and ``tries`` how often an item is begun whose worker is lost.
    """

    workers: int
    at_once: int
    tries: int

    def open(self) -> None:
        """Get ready to hire; once for each ``map``."""

    def close(self) -> None:
        """Let go of what ``open`` started, and of workers that are still there."""

    def hire(self, order: bytes, listener: Listener) -> Worker:
        """Start a worker with *order*, and have *listener* hear it."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        """*value* as bytes, functions too; raises what tells why that is impossible."""
