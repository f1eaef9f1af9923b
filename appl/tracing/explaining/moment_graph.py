"""A recorded run as moments in time, with the moments that each had to wait for.

The waits of the program are known from the answers that it got: a call that begins after an answer
was delivered to the same function, or to one that it called, may have needed it. Functions that run
side by side are followed separately.

Invariant: a moment waits for earlier moments only, which have lower numbers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from appl.tracing.explaining.links import Links
from appl.tracing.explaining.steps import NEVER, Steps

if TYPE_CHECKING:
    from appl.tracing.reading.trace import Trace

START, END, TOLD = range(3)
"""The moments of a step; at ``TOLD`` its program got the answer."""

_ROUND = 64  # answers of a round that are looked at
_MOST_NEEDS = 10_000  # answers that are followed back at most
_TOGETHER = 5000  # microseconds between deliveries that one answer brought about


class MomentGraph:
    """The moments of a run, and the moments that each waited for.

    The moments are numbers, in the order of their times ``at``; ``step`` and ``kind`` say what
    each is, ``place`` is the way back; both as one number, ``3 * step + kind``, stand in ``order``.
    ``steps`` are the calls to which they happened.
    """

    def __init__(self, run: Trace | Steps) -> None:
        self.steps = run if isinstance(run, Steps) else Steps(run)
        self.begin = self.steps.begin
        self.at, self.order = array("q"), array("q")
        self._places = array("q", [-1]) * (3 * len(self.steps))
        # In order: by time, then as the calls began.
        steps, size = self.steps, max(len(self._places), 1)
        ranks = 3 * max(steps.position, default=0) + 4
        keys: list[int] = []
        columns = zip(steps.position, steps.start, steps.end, steps.told, strict=True)
        for number, (position, *times) in enumerate(columns):
            for kind, at in enumerate(times):
                if at != NEVER:
                    keys.append((at * ranks + 3 * position + kind) * size + 3 * number + kind)
        keys.sort()
        for index, key in enumerate(keys):
            place = key % size
            self.at.append(key // size // ranks)
            self.order.append(place)
            self._places[place] = index
        self._said, self._begun = _noted(self, TOLD), _noted(self, START)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def end(self) -> int:
        """The time when the last call had ended, or its program had got the answer."""
        return self.at[-1] if self.at else self.begin

    def step(self, index: int) -> int:
        """The step of a moment."""
        return self.order[index] // 3

    def kind(self, index: int) -> int:
        """The kind of a moment: ``START``, ``END`` or ``TOLD``."""
        return self.order[index] % 3

    def place(self, step: int, kind: int) -> int:
        """The moment of this kind of *step*, -1 if there is none."""
        return self._places[3 * step + kind]

    # -- what a moment waited for

    def data(self, step: int) -> list[int]:
        """The moments at which the answers in the prompt of *step* arrived."""
        places = self._places
        here = places[3 * step]
        ends = [places[3 * need + END] for need in self.steps.needs.of(step)]
        return [end for end in ends if end < here]

    def program(self, index: int) -> int | None:
        """The last moment that was told to this one's program, ``None`` for the run's begin."""
        place = self._before(index)
        return None if place is None else self._said.all[place[1]]

    def round(self, index: int) -> Sequence[int]:
        """The answers that the program of a moment got last, between the calls that it began.

        It may have waited for each of these answers before it went on.
        """
        place = self._before(index)
        if place is None:
            return ()
        scope, last = place
        answers, begun = self._said, self._begun
        start = begun.ends[scope]
        since = bisect_left(begun.all, answers.all[last], start, begun.ends[scope + 1]) - 1
        after = begun.all[since] if since >= start else -1
        first = bisect_left(answers.all, after, answers.ends[scope], last)
        return answers.all[max(first, last - _ROUND) : last + 1]

    def _before(self, index: int) -> tuple[int, int] | None:
        """The function in which a moment's program got its last answer, and that answer's place
        among those of the function."""
        steps, answers, step = self.steps, self._said, self.order[index] // 3
        own, scope = self._places[3 * step + TOLD], steps.scope[step]
        while scope >= 0:
            first = answers.ends[scope]
            last = bisect_left(answers.all, index, first, answers.ends[scope + 1]) - 1
            if last >= first and answers.all[last] == own:
                last -= 1
            entered = steps.entered[scope]
            if last >= first and entered <= self.at[answers.all[last]]:
                return scope, last
            index = min(index, bisect_left(self.at, entered + 1))
            scope = steps.above[scope]
        return None

    def answers(self, index: int, before: int | None) -> int:
        """The end of the call with which the program got an answer: its own, or a later one's.

        An answer that nobody waits for is handed over with the next one that somebody waits for.
        *before* is the moment of the answer before it.
        """
        own = self._places[3 * self.step(index) + END]
        end = own if before is None else max(own, before)
        return own if self.at[index] - self.at[end] <= _TOGETHER else self._handed[index]

    @cached_property
    def _handed(self) -> Sequence[int]:
        """For each answer, the last end among those that were delivered together with it."""
        at, last_ends = self.at, array("q", [-1]) * len(self)
        deliveries = [index for index, place in enumerate(self.order) if place % 3 == TOLD]
        own = [self._places[3 * self.step(index) + END] for index in deliveries]
        ends: list[int] = []
        first = until = 0
        for index in deliveries:
            while until < len(deliveries) and at[deliveries[until]] <= at[index] + _TOGETHER:
                insort(ends, own[until])
                until += 1
            while at[deliveries[first]] < at[index] - _TOGETHER:
                del ends[bisect_left(ends, own[first])]
                first += 1
            last_ends[index] = ends[bisect_left(ends, index) - 1]
        return last_ends

    def holds(self, step: int, other: int) -> bool:
        """True if the prompt of *step* holds the answer of *other*, directly or through others."""
        todo, visited = [step], {step}
        while todo and len(visited) < _MOST_NEEDS:
            for need in self.steps.needs.of(todo.pop()):
                if need == other:
                    return True
                if need not in visited:
                    visited.add(need)
                    todo.append(need)
        return False


def _noted(graph: MomentGraph, kind: int) -> Links:
    """For each function the moments of a kind that happened in it or below it, in order."""
    steps, above = graph.steps, graph.steps.above
    moments = [index for index, place in enumerate(graph.order) if place % 3 == kind]
    counts = array("q", [0]) * len(above)
    for index in moments:
        scope = steps.scope[graph.order[index] // 3]
        if scope >= 0:
            counts[scope] += 1
    for scope in range(len(above) - 1, 0, -1):
        counts[above[scope]] += counts[scope]
    links = Links.sized(counts)
    free, into = links.ends[:-1], links.all
    for index in moments:
        scope = steps.scope[graph.order[index] // 3]
        while scope >= 0:
            into[free[scope]] = index
            free[scope] += 1
            scope = above[scope]
    return links
