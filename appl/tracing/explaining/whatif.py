"""How long a recorded run would have taken if something had been otherwise: a simulation.

The moments of the run are events. Each happens when all that it waited for has happened, and as
long after it as it did in the record: the time of the program's own code stays what it was. With
another number of slots, what a call waited before it was sent is simulated too: who is ready first
is sent first (a discrete-event simulation; see Law, Simulation Modeling and Analysis, ch. 1).

Invariant: with nothing changed, every moment happens when it was recorded.
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from appl.tracing.explaining.flow import END, START, Flow, Step

_WAITS = ("queue",)
_FIXED = frozenset({"tool", "rate", "budget", "circuit"})  # what no model takes


@dataclass(frozen=True, slots=True)
class Changes:
    """What is otherwise: all times of models by a factor, the slots, and calls that are not made.

    ``without`` are addresses of calls, or of functions with all that they do.
    """

    latency: float = 1.0
    concurrency: int | None = None
    without: tuple[str, ...] = ()

    def removes(self, address: str) -> bool:
        """Whether the call at *address* is not made."""
        return any(address == each or address.startswith(each + "/") for each in self.without)


NOTHING = Changes()


@dataclass(slots=True)
class Outcome:
    """A simulated run: its duration in microseconds, and the most calls that were under way."""

    duration: int
    most: int
    moments: list[int] = field(default_factory=list)


class Model:
    """The events of a run, with what each waits for and how long after that it happens."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.delays = array("q")
        self._needs = Links()
        for index, at in enumerate(flow.at):
            needs = self._needed(index)
            self._needs.add(needs)
            since = max((flow.at[need] for need in needs), default=flow.begin)
            self.delays.append(at - since)
        self._after = self._needs.turned()

    def needs(self, index: int) -> Sequence[int]:
        """The events that one waits for."""
        return self._needs.of(index)

    def after(self, index: int) -> Sequence[int]:
        """The events that wait for one."""
        return self._after.of(index)

    def _needed(self, index: int) -> list[int]:
        flow, step, kind = self.flow, self.flow.step(index), self.flow.kind(index)
        if kind == END:
            return [flow.place(step, START)]
        if kind == START:
            return flow.round(index) + flow.data(step)
        before, own = flow.program(index), flow.place(step, END)
        needs = dict.fromkeys((own, flow.answers(index)))
        return [*needs, *([] if before is None else [before])]

    def run(self, changes: Changes = NOTHING, beside: Iterable[tuple[Step, Step]] = ()) -> Outcome:
        """The run with *changes*; each second of *beside* does not wait for the first to begin."""
        return _Simulation(self, changes, dict(self._freed(beside))).run()

    def _freed(self, beside: Iterable[tuple[Step, Step]]) -> Iterable[tuple[int, list[int]]]:
        """For a call that need not wait for another, what it then waits for: what that one did."""
        flow = self.flow
        for step, other in beside:
            here, there = flow.place(step, START), flow.place(other, START)
            yield here, flow.data(step) + flow.round(there)

    def recorded_most(self) -> int:
        """The most calls that a backend had at once."""
        changes: list[tuple[int, int]] = []
        for step in self.flow.steps.values():
            sent = step.start + sum(took for kind, took in step.phases if kind in _WAITS)
            if step.phases and step.phases[0][0] != "tool" and step.end > sent:
                changes += [(sent, 1), (step.end, -1)]
        most = now = 0
        for _, change in sorted(changes):
            now += change
            most = max(most, now)
        return most


class Links:
    """For each of many numbers, a few others: kept in two arrays."""

    def __init__(self) -> None:
        self._ends, self._all = array("q", [0]), array("q")

    def add(self, others: Iterable[int]) -> None:
        """The others of the next number."""
        self._all.extend(others)
        self._ends.append(len(self._all))

    def of(self, number: int) -> Sequence[int]:
        """The others of *number*."""
        return self._all[self._ends[number] : self._ends[number + 1]]

    def turned(self) -> Links:
        """The same links, from the others."""
        made, size = Links(), len(self._ends) - 1
        counts = array("q", [0]) * size
        for other in self._all:
            counts[other] += 1
        made._ends.extend(accumulate(counts))
        made._all = array("q", [0]) * len(self._all)
        places = made._ends[:-1]
        for number in range(size):
            for other in self.of(number):
                made._all[places[other]] = number
                places[other] += 1
        return made


class _Simulation:
    """Events in the order of their simulated times; what is *freed* waits for others."""

    def __init__(self, model: Model, changes: Changes, freed: dict[int, list[int]]) -> None:
        self._model, self._changes, self._freed = model, changes, freed
        size = len(model.flow)
        self._left = array("q", [len(self._needs(i)) for i in range(size)])
        self._after_freed: dict[int, list[int]] = {}
        for index, needs in freed.items():
            for need in needs:
                self._after_freed.setdefault(need, []).append(index)
        self._at = [model.flow.begin] * size
        self._due: list[tuple[int, int]] = []
        self._waiting: deque[int] = deque()
        self._present = self._most = 0

    def _needs(self, index: int) -> Sequence[int]:
        return self._freed[index] if index in self._freed else self._model.needs(index)

    def _after(self, index: int) -> Iterator[int]:
        yield from (each for each in self._model.after(index) if each not in self._freed)
        yield from self._after_freed.get(index, ())

    def run(self) -> Outcome:
        flow = self._model.flow
        for index in [i for i, left in enumerate(self._left) if not left]:
            self._schedule(index, flow.begin)
        while self._due:
            at, index = heapq.heappop(self._due)
            self._at[index] = at
            if flow.kind(index) == END:
                self._ended(index, at)
            for other in self._after(index):
                self._left[other] -= 1
                if not self._left[other]:
                    self._schedule(other, max(self._at[i] for i in self._needs(other)))
        duration = max(self._at, default=flow.begin) - flow.begin
        return Outcome(duration, self._most, self._at)

    def _schedule(self, index: int, ready: int) -> None:
        """All that the moment waits for is there since *ready*."""
        flow = self._model.flow
        step = flow.step(index)
        if flow.kind(index) != END:
            heapq.heappush(self._due, (ready + self._model.delays[index], index))
        elif self._takes_slot(step) and self._changes.concurrency is not None:
            self._waiting.append(index)
            self._send(ready)
        else:
            if self._takes_slot(step):
                self._enter()
            heapq.heappush(self._due, (ready + self._service(step, True), index))

    def _takes_slot(self, step: Step) -> bool:
        removed = self._changes.removes(step.address)
        return bool(step.phases) and step.phases[0][0] != "tool" and not removed

    def _enter(self) -> None:
        self._present += 1
        self._most = max(self._most, self._present)

    def _send(self, now: int) -> None:
        """Send who waits, as long as there are slots."""
        slots = self._changes.concurrency
        while self._waiting and (slots is None or self._present < slots):
            index = self._waiting.popleft()
            self._enter()
            step = self._model.flow.step(index)
            heapq.heappush(self._due, (now + self._service(step, False), index))

    def _ended(self, index: int, at: int) -> None:
        if self._takes_slot(self._model.flow.step(index)):
            self._present -= 1
            self._send(at)

    def _service(self, step: Step, waits: bool) -> int:
        """How long the call takes from its begin, or from when it is sent, to its end."""
        changes = self._changes
        if changes.removes(step.address):
            return 0
        if not step.phases or (changes.latency == 1.0 and waits):
            return step.end - step.start
        found = 0.0
        for kind, took in step.phases:
            if kind in _WAITS:
                found += took if waits else 0
            else:
                found += took if kind in _FIXED else took * changes.latency
        return round(found)
