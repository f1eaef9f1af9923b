"""Evaluations that were recorded, read from their traces."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from appl.errors import InvalidOption
from appl.parts.evaluation.report import Evaluation, EvaluationUsage, Sample
from appl.tracing.reading.trace import Trace

SUBJECT, SAMPLE = "evaluation", "sample"
"""The kinds of the records: what is evaluated in a scope, and one sample with its scores."""


def recorded(trace: Trace | str | os.PathLike[str]) -> Evaluation:
    """The last evaluation in *trace*, as far as it came. Raises ``InvalidOption`` without one."""
    opened = trace if isinstance(trace, Trace) else Trace.open(trace)
    evaluations = all_recorded(opened)
    if not evaluations:
        raise InvalidOption(
            f"{opened.path} records no evaluation; `appl eval` and appl.evaluate() make one"
        )
    return evaluations[-1]


def all_recorded(trace: Trace) -> list[Evaluation]:
    """All evaluations in *trace*, in the order in which they began."""
    subjects = {
        observation.address: observation.value
        for observation in trace.observations
        if observation.kind == SUBJECT and isinstance(observation.value, Mapping)
    }
    below = {str(value.get("against")) for value in subjects.values()}
    outer = [address for address in subjects if address not in below]
    return [_evaluation(trace, address, subjects) for address in outer]


def _evaluation(trace: Trace, address: str, subjects: Mapping[str, Any]) -> Evaluation:
    subject = subjects[address]
    samples_by_order = [
        (_count(observation.value.get("order")), _sample(observation.value, observation.address))
        for observation in trace.observations
        if observation.kind == SAMPLE
        and observation.address.rpartition("/")[0] == address
        and isinstance(observation.value, Mapping)
    ]
    samples = [sample for _, sample in sorted(samples_by_order, key=itemgetter(0))]
    against, names = subject.get("against"), subject.get("scores")
    other = None
    if isinstance(against, str) and against in subjects:
        other = _evaluation(trace, against, {against: {**subjects[against], "against": None}})
    names = tuple(map(str, names)) if isinstance(names, list) else ()
    return Evaluation(
        str(subject.get("program")), names, samples, _usage(trace, samples), 0.0, other
    )


def _sample(value: Mapping[str, Any], address: str) -> Sample:
    scores, errors, error = value.get("scores"), value.get("errors"), value.get("error")
    return Sample(
        str(value.get("id")),
        _count(value.get("number")),
        value.get("input"),
        value.get("target"),
        value.get("answer"),
        {str(k): (v if type(v) is float and math.isfinite(v) else None) for k, v in scores.items()}
        if isinstance(scores, Mapping)
        else {},
        None if error is None else str(error),
        {str(k): str(v) for k, v in errors.items()} if isinstance(errors, Mapping) else {},
        address,
    )


def _count(value: object) -> int:
    """*value* as the record of a whole number; a record may hold anything."""
    return value if type(value) is int else 0


def _usage(trace: Trace, samples: list[Sample]) -> EvaluationUsage:
    places = tuple(f"{sample.address}/" for sample in samples)
    calls = [call for call in trace.calls if call.address.startswith(places)]
    costs = [call.response.cost for call in calls if call.response is not None]
    return EvaluationUsage(
        len(calls),
        sum(call.source is not None for call in calls),
        sum(cost or 0 for cost in costs),
        sum(cost is None for cost in costs),
    )
