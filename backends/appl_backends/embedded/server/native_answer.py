"""Answers to native requests, key by key as SGLang gives them.

Invariant: the last event of a stream equals the whole answer, unless events hold only what is new.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appl_backends.embedded.probe import Scored, TokenEntry, TokenProbe
    from appl_backends.embedded.server.jobs import EngineJob
    from appl_backends.embedded.server.native_request import PromptRequest
    from appl_backends.embedded.server.special_tokens import Words
    from appl_backends.embedded.task import SequenceRun


@dataclass(frozen=True, slots=True)
class Extent:
    """The tokens that an answer or an event covers; ``finish`` is why there will be no more."""

    start: int
    end: int
    finish: str


class AnswerWriter:
    """Says what a sequence has generated."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def whole(self, job: EngineJob, run: SequenceRun, asked: PromptRequest) -> dict[str, Any]:
        """The answer of a finished sequence."""
        extent = Extent(0, len(run.ids) - len(asked.prompt), run.finish)
        return self.part(job, run, asked, run.writer.text, extent)

    def part(
        self, job: EngineJob, run: SequenceRun, asked: PromptRequest, text: str, extent: Extent
    ) -> dict[str, Any]:
        """The part of the answer that *extent* covers, whose text is *text*."""
        first = len(asked.prompt)
        return {
            "text": text,
            "output_ids": run.ids[first + extent.start : first + extent.end],
            **({"prompt_token_ids": asked.prompt} if asked.echo else {}),
            "meta_info": self._meta(job, run, asked, extent),
        }

    def _meta(
        self, job: EngineJob, run: SequenceRun, asked: PromptRequest, extent: Extent
    ) -> dict[str, Any]:
        cached, several = run.cached or 0, len(job.task.live) > 1
        ended = {"e2e_latency": time.perf_counter() - job.began} if extent.finish else {}
        return {
            "id": f"{job.rid}_{run.index}" if several else job.rid,
            "finish_reason": _reason(run, extent, self._words.end),
            "prompt_tokens": len(asked.prompt),
            "weight_version": "default",
            "num_retractions": 0,
            **self._logprobs(run, asked, extent),
            "reasoning_tokens": 0,
            "completion_tokens": extent.end,
            "cached_tokens": cached,
            "cached_tokens_details": {"device": cached, "host": 0} if cached else None,
            "dp_rank": None,
            **ended,
        }

    def _logprobs(self, run: SequenceRun, asked: PromptRequest, extent: Extent) -> dict[str, Any]:
        probe = asked.probe
        if probe is None:
            return {}
        found: dict[str, Any] = {}
        if not extent.start:
            found |= self._of_prompt(run.task.scored, asked, probe)
        answer = run.probed[extent.start : extent.end]
        found["output_token_logprobs"] = self._own(answer, asked)
        found["output_token_logprobs_length"] = len(answer)
        return found | self._others("output", answer, asked, probe)

    def _of_prompt(
        self, entries: Sequence[TokenEntry], asked: PromptRequest, probe: TokenProbe
    ) -> dict[str, Any]:
        """The entries of the prompt; the first has no value, as nothing is known before it."""
        if probe.start >= len(asked.prompt):
            return {"input_token_logprobs": [], **self._others("input", [], asked, probe)}
        first = [None, *self._word(asked.prompt[probe.start], asked)]
        others = self._others("input", entries, asked, probe)
        return {
            "input_token_logprobs": [first, *self._own(entries, asked)],
            **{name: [None, *rows] for name, rows in others.items()},
        }

    def _own(self, entries: Sequence[TokenEntry], asked: PromptRequest) -> list[list[Any]]:
        return [[entry.logprob, *self._word(entry.token, asked)] for entry in entries]

    def _others(
        self, side: str, entries: Sequence[TokenEntry], asked: PromptRequest, probe: TokenProbe
    ) -> dict[str, list[Any]]:
        """The likeliest tokens and those asked for, where they are wanted."""
        found = {}
        if probe.top:
            rows = [self._scored(entry.top, asked) for entry in entries]
            found[f"{side}_top_logprobs"] = rows
        if probe.tokens:
            rows = [self._scored(entry.asked, asked) for entry in entries]
            found[f"{side}_token_ids_logprobs"] = rows
        return found

    def _scored(self, scored: Sequence[Scored], asked: PromptRequest) -> list[list[Any]]:
        return [[logprob, *self._word(token, asked)] for logprob, token in scored]

    def _word(self, token: int, asked: PromptRequest) -> list[Any]:
        return [token, self._words.shown(token) if asked.texts else None]


def _reason(run: SequenceRun, extent: Extent, end: int) -> dict[str, Any] | None:
    if not extent.finish:
        return None
    if extent.finish == "abort":
        message = "Aborted" if extent.end else "Abort in waiting queue"
        return {"type": "abort", "message": message, "status_code": None, "err_type": None}
    if extent.finish == "length":
        return {"type": "length", "length": extent.end}
    return {"type": "stop", "matched": run.matched(end)}
