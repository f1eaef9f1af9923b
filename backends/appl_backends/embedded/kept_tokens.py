"""Answers of the engine with their token ids, for programs that train on them.

Invariant: ids are those that the engine computed, prompt and answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from appl.backend import Request, Response, Sample
from appl.backend.tokens import SampleTokens, WholePrompt
from appl_backends.embedded.task import EngineTask


def with_tokens(response: Response, request: Request, task: EngineTask) -> Response:
    """*response*, the one of *task*, with the ids of its samples."""
    return replace(response, samples=tuple(_samples(response, request, task)))


def _samples(response: Response, request: Request, task: EngineTask) -> Iterator[Sample]:
    prompt = WholePrompt(task.prompt)
    for sample, run in zip(response.samples, task.live, strict=True):
        ids = run.ids[len(task.prompt) :]
        known = task.probe is not None and [entry.token for entry in run.probed] == ids
        logprobs = [entry.logprob for entry in run.probed] if known else None
        yield replace(sample, tokens=SampleTokens(request, prompt, ids, logprobs))
