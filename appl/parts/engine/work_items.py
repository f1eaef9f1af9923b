"""The items of a distributed map: taken from the iterable, worked on, ended in order.

Invariant: everything here belongs to the thread of the program that called ``map``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from appl.parts.engine.item_log import ItemAnswers
from appl.runtime.concurrency.progress import Progress
from appl.runtime.concurrency.promise import Error, Promise, Value
from appl.runtime.frame import Frame


class WorkItem:
    """One item: its index, the number in its address, and the payload that a worker receives.

    ``tries`` counts the workers that were lost over it. An item that is ``alone`` gets a worker
    for itself. ``answers`` are those that lost workers had reported.
    """

    __slots__ = ("alone", "answers", "index", "ordinal", "payload", "tries")

    def __init__(self, index: int, ordinal: int, payload: bytes) -> None:
        self.index, self.ordinal, self.payload = index, ordinal, payload
        self.tries = 0
        self.alone = False
        self.answers: ItemAnswers | None = None

    def message(self) -> tuple[object, ...]:
        """The message that gives the item to a worker."""
        return "item", self.index, self.ordinal, self.payload, self.answers


class ItemSource:
    """Takes items from the iterable and counts them in *caller*, as a local map does.

    ``within`` is what the addresses of items begin with, ``first`` the number in the first one.
    """

    def __init__(self, items: Iterable[tuple[object, ...]], caller: Frame, name: str) -> None:
        self._items: Iterator[tuple[object, ...]] = iter(items)
        self._caller, self._name, self._taken = caller, name, 0
        self.within = f"{caller.address}/{name}."
        self.first = caller.counts.get(name, 0)
        self.exhausted = False

    def take(self) -> tuple[int, tuple[object, ...]] | None:
        """The next item and its index; ``None`` if there are no more."""
        item = next(self._items, None)
        if item is None:
            self.exhausted = True
            return None
        self._count(1)
        return self._taken - 1, item

    def skip_rest(self) -> None:
        """Take nothing more, but count the rest: later calls keep their addresses."""
        if not self.exhausted:
            self._count(sum(1 for _ in self._items))
            self.exhausted = True

    def stop(self) -> None:
        """Take nothing more, and leave the rest uncounted."""
        self._items, self.exhausted = iter(()), True

    def _count(self, number: int) -> None:
        self._taken += number
        self._caller.counts[self._name] = self.first + self._taken


class MapResults:
    """The outcomes of items, in the order of the items. *collect* keeps errors as results."""

    def __init__(self, collect: bool, shown: Progress) -> None:
        self._collect, self._shown = collect, shown
        self._early: dict[int, Value | Error] = {}
        self.values: list[object] = []

    def end(self, index: int, outcome: Value | Error, mark: Promise) -> None:
        """Store the outcome of item *index*; *mark* stands for it in the progress display."""
        self._early[index] = outcome
        self._shown.step(mark)

    def advance(self) -> None:
        """Move outcomes whose turn has come to ``values``; raise the first error among them."""
        while len(self.values) in self._early:
            self.values.append(self._value(self._early.pop(len(self.values))))

    def _value(self, outcome: Value | Error) -> object:
        if isinstance(outcome, Value):
            return outcome.value
        if self._collect and isinstance(outcome.error, Exception):
            return outcome.error
        raise outcome.error
