"""The critical path of a run: the steps that its end waited for, back to its begin.

Each moment waited for the latest of its needs: a call's begin for the answers in its prompt and for
the answers that its program got before, the program for the call's end. Following these waits back
from the last moment divides the whole time of the run by what it was spent on (compare the critical
path of Graham, Eick and others' activity networks).

Invariant: the segments of a path follow each other without gaps, from the run's begin to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appl.tracing.explaining.moment_graph import END, START, TOLD, MomentGraph
from appl.tracing.explaining.run_model import RunModel
from appl.tracing.explaining.steps import Steps
from appl.tracing.reading.trace import Trace

_TRIED, _EVENTS = 12, 600_000  # waits that are simulated, and events of all simulations


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the path: the ``kind`` of work that took the time, and its call, if any.

    Besides the phases of a step the kinds are ``delivery`` (a finished answer waits for its
    program), and ``program`` (ordinary code, and waits that are not recorded).
    """

    kind: str
    start: int
    end: int
    address: str = ""
    where: str = ""

    @property
    def took(self) -> int:
        """Its length in microseconds."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class OrderWait:
    """A call on the path that began only when ``after`` was delivered, without its answer.

    ``predicted`` is how long the run would have taken in microseconds if the program had asked for
    both at once.
    """

    address: str
    where: str
    after: str
    after_where: str
    predicted: int


@dataclass(slots=True)
class Critical:
    """The path, first segment first; ``kinds`` sums its time by kind, in microseconds."""

    duration: int
    segments: list[Segment]
    kinds: dict[str, int]
    waits: list[OrderWait] = field(default_factory=list)

    def as_data(self, most: int | None = None) -> dict[str, object]:
        """The path as JSON-ready data, at most *most* segments of it, the longest."""
        segments = longest(self.segments, most)
        return {
            "duration_us": self.duration,
            "kinds_us": self.kinds,
            "segments_count": len(self.segments),
            "segments": [
                {
                    "kind": segment.kind,
                    "start_us": segment.start,
                    "took_us": segment.took,
                    "address": segment.address or None,
                    "where": segment.where or None,
                }
                for segment in segments
            ],
            "order_waits": [
                {
                    "address": wait.address,
                    "where": wait.where,
                    "after": wait.after,
                    "after_where": wait.after_where,
                    "predicted_us": wait.predicted,
                    "gain_us": self.duration - wait.predicted,
                }
                for wait in self.waits
            ],
        }


def longest(segments: list[Segment], most: int | None) -> list[Segment]:
    """The *most* longest of *segments*, in their order."""
    if most is None or len(segments) <= most:
        return segments
    order = sorted(range(len(segments)), key=lambda i: -segments[i].took)[:most]
    return [segments[i] for i in sorted(order)]


def critical(run: Trace | Steps) -> Critical:
    """The critical path of *run*; of a long one only the longest waits are predicted."""
    graph = MomentGraph(run)
    if not len(graph):
        return Critical(0, [], {})
    segments, waits = _walk(graph)
    kinds: dict[str, int] = {}
    for segment in segments:
        kinds[segment.kind] = kinds.get(segment.kind, 0) + segment.took
    tried = min(_TRIED, max(_EVENTS // len(graph), 1))
    return Critical(graph.end - graph.begin, segments, kinds, _predicted(graph, waits[:tried]))


def _predicted(graph: MomentGraph, waits: list[tuple[int, int]]) -> list[OrderWait]:
    """The waits for order with their predicted cost, the most costly first."""
    if not waits:
        return []
    model, address, where = RunModel(graph), graph.steps.address, graph.steps.where
    predicted = [
        OrderWait(
            address[step], where[step], address[other], where[other], model.beside(step, other)
        )
        for step, other in waits
    ]
    return sorted(predicted, key=lambda wait: wait.predicted)


def _walk(graph: MomentGraph) -> tuple[list[Segment], list[tuple[int, int]]]:
    """The segments, first one first, and the waits for order, longest waited for first."""
    steps = graph.steps
    segments: list[Segment] = []
    waits: list[tuple[int, int, int]] = []
    index: int | None = len(graph) - 1
    while index is not None:
        step, at, what = graph.step(index), graph.at[index], graph.kind(index)
        if what == END:
            begin, end = steps.start[step], steps.end[step]
            address, where = steps.address[step], steps.where[step]
            for kind, took in reversed(steps.phases(step)):  # the last one first
                start = max(end - took, begin)
                if end > start:
                    segments.append(Segment(kind, start, end, address, where))
                end = start
            if end > begin:
                segments.append(Segment("answer", begin, end, address, where))
            index = graph.place(step, START)
            continue
        before = graph.program(index)
        if what == TOLD:
            ready: int | None = graph.answers(index, before)
        else:
            ready = max(graph.data(step), default=None)
            if before is not None and (ready is None or before > ready):
                other = graph.step(before)
                if not graph.holds(step, other):
                    waits.append((steps.end[other] - steps.start[other], step, other))
        previous = max((i for i in (before, ready) if i is not None), default=None)
        since = graph.begin if previous is None else graph.at[previous]
        kind = "delivery" if what == TOLD and previous == ready else "program"
        if at > since:
            owner = graph.step(previous) if kind == "delivery" and previous else step
            segments.append(Segment(kind, since, at, steps.address[owner], steps.where[owner]))
        index = previous
    segments.reverse()
    waits.sort(key=lambda wait: -wait[0])
    return segments, [(step, other) for _, step, other in waits]
