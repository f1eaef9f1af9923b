"""The predicted duration of a recorded run without one of its waits.

The moments of the run are events. Each happens when all that it waited for has happened, and as
long after it as it did in the record: the time of the program's own code stays the same. As each
waits for earlier ones only, one pass over them in their order computes all times.

Invariant: with nothing changed, every moment happens when it was recorded.
"""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence, Sequence

from appl.tracing.explaining.links import Links
from appl.tracing.explaining.moment_graph import END, START, MomentGraph


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
