"""A simulation of a recorded run under changed conditions: how long it would have taken.

The moments of the run are events. Each happens when all that it waited for has happened, and as
long after it as it did in the record: the time of the program's own code stays the same. As each
waits for earlier ones only, one pass over them in their order computes all times. With another
number of slots, the wait of a call before it was sent is simulated too: calls are sent in the order
in which they are ready (a discrete-event simulation; see Law, Simulation Modeling and Analysis,
ch. 1).

Invariant: with nothing changed, every moment happens when it was recorded.
"""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections import deque
from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, field

from appl.tracing.explaining.links import Links
from appl.tracing.explaining.moment_graph import END, START, MomentGraph
from appl.tracing.explaining.steps import Phases

_WAITS = ("queue",)
_FIXED = frozenset({"tool", "rate", "budget", "circuit"})  # what no model takes


@dataclass(frozen=True, slots=True)
class Changes:
    """Assumed changes: a factor on all times of models, the slots, and calls that are not made.

    ``without`` are addresses of calls, or of functions with all that they do.
    """

    latency: float = 1.0
    concurrency: int | None = None
    without: tuple[str, ...] = ()

    def removes(self, address: str) -> bool:
        """True if the call at *address* is not made."""
        return any(
            address == removed or address.startswith(removed + "/") for removed in self.without
        )


NOTHING = Changes()


@dataclass(slots=True)
class SimulatedRun:
    """A simulated run: its duration in microseconds, and the most calls that were under way."""

    duration: int
    most: int
    moments: list[int] = field(default_factory=list)


class RunModel:
    """The events of a run: the events each waits for, and its delay after them."""

    def __init__(self, graph: MomentGraph) -> None:
        self.graph = graph
        self.delays = array("q")
        self.needs = Links()
        for index, at in enumerate(graph.at):
            needs = self._needed(index)
            self.needs.add(needs)
            self.delays.append(at - (graph.at[max(needs)] if needs else graph.begin))

    def _needed(self, index: int) -> Sequence[int]:
        graph, step, kind = self.graph, self.graph.step(index), self.graph.kind(index)
        if kind == END:
            return [graph.place(step, START)]
        if kind == START:
            return [*graph.round(index), *graph.data(step)]
        before, own = graph.program(index), graph.place(step, END)
        needs = dict.fromkeys((own, graph.answers(index, before)))
        return [*needs, *([] if before is None else [before])]

    def run(self, changes: Changes = NOTHING) -> SimulatedRun:
        """The run with *changes*."""
        graph, calls = self.graph, _ChangedCalls(self.graph, changes)
        if changes.concurrency is not None:
            return _Simulation(self, calls, changes.concurrency).run()
        delays = self.delays.tolist()
        for step, took in enumerate(calls.took):
            delays[graph.place(step, END)] = took
        moments = [graph.begin] * len(graph)
        self._follow(moments, delays, 0)
        duration = max(moments, default=graph.begin) - graph.begin
        return SimulatedRun(duration, calls.most(moments), moments)

    def beside(self, step: int, other: int) -> int:
        """The length of the run if *step* does not wait for *other* to begin.

        It then waits for the needs of *other* instead.
        """
        graph, moments = self.graph, self.graph.at[:]
        here = graph.place(step, START)
        needs = [*graph.data(step), *graph.round(graph.place(other, START))]
        ready = max((moments[need] for need in needs), default=graph.begin)
        moments[here] = ready + self.delays[here]
        self._follow(moments, self.delays, here + 1)
        return max(moments) - graph.begin

    def _follow(self, moments: MutableSequence[int], delays: Sequence[int], first: int) -> None:
        """Compute the times of all *moments* from *first* on, each after those it waits for."""
        needs, begin = self.needs.all, self.graph.begin
        start = self.needs.ends[first]
        for index, until in enumerate(self.needs.ends[first + 1 :], first):
            if until == start + 1:
                ready = moments[needs[start]]
            else:
                ready = max([moments[need] for need in needs[start:until]], default=begin)
            moments[index] = ready + delays[index]
            start = until

    def recorded_most(self) -> int:
        """The most calls that a backend had at once."""
        changes: list[tuple[int, int]] = []
        steps = self.graph.steps
        for step, (start, end) in enumerate(zip(steps.start, steps.end, strict=True)):
            phases = steps.phases(step)
            sent = start + sum(took for kind, took in phases if kind in _WAITS)
            if phases and phases[0][0] != "tool" and end > sent:
                changes += [(sent, 1), (end, -1)]
        most = now = 0
        for _, change in sorted(changes):
            now += change
            most = max(most, now)
        return most


