"""A recorded run as steps in time: what began when, and what it had to wait for.

The program's side is known from what it was told: a call that begins after an answer was delivered
to the same function, or to one that it called, may have needed it. Of functions that run side by
side each is followed by itself.

Invariant: whatever a moment waits for is earlier in ``moments``. Times are microseconds since the
run began, over all processes that wrote the trace.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from appl.tracing.tooluse import ToolUse
from appl.tracing.trace import Call, Trace

Kind = Literal["start", "end", "told"]
_ROUND = 64  # answers of a round that are looked at
_TOGETHER = 5000  # microseconds between deliveries that one answer brought about


@dataclass(slots=True)
class Step:
    """A call of a model or a tool, with its times.

    ``phases`` are what it did between ``start`` and ``end``, in order: ``queue`` (until it was its
    turn), ``budget``, ``circuit`` and ``rate`` (for leave to be sent), ``retry`` (attempts that
    failed and the waits after them), ``prefill`` and ``decode``, or ``answer`` where the first
    piece of the answer is not known, ``tool``.
    """

    source: Call | ToolUse
    start: int
    end: int
    told: int | None
    phases: list[tuple[str, int]]
    edges: list[Step] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address of the call."""
        return self.source.address


class Moment(NamedTuple):
    """Something that happened to a step at a time."""

    at: int
    rank: int
    kind: Kind
    step: Step


class Flow:
    """The steps of a run, and what each of their moments waited for."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.begin = 0
        steps = [*map(self._call, _timed(trace.calls)), *map(self._tool, _timed(trace.tools))]
        self.steps = {step.address: step for step in sorted(steps, key=lambda each: each.start)}
        self._entered = {
            scope.address: self._time(scope.at, scope.incarnation) for scope in trace.scopes
        }
        self.begin = min([step.start for step in steps] + list(self._entered.values()), default=0)
        for step in steps:
            edges = step.source.edges if isinstance(step.source, Call) else ()
            found = (self.steps.get(edge) for edge in edges)
            step.edges = [each for each in found if each is not None and each.end <= step.start]
        self.moments = sorted(self._moments(), key=lambda each: each[:2])
        self.place = {(m.step.address, m.kind): i for i, m in enumerate(self.moments)}
        self._said: dict[str, list[int]] = {}
        self._begun: dict[str, list[int]] = {}
        for i, moment in enumerate(self.moments):
            if moment.kind != "end":
                known = self._said if moment.kind == "told" else self._begun
                for scope in _around(moment.step.address):
                    known.setdefault(scope, []).append(i)

    @property
    def end(self) -> int:
        """When the last call had ended, or the program was told of it."""
        return max((m.at for m in self.moments), default=self.begin)

    def _time(self, at: int, incarnation: int) -> int:
        trace = self.trace
        return (trace.wall(at, incarnation) - trace.wall(0, 0)) // 1000

    def _call(self, call: Call) -> Step:
        assert call.started is not None
        start = self._time(call.started, call.incarnation)
        end = start if call.ended is None else self._time(call.ended, call.incarnation)
        end = max(end, start)
        told = None
        if call.delivered_at is not None:
            told = max(self._time(call.delivered_at, call.incarnation), end)
        return Step(call, start, end, told, phases(call))

    def _tool(self, used: ToolUse) -> Step:
        assert used.started is not None
        start = self._time(used.started, used.incarnation)
        end = start if used.ended is None else self._time(used.ended, used.incarnation)
        end = max(end, start)
        return Step(used, start, end, end, [("tool", end - start)])

    def _moments(self) -> Iterator[Moment]:
        for step in self.steps.values():
            rank = 3 * max(step.source.position, 0)
            yield Moment(step.start, rank, "start", step)
            yield Moment(step.end, rank + 1, "end", step)
            if step.told is not None:
                yield Moment(step.told, rank + 2, "told", step)

    # -- what a moment waited for

    def data(self, step: Step) -> list[int]:
        """The moments at which the answers in the prompt of *step* were there."""
        here = self.place[step.address, "start"]
        ends = (self.place[edge.address, "end"] for edge in step.edges)
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
        begun = self._begun.get(scope, [])
        since = bisect_left(begun, said[position]) - 1
        after = begun[since] if since >= 0 else -1
        first = max(bisect_left(said, after), position - _ROUND)
        return [each for each in said[first : position + 1] if each < index]

    def _before(self, index: int) -> tuple[str, list[int], int] | None:
        """The scope in which a moment's program was told something last, and where that stands."""
        moment = self.moments[index]
        at = moment.at
        own = self.place.get((moment.step.address, "told"), -1)
        for scope in _around(moment.step.address):
            said = self._said.get(scope, [])
            position = bisect_left(said, index) - 1
            while position >= 0 and said[position] == own:
                position -= 1
            entered = self._entered.get(scope, self.begin)
            if position >= 0 and entered <= self.moments[said[position]].at <= at:
                return scope, said, position
            index = min(index, self._first(entered))
        return None

    def answers(self, index: int) -> int:
        """The end that had the program told of an answer: of the call itself, or a later one.

        Nobody may have waited for the answer: it is handed over with the next one that somebody
        waits for.
        """
        moment = self.moments[index]
        own = self.place[moment.step.address, "end"]
        known = max(moment.step.end, self.moments[self.program(index) or own].at)
        if moment.at - known <= _TOGETHER:
            return own
        ends = (self.place[each.address, "end"] for each in self._told_with(index))
        return max((end for end in ends if end < index), default=own)

    def _told_with(self, index: int) -> Iterator[Step]:
        """The steps whose answers were delivered together with that of a moment, its own too."""
        at = self.moments[index].at
        first = bisect_left(self.moments, at - _TOGETHER, key=lambda moment: moment.at)
        for place in range(first, len(self.moments)):
            moment = self.moments[place]
            if moment.at > at + _TOGETHER:
                return
            if moment.kind == "told":
                yield moment.step

    def _first(self, at: int) -> int:
        """The index of the first moment after the time *at*."""
        return bisect_left(self.moments, at + 1, key=lambda moment: moment.at)

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


def _timed(calls: Any) -> Iterator[Any]:
    values = calls.values() if isinstance(calls, dict) else calls
    return (each for each in values if each.started is not None)


def _around(address: str) -> Iterator[str]:
    """The scopes around an address, innermost first; the run itself is the empty one."""
    while address:
        address = address.rpartition("/")[0]
        yield address
