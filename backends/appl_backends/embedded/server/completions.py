"""OpenAI's older ``/v1/completions``: texts or token ids that are continued as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from appl.parts.web.events import EventStream
from appl.parts.web.refusals import Refusal, streamed
from appl_backends.embedded.constraint import AnswerForm
from appl_backends.embedded.probe import TokenProbe
from appl_backends.embedded.server.fields import Fields, are_tokens, parsed
from appl_backends.embedded.server.jobs import EngineJob, Jobs
from appl_backends.embedded.server.sampling import Params, params
from appl_backends.embedded.server.shapes import (
    check,
    head,
    matched,
    said,
    told,
    usage,
    wants_usage,
)
from appl_backends.embedded.server.special_tokens import Words
from appl_backends.embedded.task import EngineTask, SequenceRun

DEFAULT_TOKENS = 16
_MOST_TOP = 5
_SAME = (
    "temperature",
    "top_p",
    "n",
    "stop",
    "stop_token_ids",
    "regex",
    "ebnf",
    "json_schema",
    "ignore_eos",
)
_PROMPTS = "text, a list of token ids, or a list of these"


@dataclass(frozen=True, slots=True)
class _Part:
    """The text and the tokens that a choice covers; ``last``: there will be no more."""

    text: str
    start: int
    end: int
    last: bool


class Completions:
    """The route ``/v1/completions``."""

    def __init__(self, jobs: Jobs, words: Words) -> None:
        self._jobs, self._words, self._backend = jobs, words, jobs.backend

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        given = parsed(await request.read())
        check(given)
        stream, counted = given.flag("stream"), wants_usage(given)
        opening, wanted = head("text_completion", "cmpl"), self._params(given)
        tasks = await self._tasks(given, wanted, stream)
        name = opening["id"]
        jobs = [EngineJob(f"{name}_{at}", task, name) for at, task in enumerate(tasks)]
        if stream:
            return await self._stream(request, jobs, opening, counted)
        await self._jobs.answer(jobs)
        choices = [
            self._choice(run, at * wanted.n + run.index, _whole(run))
            for at, task in enumerate(tasks)
            for run in task.live
        ]
        return web.json_response({**opening, "choices": choices, **told(tasks)})

    def _params(self, given: Fields) -> Params:
        found = {name: given.raw(name) for name in _SAME if name in given}
        found["max_new_tokens"] = given.whole("max_tokens", DEFAULT_TOKENS, 0, 1 << 30)
        if "seed" in given:
            found["sampling_seed"] = given.raw("seed")
        return params(Fields(found), self._words.vocab)

    async def _tasks(self, given: Fields, wanted: Params, stream: bool) -> list[EngineTask]:
        top = given.whole("logprobs", 0, 0, _MOST_TOP) if "logprobs" in given else None
        prompts, constraint = self._prompts(given), None
        if wanted.wanted != AnswerForm():
            constraint = await asyncio.to_thread(self._backend.constraints.compile, wanted.wanted)
        return [
            EngineTask(
                prompt,
                wanted.draws(),
                self._most(wanted, len(prompt)),
                stop=wanted.stop,
                constraint=constraint,
                stream=stream,
                stop_tokens=wanted.stop_tokens,
                probe=None if top is None else TokenProbe(len(prompt), top),
                each=stream,
                ignore_end=wanted.ignore_end,
            )
            for prompt in prompts
        ]

    def _prompts(self, given: Fields) -> list[list[int]]:
        prompt = given.raw("prompt")
        if isinstance(prompt, str) or are_tokens(prompt, self._words.vocab):
            prompt = [prompt]
        if not isinstance(prompt, list) or not prompt:
            raise given.wrong("prompt", _PROMPTS)
        return [self._ids(given, one) for one in prompt]

    def _ids(self, given: Fields, prompt: Any) -> list[int]:
        if isinstance(prompt, str):
            longest = self._backend.tokenizer.longest
            if len(prompt) > self._backend.engine.context * longest:
                raise self._too_long(len(prompt) // longest)
            prompt = self._words.encode(prompt)
        if not prompt or not are_tokens(prompt, self._words.vocab):
            raise given.wrong("prompt", _PROMPTS)
        ids: list[int] = prompt
        return ids

    def _most(self, wanted: Params, size: int) -> int:
        most = wanted.max_tokens or 0
        if size + max(1, most) > self._backend.engine.context:
            raise self._too_long(size + most)
        return most

    def _too_long(self, size: int) -> Refusal:
        return Refusal(
            f"This model's maximum context length is {self._backend.engine.context} tokens, the "
            f"request asks for {size} in prompt and completion.",
            param="prompt",
            code="context_length_exceeded",
        )

    def _choice(self, run: SequenceRun, index: int, part: _Part) -> dict[str, Any]:
        return {
            "index": index,
            "text": part.text,
            "logprobs": self._logprobs(run, part),
            "finish_reason": run.finish if part.last else None,
            "matched_stop": matched(run, self._words) if part.last else None,
        }

    def _logprobs(self, run: SequenceRun, part: _Part) -> dict[str, Any] | None:
        if run.task.probe is None:
            return None
        entries = said(run, run.probed[part.start : part.end], self._words)
        shown = self._words.shown
        return {
            "tokens": [shown(entry.token) for entry in entries],
            "token_logprobs": [entry.logprob for entry in entries],
            "top_logprobs": [
                {shown(token): logprob for logprob, token in entry.top} for entry in entries
            ],
            "text_offset": [-1] * len(entries),
        }

    async def _stream(
        self,
        request: web.Request,
        jobs: Sequence[EngineJob],
        opening: dict[str, Any],
        counted: bool,
    ) -> web.StreamResponse:
        sent: dict[int, int] = {}
        async with self._jobs.stream(jobs) as updates, EventStream(request) as events:
            async for update in updates:
                piece = update.piece
                if piece is None:
                    await events.send(streamed(update.refusal))
                elif piece.text or piece.finish:
                    samples = jobs[update.at].task.live
                    index = update.at * len(samples) + piece.sample
                    last = bool(piece.finish)
                    part = _Part(piece.text, sent.get(index, 0), piece.tokens, last)
                    sent[index] = piece.tokens
                    choice = self._choice(samples[piece.sample], index, part)
                    await events.send({**opening, "choices": [choice], "usage": None})
            if counted:
                total = usage([job.task for job in jobs])
                await events.send({**opening, "choices": [], "usage": total})
        return events.response


def _whole(run: SequenceRun) -> _Part:
    return _Part(run.writer.text, 0, len(run.probed), True)
