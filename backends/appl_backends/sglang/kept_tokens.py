"""Answers of the native interface with their token ids, for programs that train on them.

Invariant: ids are those that were sent to the server and that it sent back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from appl.backend import Request, Sample
from appl.backend.tokens import Kept, PromptTokens, SampleTokens
from appl_backends.sglang.answers import asked_for

WITH_LOGPROBS = b',"return_logprob":true'
"""The member of a body that asks for the log-probabilities of the generated tokens."""


def with_tokens(
    samples: Sequence[Sample],
    answers: Sequence[Mapping[str, Any]],
    request: Request,
    prompt: PromptTokens,
    kept: Kept,
) -> list[Sample]:
    """*samples* with the ids of the *answers* that they were read from, to *prompt*.

    Log-probabilities that the program did not ask for stand with the ids only.
    """
    found = []
    for sample, answer in zip(samples, answers, strict=True):
        logprobs = _logprobs(answer) if kept == "logprobs" else None
        tokens = SampleTokens(request, prompt, answer["output_ids"], logprobs)
        found.append(replace(asked_for(sample, request.sampling.logprobs), tokens=tokens))
    return found


def _logprobs(answer: Mapping[str, Any]) -> list[float] | None:
    """The log-probability of each id of *answer*; ``None`` unless the server names the same ids."""
    found, ids = answer["meta_info"].get("output_token_logprobs"), answer["output_ids"]
    try:
        pairs = [(float(entry[0]), entry[1]) for entry in found]
    except (TypeError, ValueError, LookupError):
        return None
    return [value for value, _ in pairs] if [token for _, token in pairs] == ids else None
