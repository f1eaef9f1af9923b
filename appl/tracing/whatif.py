"""How long a recorded run would have taken if something had been otherwise: a simulation.

The moments of the run are events. Each happens when all that it waited for has happened, and as
long after it as it did in the record: the time of the program's own code stays what it was. With
another number of slots, what a call waited before it was sent is simulated too: who is ready first
is sent first (a discrete-event simulation; see Law, Simulation Modeling and Analysis, ch. 1).

Invariant: with nothing changed, every moment happens when it was recorded.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from appl.tracing.flow import Flow, Step

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
        self._needs: list[list[int]] = []
        self._delays: list[int] = []
        for index, moment in enumerate(flow.moments):
            needs = self._needed(index)
            self._needs.append(needs)
            since = max((flow.moments[i].at for i in needs), default=flow.begin)
            self._delays.append(moment.at - since)

    def _needed(self, index: int) -> list[int]:
        flow, moment = self.flow, self.flow.moments[index]
        if moment.kind == "end":
            return [flow.place[moment.step.address, "start"]]
        if moment.kind == "start":
            return flow.round(index) + flow.data(moment.step)
        before, own = flow.program(index), flow.place[moment.step.address, "end"]
        needs = dict.fromkeys((own, flow.answers(index)))
        return [*needs, *([] if before is None else [before])]

    def run(self, changes: Changes = NOTHING, beside: Iterable[tuple[Step, Step]] = ()) -> Outcome:
        """The run with *changes*; each second of *beside* does not wait for the first to begin."""
        return _Simulation(self, changes, dict(self._freed(beside))).run()

    def _freed(self, beside: Iterable[tuple[Step, Step]]) -> Iterable[tuple[int, list[int]]]:
        """For a call that need not wait for another, what it then waits for: what that one did."""
        flow = self.flow
        for step, other in beside:
            here = flow.place[step.address, "start"]
            there = flow.place[other.address, "start"]
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


class _Simulation:
    """Events in the order of their simulated times."""

    def __init__(self, model: Model, changes: Changes, freed: dict[int, list[int]]) -> None:
        self._model, self._changes = model, changes
        moments = model.flow.moments
        self._needs = [freed.get(i, needs) for i, needs in enumerate(model._needs)]
        self._left = [len(needs) for needs in self._needs]
        self._after: list[list[int]] = [[] for _ in moments]
        for index, needs in enumerate(self._needs):
            for need in needs:
                self._after[need].append(index)
        self._at = [model.flow.begin] * len(moments)
        self._due: list[tuple[int, int]] = []
        self._waiting: deque[int] = deque()
        self._present = self._most = 0

    def run(self) -> Outcome:
        flow = self._model.flow
        for index, left in enumerate(self._left):
            if not left:
                self._schedule(index, flow.begin)
        while self._due:
            at, index = heapq.heappop(self._due)
            self._at[index] = at
            if flow.moments[index].kind == "end":
                self._ended(index, at)
            for other in self._after[index]:
                self._left[other] -= 1
                if not self._left[other]:
                    self._schedule(other, max(self._at[i] for i in self._needs[other]))
        duration = max(self._at, default=flow.begin) - flow.begin
        return Outcome(duration, self._most, self._at)

    def _schedule(self, index: int, ready: int) -> None:
        """All that the moment waits for is there since *ready*."""
        moment = self._model.flow.moments[index]
        if moment.kind != "end":
            heapq.heappush(self._due, (ready + self._model._delays[index], index))
        elif self._takes_slot(moment.step) and self._changes.concurrency is not None:
            self._waiting.append(index)
            self._send(ready)
        else:
            if self._takes_slot(moment.step):
                self._enter()
            heapq.heappush(self._due, (ready + self._service(moment.step, True), index))

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
            step = self._model.flow.moments[index].step
            heapq.heappush(self._due, (now + self._service(step, False), index))

    def _ended(self, index: int, at: int) -> None:
        if self._takes_slot(self._model.flow.moments[index].step):
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