class _ChangedCalls:
    """The effect of *changes* on the calls: which take a slot, and how long each takes.

    ``took`` is from its begin to its end or, where slots are numbered, from when it has one.
    """

    def __init__(self, graph: MomentGraph, changes: Changes) -> None:
        self._flow, steps = graph, graph.steps
        self.slots, self.took = bytearray(), list[int]()
        for step, (start, end) in enumerate(zip(steps.start, steps.end, strict=True)):
            removed = bool(changes.without) and changes.removes(steps.address[step])
            phases = [] if removed else steps.phases(step)
            slot = bool(phases) and phases[0][0] != "tool"
            waits = changes.concurrency is None or not slot
            as_it_was = not phases or (changes.latency == 1.0 and waits)
            took = end - start if as_it_was else _took(phases, changes.latency, waits)
            self.slots.append(slot)
            self.took.append(0 if removed else took)

    def most(self, moments: Sequence[int]) -> int:
        """The most calls that were under way at once, when these are the times of all moments."""
        most = now = 0
        for index in sorted(range(len(moments)), key=moments.__getitem__):
            step, kind = divmod(self._flow.order[index], 3)
            if self.slots[step]:
                now += (kind == START) - (kind == END)
                most = max(most, now)
        return most


def _took(phases: Phases, latency: float, waits: bool) -> int:
    found = 0.0
    for kind, took in phases:
        if kind in _WAITS:
            found += took if waits else 0
        else:
            found += took if kind in _FIXED else took * latency
    return round(found)


class _Simulation:
    """Events in the order of their simulated times; calls wait for one of so many *slots*."""

    def __init__(self, model: RunModel, calls: _ChangedCalls, slots: int) -> None:
        self._model, self._calls, self._slots = model, calls, slots
        self._after = model.needs.turned()
        ends = model.needs.ends
        self._left = array("q", [end - start for start, end in itertools.pairwise(ends)])
        self._at = [model.graph.begin] * len(model.graph)
        self._due: list[tuple[int, int]] = []
        self._waiting: deque[int] = deque()
        self._present = self._most = 0

    def run(self) -> SimulatedRun:
        graph, needs, left = self._model.graph, self._model.needs, self._left
        for index in [i for i, count in enumerate(left) if not count]:
            self._schedule(index, graph.begin)
        while self._due:
            at, index = heapq.heappop(self._due)
            self._at[index] = at
            if graph.kind(index) == END:
                self._ended(index, at)
            for other in self._after.of(index):
                left[other] -= 1
                if not left[other]:
                    self._schedule(other, max([self._at[i] for i in needs.of(other)]))
        duration = max(self._at, default=graph.begin) - graph.begin
        return SimulatedRun(duration, self._most, self._at)

    def _schedule(self, index: int, ready: int) -> None:
        """Schedule a moment whose needs have all happened at *ready*."""
        step, kind = divmod(self._model.graph.order[index], 3)
        if kind != END:
            heapq.heappush(self._due, (ready + self._model.delays[index], index))
        elif self._calls.slots[step]:
            self._waiting.append(index)
            self._send(ready)
        else:
            heapq.heappush(self._due, (ready + self._calls.took[step], index))

    def _send(self, now: int) -> None:
        """Send waiting calls as long as there are slots."""
        while self._waiting and self._present < self._slots:
            index = self._waiting.popleft()
            self._present += 1
            self._most = max(self._most, self._present)
            took = self._calls.took[self._model.graph.step(index)]
            heapq.heappush(self._due, (now + took, index))

    def _ended(self, index: int, at: int) -> None:
        if self._calls.slots[self._model.graph.step(index)]:
            self._present -= 1
            self._send(at)
