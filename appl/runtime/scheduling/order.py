"""Orders of ready calls, from the naive one to the one that knows programs.

Invariant: a call that was added is taken once; an order never looks at anything but calls.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appl.prompt.chain import PromptNode
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.policy import Policy


class Order(Protocol):
    """A queue of ready calls, which decides which one goes first."""

    @property
    def size(self) -> int:
        """The number of calls that are ready."""

    def add(self, call: Call) -> None:
        """*call* is ready."""

    def take(self) -> Call | None:
        """The next call, ``None`` when none is ready."""

    def served(self, call: Call, seconds: float) -> None:
        """The backend has worked on *call* for *seconds*."""

    def __iter__(self) -> Iterator[Call]:
        """The calls that are ready, in the order in which they would be taken now."""


class Fifo:
    """First come, first served: the naive twin of the others."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()

    def add(self, call: Call) -> None:
        self._calls.append(call)

    def take(self) -> Call | None:
        return self._calls.popleft() if self._calls else None

    def served(self, call: Call, seconds: float) -> None:
        """It makes no difference."""

    @property
    def size(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)


class ByPrefix:
    """Takes higher priorities first, then calls that branch from one prompt node together."""

    def __init__(self) -> None:
        self._groups: dict[int, OrderedDict[PromptNode | None, deque[Call]]] = {}
        self.size = 0

    def add(self, call: Call) -> None:
        groups = self._groups.setdefault(call.priority, OrderedDict())
        trunk = trunk_of(call)
        calls = groups.get(trunk)
        if calls is None:
            calls = groups[trunk] = deque()
        calls.append(call)
        self.size += 1

    def take(self) -> Call | None:
        if not self._groups:
            return None
        priority = max(self._groups)
        groups = self._groups[priority]
        trunk, calls = next(iter(groups.items()))
        call = calls.popleft()
        if not calls:
            del groups[trunk]
            if not groups:
                del self._groups[priority]
        self.size -= 1
        return call

    def served(self, call: Call, seconds: float) -> None:
        """It makes no difference."""

    def __iter__(self) -> Iterator[Call]:
        for priority in sorted(self._groups, reverse=True):
            yield from chain.from_iterable(self._groups[priority].values())


class _Group:
    """Calls of one program that branch from one prompt node; the first waits since ``since``."""

    __slots__ = ("calls", "program", "since")

    def __init__(self, program: str, since: float) -> None:
        self.program, self.since = program, since
        self.calls: deque[Call] = deque()


