"""A timeline for chrome://tracing and Perfetto, in the trace event format.

Invariant: events on one line of the timeline never overlap, so that none hides another. Texts are
in it only with *content*.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterator

from appl.tracing.exporting import conventions as names
from appl.tracing.exporting.spans import ExportSpan, spans_of
from appl.tracing.reading.trace import Trace

_RUN, _CALLS, _TOOLS, _SCOPES = 1, 2, 3, 4
_PROCESSES = {_RUN: "run", _CALLS: "calls", _TOOLS: "tools", _SCOPES: "functions"}


def lines(trace: Trace, *, content: bool = False) -> Iterator[str]:
    """The timeline of *trace* as the lines of a JSON document."""
    spans = spans_of(trace, content=content).spans
    zero = min(span.start for span in spans)
    yield '{"displayTimeUnit": "ms", "traceEvents": ['
    events = _events(spans, zero)
    first = next(events)
    yield json.dumps(first)
    for event in events:
        yield "," + json.dumps(event)
    yield "]}"


def _events(spans: list[ExportSpan], zero: int) -> Iterator[dict[str, object]]:
    for process, name in _PROCESSES.items():
        about = {"name": "process_name", "ph": "M", "pid": process, "tid": 0}
        yield {**about, "args": {"name": name}}
    places: dict[bytes, dict[str, object]] = {}
    groups: dict[int, list[ExportSpan]] = {}
    for span in spans:
        groups.setdefault(_process(span), []).append(span)
    for process, group in groups.items():
        for span, lane in laned(group):
            at = {"pid": process, "tid": lane, "ts": (span.start - zero) / 1000}
            places[span.identity] = {**at, "end": (span.end - zero) / 1000}
            error = {} if span.error is None else {"error": span.error}
            yield {
                "name": span.name,
                "cat": _PROCESSES[process],
                "ph": "X",
                **at,
                "dur": (span.end - span.start) / 1000,
                "args": {**span.attributes, **error},
            }
            for event in span.events:
                when = (event.at - zero) / 1000
                mark = {"name": event.name, "ph": "i", "s": "t", **at, "ts": when}
                yield {**mark, "args": dict(event.attributes)}
    # An arrow leads from each answer to the calls whose prompts hold it.
    numbers = itertools.count(1)
    for span in spans:
        for link in span.links:
            if link not in places:
                continue
            number, source, target = next(numbers), places[link], places[span.identity]
            flow = {"name": "answer", "cat": "data", "id": number}
            begin = {"pid": source["pid"], "tid": source["tid"], "ts": source["end"]}
            end = {"pid": target["pid"], "tid": target["tid"], "ts": target["ts"]}
            yield {**flow, "ph": "s", **begin}
            yield {**flow, "ph": "f", "bp": "e", **end}


def _process(span: ExportSpan) -> int:
    operation = span.attributes.get(names.OPERATION)
    if span.parent is None:
        return _RUN
    if operation == names.CHAT:
        return _CALLS
    return _TOOLS if operation == names.EXECUTE_TOOL else _SCOPES


def laned(spans: list[ExportSpan]) -> Iterator[tuple[ExportSpan, int]]:
    """Yields each span with the first line that is free when it starts."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    lanes = itertools.count(1)
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        while busy and busy[0][0] <= span.start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else next(lanes)
        heapq.heappush(busy, (max(span.end, span.start + 1), lane))
        yield span, lane
