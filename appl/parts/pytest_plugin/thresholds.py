"""Evaluations in tests: a mean that is too low fails the test, with the table."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from appl.parts.evaluation.report import Evaluation
from appl.parts.evaluation.sample_runs import evaluate
from appl.runtime.concurrency.fiber import in_coroutine


def evaluate_at_least(
    folder: Path,
    f: Callable[..., object],
    data: object,
    *,
    at_least: float | Mapping[str, float] = 0.0,
    **options: Any,
) -> Any:
    """Evaluate *f*, and fail the test if a mean is below *at_least*; in a coroutine ``await`` it.

    A relative path of *data* begins at *folder*.
    """
    if isinstance(data, str | os.PathLike):
        data = folder / data
    evaluation = evaluate(f, data, progress=False, **options)
    if in_coroutine():
        return _awaited(evaluation, at_least)
    return _checked(evaluation, at_least)


async def _awaited(evaluation: object, at_least: float | Mapping[str, float]) -> Evaluation:
    return _checked(await cast(Awaitable[Evaluation], evaluation), at_least)


def _checked(evaluation: Evaluation, at_least: float | Mapping[str, float]) -> Evaluation:
    limits = (
        at_least if isinstance(at_least, Mapping) else dict.fromkeys(evaluation.names, at_least)
    )
    unknown = [name for name in limits if name not in evaluation.names]
    if unknown:
        names = ", ".join(evaluation.names)
        pytest.fail(f"at_least: there is no score {unknown[0]!r} ({names})", pytrace=False)
    low = [
        f"{name} is {evaluation.mean(name):.3f}, below {least:g}"
        for name, least in limits.items()
        if evaluation.mean(name) < least
    ]
    if low:
        pytest.fail("\n".join([*low, str(evaluation)]), pytrace=False)
    return evaluation
