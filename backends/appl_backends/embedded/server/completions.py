"""OpenAI's older ``/v1/completions``: texts or token ids that are continued as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from appl_backends.embedded.constraint import Wanted
from appl_backends.embedded.probe import Probe
from appl_backends.embedded.server.fields import Fields, are_tokens, parsed
from appl_backends.embedded.server.jobs import Job, Jobs
from appl_backends.embedded.server.refusal import Refusal
from appl_backends.embedded.server.refusal import streamed as told
from appl_backends.embedded.server.sampling import Params, params
from appl_backends.embedded.server.shapes import check, head, matched, said, usage, wants_usage
from appl_backends.embedded.server.sse import Events
from appl_backends.embedded.server.words import Words
from appl_backends.embedded.task import Run, Task

DEFAULT_TOKENS = 16
_MOST_TOP = 5
_SAME = (
    "temperature", "top_p", "n", "stop", "stop_token_ids", "regex", "ebnf", "json_schema",
    "ignore_eos",
)  # fmt: skip


class Completions:
    """The route ``/v1/completions``."""

    def __init__(self, jobs: Jobs, words: Words) -> None:
        self._jobs, self._words, self._backend = jobs, words, jobs.backend

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        given = parsed(await request.read())
        check(given)
        stream, wanted = given.flag("stream"), self._params(given)
        top = given.whole("logprobs", 0, 0, _MOST_TOP) if "logprobs" in given else None
        constraint = None
        if wanted.wanted != Wanted():
            constraint = await asyncio.to_thread(self._backend.constraints.compile, wanted.wanted)
        opening, jobs = head("text_completion", "cmpl"), []
        for at, prompt in enumerate(self._prompts(given)):
            task = Task(
                prompt,
                wanted.draws(),
                self._most(wanted, prompt),
                stop=wanted.stop,
                constraint=constraint,
                stream=stream,
                stop_tokens=wanted.stop_tokens,
                probe=None if top is None else Probe(len(prompt), top),
                each=stream,
                ignore_end=wanted.ignore_end,
            )
            jobs.append(Job(f"{opening['id']}_{at}", task, opening["id"]))
        if stream:
            return await self._stream(request, jobs, wanted.n, opening, wants_usage(given))
        await self._jobs.answer(jobs)
        choices = [
            self._choice(run, at * wanted.n + run.index, run.writer.text, 0, len(run.probed), True)
            for at, job in enumerate(jobs)
            for run in job.task.live
        ]
        counted = usage([job.task for job in jobs])
        return web.json_response({**opening, "choices": choices, "usage": counted})

    def _params(self, given: Fields) -> Params:
        found = {name: given.raw(name) for name in _SAME if name in given}
        found["max_new_tokens"] = given.whole("max_tokens", DEFAULT_TOKENS, 0, 1 << 30)
        if "seed" in given:
            found["sampling_seed"] = given.raw("seed")
        return params(Fields(found), self._words.vocab)

    def _prompts(self, given: Fields) -> list[list[int]]:
        prompt, size = given.raw("prompt"), self._words.vocab
        if isinstance(prompt, str) or are_tokens(prompt, size):
            prompt = [prompt]
        if not isinstance(prompt, list) or not prompt:
            raise given.wrong("prompt", "text, a list of token ids, or a list of these")
        longest = self._backend.engine.context * self._backend.tokenizer.longest
        found = []
        for one in prompt:
            if isinstance(one, str) and len(one) <= longest:
                one = self._words.encode(one)
            elif isinstance(one, str):
                raise self._too_long(len(one) // self._backend.tokenizer.longest)
            if not are_tokens(one, size) or not one:
                raise given.wrong("prompt", "text, a list of token ids, or a list of these")
            found.append(one)
        return found

    def _most(self, wanted: Params, prompt: Sequence[int]) -> int:
        most = wanted.max_tokens or 0
        if len(prompt) + max(1, most) > self._backend.engine.context:
            raise self._too_long(len(prompt) + most)
        return most

    def _too_long(self, size: int) -> Refusal:
        return Refusal(
            f"This model's maximum context length is {self._backend.engine.context} tokens, the "
            f"request asks for {size} in prompt and completion.",
            param="prompt",
            code="context_length_exceeded",
        )

    def _choice(
        self, run: Run, index: int, text: str, start: int, end: int, last: bool
    ) -> dict[str, Any]:
        return {
            "index": index,
            "text": text,
            "logprobs": self._logprobs(run, start, end),
            "finish_reason": run.finish if last else None,
            "matched_stop": matched(run) if last else None,
        }

    def _logprobs(self, run: Run, start: int, end: int) -> dict[str, Any] | None:
        if run.task.probe is None:
            return None
        entries = said(run, run.probed[start:end], self._backend.tokenizer.end)
        tokens = [self._words.shown(each.token) for each in entries]
        return {
            "tokens": tokens,
            "token_logprobs": [each.logprob for each in entries],
            "top_logprobs": [
                {self._words.shown(token): logprob for logprob, token in each.top}
                for each in entries
            ],
            "text_offset": [-1] * len(tokens),
        }

    async def _stream(
        self,
        request: web.Request,
        jobs: Sequence[Job],
        n: int,
        opening: dict[str, Any],
        counted: bool,
    ) -> web.StreamResponse:
        sent: dict[tuple[int, int], int] = {}
        async with self._jobs.stream(jobs) as updates, Events(request) as events:
            async for update in updates:
                piece = update.piece
                if piece is None:
                    await events.send(told(update.refusal))
                    continue
                if not (piece.text or piece.finish):
                    continue
                key = (update.at, piece.sample)
                start, sent[key] = sent.get(key, 0), piece.tokens
                run, index = jobs[update.at].task.live[piece.sample], update.at * n + piece.sample
                choice = self._choice(
                    run, index, piece.text, start, piece.tokens, bool(piece.finish)
                )
                await events.send({**opening, "choices": [choice], "usage": None})
            if counted:
                total = usage([job.task for job in jobs])
                await events.send({**opening, "choices": [], "usage": total})
        return events.response