class ByProgram:
    """Takes higher priorities first, then the program with the longest wait for its service.

    A program is an outermost activation (see :func:`program_of`). What it still needs is unknown,
    so the one that was served least goes first, as in the multilevel queues of operating systems:
    levels are powers of two of the seconds served, and between the longest-waiting of each level
    decides waiting time over service, so that a long program is not starved by short ones. Within a
    program, calls that branch from one prompt node go together, at most ``drain`` of them.
    *now* is the clock that *seconds* of service are measured with.
    """

    def __init__(self, now: Callable[[], float], drain: int = 8) -> None:
        self._now, self._drain = now, drain
        self._levels: dict[int, dict[int, OrderedDict[object, _Group]]] = {}
        self._served: dict[str, float] = {}
        self.size = 0
        self._alone: Call | None = None  # the only one there is needs no place among others
        self._open: tuple[int, int, object] | None = None
        self._left = 0

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
        program = program_of(call)
        levels = self._levels.setdefault(call.priority, {})
        groups = levels.setdefault(self._level(program), OrderedDict())
        key = (program, trunk_of(call))
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(program, self._now())
        group.calls.append(call)
        # A group is drained before the next one, but not before calls of a higher priority.
        if self._open is not None and call.priority > self._open[0]:
            self._open = None

    def take(self) -> Call | None:
        if not self.size:
            return None
        self.size -= 1
        if self._alone is not None:
            alone, self._alone = self._alone, None
            return alone
        if self._open is None or self._left <= 0:
            self._open, self._left = self._choose(), self._drain
        priority, level, key = self._open
        groups = self._levels[priority][level]
        group = groups[key]
        call = group.calls.popleft()
        self._left -= 1
        if not group.calls:
            self._open = None
            self._drop(priority, level, key)
        elif not self._left:
            # It was drained for long enough: it waits anew, behind the other groups of its level.
            group.since = self._now()
            groups.move_to_end(key)
        return call

    def served(self, call: Call, seconds: float) -> None:
        """Count *seconds* for the program of *call*, if others had to wait for it."""
        if not self.size or self._alone is not None:
            return
        program = program_of(call)
        if program not in self._served and len(self._served) >= _MOST:
            self._served.pop(next(iter(self._served)))
        self._served[program] = self._served.get(program, 0.0) + seconds

    def __iter__(self) -> Iterator[Call]:
        if self._alone is not None:
            yield self._alone
        for priority in sorted(self._levels, reverse=True):
            yield from chain.from_iterable(group.calls for group in self._ranked(priority))

    def _ranked(self, priority: int) -> Iterable[_Group]:
        """The groups of *priority*: the one that is being drained, then those due most."""
        now = self._now()
        ranked: list[tuple[bool, float, _Group]] = []
        for level, groups in self._levels[priority].items():
            for key, group in groups.items():
                due = (now - group.since + _TINY) / (1 << level)
                ranked.append((self._open == (priority, level, key), due, group))
        ranked.sort(key=lambda each: each[:2], reverse=True)
        return (group for _, _, group in ranked)

    def _level(self, program: str) -> int:
        return int(self._served.get(program, 0.0) * _PER_SECOND).bit_length()

    def _choose(self) -> tuple[int, int, object]:
        priority = max(self._levels)
        heads = self._heads(priority)
        if len(heads) == 1:
            return priority, *heads[0][:2]
        now, best, found = self._now(), -1.0, None
        for level, key, group in heads:
            due = (now - group.since + _TINY) / (1 << level)
            if due > best:
                best, found = due, (priority, level, key)
        assert found is not None
        return found

    def _heads(self, priority: int) -> list[tuple[int, object, _Group]]:
        """The longest-waiting group of every level; groups of programs that rose are moved up."""
        levels = self._levels[priority]
        if len(levels) == 1:  # mostly
            ((level, those),) = levels.items()
            key, group = next(iter(those.items()))
            if self._level(group.program) <= level:
                return [(level, key, group)]
        heads = []
        for level in sorted(levels):
            while groups := levels.get(level):
                key, group = next(iter(groups.items()))
                risen = self._level(group.program)
                if risen <= level:
                    heads.append((level, key, group))
                    break
                self._drop(priority, level, key)
                self._insert(priority, risen, key, group)
        seen = {level for level, _, _ in heads}
        more = [level for level in self._levels[priority] if level not in seen]
        return heads + [(at, *next(iter(self._levels[priority][at].items()))) for at in more]

    def _insert(self, priority: int, level: int, key: object, group: _Group) -> None:
        groups = self._levels.setdefault(priority, {}).setdefault(level, OrderedDict())
        other = groups.get(key)
        if other is None:
            groups[key] = group
        else:
            other.calls.extendleft(reversed(group.calls))
            other.since = min(other.since, group.since)

    def _drop(self, priority: int, level: int, key: object) -> None:
        levels = self._levels[priority]
        del levels[level][key]
        if not levels[level]:
            del levels[level]
            if not levels:
                del self._levels[priority]


def trunk_of(call: Call) -> PromptNode | None:
    """The prompt node that the last item of the prompt of *call* goes on from."""
    return call.node.parent if call.node is not None else None


def order_of(policy: Policy, caching: bool) -> Order:
    """The order that *policy* names; on a server with a prefix cache programs take longer turns."""
    # Going from one prompt to another costs such a server the beginning that it had in its cache.
    if policy.order == "program":
        now = policy.clock.now if policy.clock is not None else time.monotonic
        return ByProgram(now, drain=64 if caching else 8)
    return ByPrefix() if policy.order == "prefix" else Fifo()


def program_of(call: Call) -> str:
    """The outermost activation of *call*: ``/answer.3`` for ``/answer.3/gen.0``.

    Where everything runs inside one outermost activation, as in a script's ``main``, its own
    children are the programs.
    """
    parts = call.address.split("/", 3)
    if len(parts) < 4:
        return f"/{parts[1]}" if len(parts) > 2 else call.address
    return f"/{parts[1]}/{parts[2]}"


_MOST = 65_536
_PER_SECOND = 16
_TINY = 1e-6
