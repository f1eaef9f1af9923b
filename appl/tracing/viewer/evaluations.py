"""The evaluations of a run, as the viewer shows them: their tables, and their samples in short.

Invariant: a run without the part that evaluates, or without evaluations, has none; texts are cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appl.tracing.reading.trace import Trace

_LONG = 500
_MOST = 5_000


def documents(trace: Trace) -> list[dict[str, object]]:
    """Each evaluation of *trace* as JSON-ready data."""
    if not any(observation.kind == "evaluation" for observation in trace.observations):
        return []
    from appl.parts.evaluation.trace_reading import all_recorded

    return [_document(evaluation) for evaluation in all_recorded(trace)]


def _document(evaluation: Any) -> dict[str, object]:
    return {
        "title": evaluation.title(),
        "head": list(evaluation.head()),
        "rows": [list(row) for row in evaluation.rows()],
        "names": list(evaluation.names),
        "samples": [_sample(sample) for sample in evaluation.samples[:_MOST]],
    }


def _sample(sample: Any) -> dict[str, object]:
    return {
        "id": sample.id[:_LONG],
        "number": sample.number,
        "target": _short(sample.target),
        "answer": _short(sample.answer),
        "scores": dict(sample.scores),
        "error": None if sample.error is None else sample.error[:_LONG],
        "errors": {name: error[:_LONG] for name, error in sample.errors.items()},
        "address": sample.address,
    }


def _short(value: object) -> str:
    """The beginning of the text of *value*; a mapping of one value is that value."""
    if isinstance(value, Mapping) and len(value) == 1:
        value = next(iter(value.values()))
    return "" if value is None else str(value)[:_LONG]
