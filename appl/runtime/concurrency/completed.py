"""The results of a function of many items, one by one as they are ready.

Invariant: the order of the results is that in which the program was told of them. A trace records
that order, so a replay gives the same one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from appl.errors import InvalidOption
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import arrive, strand_here, wait
from appl.runtime.concurrency.future import awaited, finished, result_of
from appl.runtime.concurrency.parallel import Item, name_of, report_if_failed, start
from appl.runtime.concurrency.promise import Promise, Value
from appl.runtime.concurrency.structure import cancel_all
from appl.runtime.frame import here
from appl.runtime.future_takers import taking_futures

R = TypeVar("R")


class Completed(Generic[R]):
    """Results as they come: for ``for``, and in a coroutine for ``async for``.

    A block that is left early cancels the items that are still running.
    """

    def __init__(self, f: Callable[..., R], items: list[tuple[Any, ...]], limit: int) -> None:
        self._f, self._items, self._limit = f, items, limit
        self.hub = strand_here().hub
        self._started: list[Item] = []
        self._next = self._ended = self._yielded = 0
        self._over: deque[Promise] = deque()
        self._signal: Signal | None = None
        self._start_more()

    def one_over(self, item: Item, end: Promise) -> None:
        """Note that *item* is over, by *end*; on the thread of ``hub``."""
        self._ended += 1
        self._over.append(end)
        # Taken away before it is set: the reader goes on later, and makes a new one if it has to
        # wait again. Items that end until then only add to the queue.
        signal, self._signal = self._signal, None
        if signal is not None:
            signal.conclude(Value(None))

    def __iter__(self) -> Iterator[R]:
        try:
            while self._yielded < len(self._items):
                # Again, as the room that one item leaves may be all that came of the wait.
                while (signal := self._wanted()) is not None:
                    wait(signal)
                yield result_of(self._take_next())
        finally:
            self._cancel()

    async def __aiter__(self) -> AsyncIterator[R]:
        try:
            while self._yielded < len(self._items):
                while (signal := self._wanted()) is not None:
                    await arrive(signal)
                yield await awaited(self._take_next())
        finally:
            self._cancel()

    def _start_more(self) -> None:
        while self._next < len(self._items) and self._next - self._ended < self._limit:
            arguments = self._items[self._next]
            self._next += 1
            task = start(self._f, arguments, {})
            item = Item(self, task)
            self._started.append(item)
            report_if_failed(task, self._started[0].pending.address, 0)
            item.follow(task)

    def _wanted(self) -> Signal | None:
        """The signal to wait for until there is a result; ``None`` when there is one."""
        self._start_more()
        if self._over:
            return None
        self._signal = Signal(self._started[-1].pending.address, self.hub)
        return self._signal

    def _take_next(self) -> Promise:
        self._yielded += 1
        return self._over.popleft()

    def _cancel(self) -> None:
        """Cancel what still runs; what was not started keeps its address, for later calls."""
        # Later calls are numbered behind all of its items, or their addresses would depend on how
        # many items had been started when the reader left.
        cancel_all([item.pending for item in self._started])
        name = name_of(self._f)
        for _ in range(self._next, len(self._items)):
            here(lambda: name).issue(name)
        self._next = self._yielded = len(self._items)


@taking_futures
def as_completed(
    f: Callable[..., R],
    items: Iterable[object],
    *more: Iterable[object],
    concurrency: int | None = None,
) -> Completed[R]:
    """``f`` of every item, side by side; the results one by one, as they are ready.

    For example::

        for summary in appl.as_completed(summarize, pages, concurrency=20):
            print(summary)

    In a coroutine write ``async for``. All items start at once, up to *concurrency* of them. A
    failure is raised where its result would be given, and cancels the rest; so does leaving the
    loop. The order is recorded: a replay gives the same one.
    """
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise InvalidOption(f"as_completed(concurrency={concurrency!r}): at least 1, or None")
    items = finished(items)
    if not isinstance(items, Iterable):
        raise InvalidOption(f"as_completed(f, items) takes a list of items, got {items!r:.80}")
    every = list(zip(items, *more, strict=False)) if more else [(item,) for item in items]
    return Completed(f, every, concurrency or len(every) or 1)
