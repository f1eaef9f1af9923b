"""A recorded run as steps in time: what began when, and what it had to wait for.

The program's side is known from what it was told: a call that begins after an answer was delivered
to the same function, or to one that it called, may have needed it. Of functions that run side by
side each is followed by itself.

Invariant: whatever a moment waits for is an earlier one, so that its number is less. Times are
microseconds since the run began, over all processes that wrote the trace.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from appl.tracing.reading.passes import Passes
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Call, Scope, Trace

START, END, TOLD = range(3)
"""What can happen to a step; ``TOLD`` is when its program was told of the answer."""

_ROUND = 64  # answers of a round that are looked at
_FAR = 1 << 60  # microseconds, which no run takes
_TOGETHER = 5000  # microseconds between deliveries that one answer brought about


@dataclass(slots=True, eq=False)
class Step:
    """A call of a model or a tool, with its times.

    ``phases`` are what it did between ``start`` and ``end``, in order: ``queue`` (until it was its
    turn), ``budget``, ``circuit`` and ``rate`` (for leave to be sent), ``retry`` (attempts that
    failed and the waits after them), ``prefill`` and ``decode``, or ``answer`` where the first
    piece of the answer is not known, ``tool``. ``needs`` are the addresses of the answers in its
    prompt, ``edges`` those of them that had ended; ``number`` is its place among the steps.
    """

    address: str
    where: str
    position: int
    start: int
    end: int
    told: int | None
    phases: tuple[tuple[str, int], ...]
    needs: tuple[str, ...] = ()
    edges: tuple[Step, ...] = ()
    number: int = field(default=-1)


class Flow:
    """The steps of a run, and what each of their moments waited for.

    The moments are numbers, in the order of their times ``at``; ``step`` and ``kind`` say what
    each is, ``place`` is the way back.
    """

    def __init__(self, run: Trace | Passes) -> None:
        self._trace = run if isinstance(run, Trace) else run.trace
        self.begin = 0
        steps = list(self._made(run))
        self.steps = {step.address: step for step in sorted(steps, key=attrgetter("start"))}
        self._entered = {
            scope.address: self._time(scope.at, scope.incarnation) for scope in _scopes(run)
        }
        self.begin = min([*(step.start for step in steps), *self._entered.values()], default=0)
        for step in steps:
            found = (self.steps.get(need) for need in step.needs)
            step.edges = tuple([e for e in found if e is not None and e.end <= step.start])
            step.needs = ()
        self._list = list(self.steps.values())
        self.at, self._of = array("q"), array("q")
        self._places = array("q", [-1]) * (3 * len(self._list))
        self._arrange()
        self._said: dict[str, array[int]] = {}
        self._begun: dict[str, array[int]] = {}
        self._note()

    def __len__(self) -> int:
        return len(self.at)

    def _made(self, run: Trace | Passes) -> Iterator[Step]:
        calls: Iterable[Call] = run.calls if isinstance(run, Trace) else run.calls(prompts=False)
        tools = run.tools.values() if isinstance(run, Trace) else run.tools()
        yield from (self._call(call) for call in calls if call.started is not None)
        yield from (self._tool(used) for used in tools if used.started is not None)

    def _time(self, at: int, incarnation: int) -> int:
        trace = self._trace
        found = (trace.wall(at, incarnation) - trace.wall(0, 0)) // 1000
        return max(-_FAR, min(found, _FAR))

    def _call(self, call: Call) -> Step:
        start, end = self._times(call)
        told = None
        if call.delivered_at is not None:
            told = max(self._time(call.delivered_at, call.incarnation), end)
        did = tuple(phases(call))
        where = sys.intern(call.where)
        return Step(call.address, where, call.position, start, end, told, did, call.edges)

    def _tool(self, used: ToolUse) -> Step:
        start, end = self._times(used)
        did = (("tool", end - start),)
        return Step(used.address, sys.intern(used.where), used.position, start, end, end, did)

    def _times(self, each: Call | ToolUse) -> tuple[int, int]:
        assert each.started is not None
        start = self._time(each.started, each.incarnation)
        end = start if each.ended is None else self._time(each.ended, each.incarnation)
        return start, max(end, start)

    def _arrange(self) -> None:
        """Put the moments in order: by time, then as the calls began."""
        ranks = 3 * max((step.position for step in self._list), default=0) + 4
        size = max(3 * len(self._list), 1)
        keys: list[int] = []
        for number, step in enumerate(self._list):
            step.number = number
            rank = 3 * max(step.position, 0)
            times = (step.start, step.end, step.told)
            for kind, at in enumerate(times):
                if at is not None:
                    keys.append((at * ranks + rank + kind) * size + 3 * number + kind)
        keys.sort()
        for index, key in enumerate(keys):
            place = key % size
            self.at.append(key // size // ranks)
            self._of.append(place)
            self._places[place] = index

    def _note(self) -> None:
        """Note what was said to the program of each scope, and what it began."""
        for index in range(len(self)):
            kind = self.kind(index)
            if kind != END:
                known = self._said if kind == TOLD else self._begun
                for scope in _around(self.step(index).address):
                    noted = known.get(scope)
                    if noted is None:
                        noted = known[scope] = array("q")
                    noted.append(index)

    @property
    def end(self) -> int:
        """When the last call had ended, or the program was told of it."""
        return self.at[-1] if self.at else self.begin

    def step(self, index: int) -> Step:
        """The step to which a moment happened."""
        return self._list[self._of[index] // 3]

    def kind(self, index: int) -> int:
        """What happened: ``START``, ``END`` or ``TOLD``."""
        return self._of[index] % 3

    def place(self, step: Step, kind: int) -> int:
        """The moment at which that happened to *step*, -1 if it never did."""
        return self._places[3 * step.number + kind]

    # -- what a moment waited for

    def data(self, step: Step) -> list[int]:
        """The moments at which the answers in the prompt of *step* were there."""
        here = self.place(step, START)
        ends = (self.place(edge, END) for edge in step.edges)
        return [each for each in ends if each < here]

    def program(self, index: int) -> int | None:
        """What the program of a moment was told last before it, ``None`` for the run's begin."""
        found = self._before(index)
        return None if found is None else found[1][found[2]]

    def round(self, index: int) -> list[int]:
        """All that the program of a moment was told last, between the calls that it began.

        It may have waited for each of these answers before it went on.
        """
        found = self._before(index)
        if found is None:
            return []
        scope, said, position = found
        begun: Sequence[int] = self._begun.get(scope, ())
        since = bisect_left(begun, said[position]) - 1
        after = begun[since] if since >= 0 else -1
        first = max(bisect_left(said, after), position - _ROUND)
        return [each for each in said[first : position + 1] if each < index]

    def _before(self, index: int) -> tuple[str, Sequence[int], int] | None:
        """The scope in which a moment's program was told something last, and where that stands."""
        step, at = self.step(index), self.at[index]
        own = self.place(step, TOLD)
        for scope in _around(step.address):
            said: Sequence[int] = self._said.get(scope, ())
            position = bisect_left(said, index) - 1
            while position >= 0 and said[position] == own:
                position -= 1
            entered = self._entered.get(scope, self.begin)
            if position >= 0 and entered <= self.at[said[position]] <= at:
                return scope, said, position
            index = min(index, self._first(entered))
        return None

    def answers(self, index: int) -> int:
        """The end that had the program told of an answer: of the call itself, or a later one.

        Nobody may have waited for the answer: it is handed over with the next one that somebody
        waits for.
        """
        step = self.step(index)
        own = self.place(step, END)
        known = max(step.end, self.at[self.program(index) or own])
        if self.at[index] - known <= _TOGETHER:
            return own
        ends = (self.place(each, END) for each in self._told_with(index))
        return max((end for end in ends if end < index), default=own)

    def _told_with(self, index: int) -> Iterator[Step]:
        """The steps whose answers were delivered together with that of a moment, its own too."""
        at = self.at[index]
        for other in range(bisect_left(self.at, at - _TOGETHER), len(self)):
            if self.at[other] > at + _TOGETHER:
                return
            if self.kind(other) == TOLD:
                yield self.step(other)

    def _first(self, at: int) -> int:
        """The first moment after the time *at*."""
        return bisect_left(self.at, at + 1)

    def holds(self, step: Step, other: Step, most: int = 10_000) -> bool:
        """Whether the prompt of *step* holds the answer of *other*, or one that was made of it."""
        todo, seen = [step], {step.address}
        while todo and len(seen) < most:
            for edge in todo.pop().edges:
                if edge is other:
                    return True
                if edge.address not in seen:
                    seen.add(edge.address)
                    todo.append(edge)
        return False


def phases(call: Call) -> list[tuple[str, int]]:
    """What a call did, in order, with the microseconds that it took; as far as that is recorded."""
    if call.started is None or call.ended is None:
        return []
    sent = [attempt.at for attempt in call.attempts if attempt.at is not None]
    if not sent:
        return [("queue", call.ended - call.started)]
    before, waited = sent[0] - call.started, call.attempts[0].waited
    found = [("queue", before - sum(waited.values())), *waited.items()]
    found.append(("retry", sent[-1] - sent[0]))
    if call.first is not None and sent[-1] <= call.first <= call.ended:
        found += [("prefill", call.first - sent[-1]), ("decode", call.ended - call.first)]
    else:
        found.append(("answer", call.ended - sent[-1]))
    return [(name, max(took, 0)) for name, took in found if took > 0]


def _scopes(run: Trace | Passes) -> Iterable[Scope]:
    return run.scopes if isinstance(run, Trace) else run.scopes()


def _around(address: str) -> Iterator[str]:
    """The scopes around an address, innermost first; the run itself is the empty one."""
    while address:
        address = address.rpartition("/")[0]
        yield address
