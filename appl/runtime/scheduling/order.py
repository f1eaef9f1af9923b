"""Orders of ready calls, from the naive one to the one that knows programs.

Invariant: a call that was added is taken once, or ends before; the orders here look at calls only.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from itertools import count, repeat
from typing import TYPE_CHECKING, Protocol, assert_never

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.call_status import Why
    from appl.runtime.scheduling.policy import Policy


class CallQueue(Protocol):
    """A run's queue of calls to one backend, as the order of these sees it; on the I/O loop."""

    policy: Policy
    server: object
    """The same for all runs of the process that ask the same server."""
    coming: Counter[str]
    """The numbers of calls that wait for parts of their prompts, by address of the activation."""

    @property
    def incomplete(self) -> Iterable[Call]:
        """The calls that wait for parts of their prompts."""

    def look(self) -> bool:
        """Have the order's ``take`` called soon; false if it cannot be at present."""

    async def connected(self) -> None:
        """Wait until the backend was connected with, or could not be."""

    def attach(self, is_busy: Callable[[], bool], close: Callable[[], object]) -> None:
        """Note what an order adds to the run: *close* is called when the run is over.

        *is_busy* tells whether calls that it was given will soon be looked at, with nothing else
        to happen.
        """


class Order(Protocol):
    """The calls of a run that are ready, and which of them goes next; on the I/O loop.

    A backend may bring one of its own: see ``appl.backend.BringsOrder``.
    """

    @property
    def size(self) -> int:
        """The number of calls that ``take`` may give now."""

    def add(self, call: Call) -> None:
        """Note that *call* is ready. If it may go only later, ``look`` of the queue is called."""

    def take(self) -> Call | None:
        """The next call to send, ``None`` when none may go now. It may have ended meanwhile."""

    def over(self, call: Call, since: float) -> None:
        """Note that *call*, which was sent at *since*, is over here: it may go on elsewhere."""

    def waiting(self) -> Iterator[tuple[Call, Why | None]]:
        """The calls that wait, the next one first; with the reason for those that may not go."""


class PlainOrder:
    """The base of orders that know nothing of servers: every call may go."""

    def over(self, call: Call, since: float) -> None:
        """It makes no difference."""

    def __iter__(self) -> Iterator[Call]:
        """The calls that wait, the next one first."""
        raise NotImplementedError

    def waiting(self) -> Iterator[tuple[Call, Why | None]]:
        """The calls that wait, the next one first."""
        return zip(self, repeat(None))


class Fifo(PlainOrder):
    """First come, first served: the naive twin of the others."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()

    def add(self, call: Call) -> None:
        self._calls.append(call)

    def take(self) -> Call | None:
        return self._calls.popleft() if self._calls else None

    @property
    def size(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)


class _Group:
    """Calls of one program that branch from one prompt node; the first waits since ``since``."""

    __slots__ = ("calls", "key", "program", "since")

    def __init__(self, key: object, program: str, since: float) -> None:
        self.key, self.program, self.since = key, program, since
        self.calls: deque[Call] = deque()


class FairOrder(PlainOrder):
    """Takes higher priorities first, then the oldest calls, those of much served programs later.

    A program is an outermost activation (see :func:`program_of`). What it still needs is unknown.
    So its calls stand in line as if they had come later, by ``WEIGHT`` times the seconds for which
    the program was served while others waited: short programs pass long ones, and each waits for a
    limited time. Calls that branch from one prompt node go together. *now* is the clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._groups: dict[object, _Group] = {}
        self._line: list[tuple[int, float, int, _Group]] = []
        self._served: dict[str, float] = {}
        self._numbers = count()
        self.size = 0
        self._alone: Call | None = None  # the only one there is needs no place among others

    def add(self, call: Call) -> None:
        self.size += 1
        if self.size == 1:
            self._alone = call
            return
        if self._alone is not None:
            alone, self._alone = self._alone, None
            self._place(alone)
        self._place(call)

    def _place(self, call: Call) -> None:
        program, trunk = program_of(call), call.node.parent if call.node is not None else None
        key = call.priority, program, trunk
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(key, program, self._now())
            heappush(self._line, (-call.priority, self._due(group), next(self._numbers), group))
        group.calls.append(call)

    def _due(self, group: _Group) -> float:
        return group.since + WEIGHT * self._served.get(group.program, 0.0)

    def take(self) -> Call | None:
        if not self.size:
            return None
        self.size -= 1
        if self._alone is not None:
            alone, self._alone = self._alone, None
            return alone
        while True:  # the group that is due first; programs served meanwhile are due later
            priority, due, number, group = self._line[0]
            if self._due(group) <= due:
                break
            heapreplace(self._line, (priority, self._due(group), number, group))
        call = group.calls.popleft()
        if not group.calls:
            heappop(self._line)
            del self._groups[group.key]
        return call

    def over(self, call: Call, since: float) -> None:
        """Count the time for the program of *call*, if others had to wait for it."""
        if not self.size or self._alone is not None:
            return
        program, seconds = program_of(call), self._now() - since
        if program not in self._served and len(self._served) >= _MOST:
            self._served.pop(next(iter(self._served)))
        self._served[program] = self._served.get(program, 0.0) + seconds

    def __iter__(self) -> Iterator[Call]:
        if self._alone is not None:
            yield self._alone
        if self._line:
            ranked = [(entry[0], self._due(entry[-1]), *entry[2:]) for entry in self._line]
            for *_, group in sorted(ranked):
                yield from group.calls


def plain_order(policy: Policy) -> Order:
    """The order that *policy* names."""
    if policy.order == "program":
        return FairOrder(policy.clock.now if policy.clock is not None else time.monotonic)
    if policy.order == "fifo":
        return Fifo()
    assert_never(policy.order)


def program_of(call: Call) -> str:
    """The outermost activation of *call*: ``/answer.3`` for ``/answer.3/gen.0``.

    Where everything runs inside one outermost activation, as in a script's ``main``, its own
    children are the programs.
    """
    parts = call.address.split("/", 3)
    if len(parts) < 4:
        return f"/{parts[1]}" if len(parts) > 2 else call.address
    return f"/{parts[1]}/{parts[2]}"


WEIGHT = 16.0
"""The seconds of waiting that a second of service counts for."""
_MOST = 65_536
