"""SGLang's native ``/generate``: texts or token ids in, texts, token ids and their cost out.

Invariant: ids that come in are the prompt, and ids that go out are what was generated, unchanged,
so that a conversation can go on without being tokenised again.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from appl.errors import ApplError
from appl_backends.embedded import Embedded
from appl_backends.embedded.constraint import Wanted
from appl_backends.embedded.probe import Entry, Probe, Scored
from appl_backends.embedded.server.fields import Fields, are_tokens, parsed
from appl_backends.embedded.server.jobs import Job, Jobs
from appl_backends.embedded.server.refusal import Refusal, refusal_of, streamed
from appl_backends.embedded.server.sampling import MOST_PRIORITY, Params, params
from appl_backends.embedded.server.sse import Events
from appl_backends.embedded.server.words import Words
from appl_backends.embedded.task import Run, Task

_UNSUPPORTED = (
    "input_embeds", "image_data", "video_data", "audio_data", "session_params", "lora_path",
    "custom_logit_processor", "extra_key", "cache_salt",
)  # fmt: skip
_LONG = 4096
_MOST_TOP = 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """One prompt of a request, and what is wanted of it; ``texts`` adds texts to entries."""

    rid: str
    prompt: list[int]
    params: Params
    probe: Probe | None
    texts: bool
    echo: bool
    priority: int


class Generate:
    """The route ``/generate``; with *incremental*, streamed chunks hold what is new."""

    def __init__(self, jobs: Jobs, words: Words, *, incremental: bool = False) -> None:
        self._jobs, self._words, self._incremental = jobs, words, incremental
        self._backend: Embedded = jobs.backend

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        given = parsed(await request.read())
        stream = given.flag("stream")
        try:
            asked, many = await self._read(given)
            group = given.raw("rid") if many and isinstance(given.raw("rid"), str) else None
            jobs = [Job(one.rid, await self._task(one, stream), group) for one in asked]
        except (Refusal, ApplError) as error:
            refusal = error if isinstance(error, Refusal) else refusal_of(error)
            if not stream:
                raise refusal from None
            async with Events(request) as events:  # as the real server does: inside the stream
                await events.send(streamed(refusal))
            return events.response
        if stream:
            return await self._stream(request, jobs, asked, many)
        await self._jobs.answer(jobs)
        found = [
            self._answer(job, run, one)
            for job, one in zip(jobs, asked, strict=True)
            for run in job.task.live
        ]
        return web.json_response(found if many else found[0])

    # -- what is asked --------------------------------------------------------------------------

    async def _read(self, given: Fields) -> tuple[list[Asked], bool]:
        """Every prompt of the request, and whether the answer is a list."""
        for name in _UNSUPPORTED:
            given.only(name, "", [])
        prompts, single = await self._prompts(given)
        size = len(prompts)
        rids = _rids(given, size, single)
        samplings = _each(given, "sampling_params", size, {})
        starts = _each(given, "logprob_start_len", size, -1)
        tops = _each(given, "top_logprobs_num", size, 0)
        wanted = _each(given, "return_logprob", size, False)
        ids = _each(given, "token_ids_logprob", size, [], nested=True)
        asked = []
        for at, prompt in enumerate(prompts):
            own = Fields(
                {
                    "sampling_params": samplings[at],
                    "return_logprob": wanted[at],
                    "logprob_start_len": starts[at],
                    "top_logprobs_num": tops[at],
                    "token_ids_logprob": ids[at],
                }
            )
            sampling = params(own.object("sampling_params") or Fields({}), self._words.vocab)
            asked.append(
                Asked(
                    rids[at],
                    prompt,
                    sampling,
                    self._probe(own, len(prompt)),
                    given.flag("return_text_in_logprobs"),
                    given.flag("return_prompt_token_ids"),
                    given.whole("priority", 0, -MOST_PRIORITY, MOST_PRIORITY),
                )
            )
        if len({one.params.n for one in asked}) > 1:
            raise Refusal("n must be the same for all prompts of a batch")
        return asked, not single or asked[0].params.n > 1

    async def _prompts(self, given: Fields) -> tuple[list[list[int]], bool]:
        """The ids of each prompt, and whether there is one only."""
        if "text" in given:
            text = given.raw("text")
            texts = [text] if isinstance(text, str) else text
            if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
                raise given.wrong("text", "a string or a list of strings")
            found, single = [await self._encoded(one) for one in texts], isinstance(text, str)
        elif "input_ids" in given:
            ids, size = given.raw("input_ids"), self._words.vocab
            single = not (isinstance(ids, list) and ids and isinstance(ids[0], list))
            found = [ids] if single else ids
            if not all(are_tokens(one, size) for one in found):
                raise given.wrong("input_ids", f"a list of token ids below {size}, or such lists")
        else:
            raise Refusal("Either text, input_ids or input_embeds should be provided.")
        if not found or not all(found):
            raise Refusal("a prompt must have at least one token")
        return found, single

    async def _encoded(self, text: str) -> list[int]:
        if len(text) > self._backend.engine.context * self._backend.tokenizer.longest:
            raise _too_long(len(text) // self._backend.tokenizer.longest, self._backend)
        if len(text) > _LONG:
            return await asyncio.to_thread(self._words.encode, text)
        return self._words.encode(text)

    def _probe(self, own: Fields, length: int) -> Probe | None:
        start = own.whole("logprob_start_len", -1, -1, 1 << 30)
        top = own.whole("top_logprobs_num", 0, 0, _MOST_TOP)
        tokens = own.tokens("token_ids_logprob", self._words.vocab)
        if not own.flag("return_logprob"):
            return None
        if start > length:
            raise Refusal(f"logprob_start_len ({start}) is higher than the number of tokens in it")
        return Probe(length if start < 0 else start, top, tokens)

    async def _task(self, asked: Asked, stream: bool) -> Task:
        wanted, size, room = asked.params, len(asked.prompt), self._backend.engine.context
        if size >= room:
            raise _too_long(size, self._backend)
        most = room - size if wanted.max_tokens is None else wanted.max_tokens
        if size + most > room:
            raise Refusal(
                "Requested token count exceeds the model's maximum context length of "
                f"{room} tokens. You requested a total of {size + most} tokens: {size} tokens "
                f"from the input messages and {most} tokens for the completion. Please reduce the "
                "number of tokens in the input messages or the completion to fit within the limit."
            )
        constraint = None
        if wanted.wanted != Wanted():
            constraint = await asyncio.to_thread(self._backend.constraints.compile, wanted.wanted)
        return Task(
            asked.prompt,
            wanted.draws(),
            most,
            stop=wanted.stop,
            constraint=constraint,
            stream=stream,
            priority=asked.priority,
            stop_tokens=wanted.stop_tokens,
            probe=asked.probe,
            each=stream,
            ignore_end=wanted.ignore_end,
            min_tokens=wanted.min_tokens,
        )

    # -- what is answered -----------------------------------------------------------------------

    async def _stream(
        self, request: web.Request, jobs: Sequence[Job], asked: Sequence[Asked], many: bool
    ) -> web.StreamResponse:
        sent: dict[tuple[int, int], _Sent] = {}
        async with self._jobs.stream(jobs) as updates, Events(request) as events:
            async for update in updates:
                if update.error is not None:
                    await events.send(streamed(refusal_of(update.error)))
                    continue
                piece, one = update.piece, asked[update.at]
                assert piece is not None, "an update is a piece or an error"
                before = sent.setdefault((update.at, piece.sample), _Sent())
                before.text += piece.text
                if not piece.finish and piece.tokens - before.tokens < one.params.interval:
                    continue
                run = jobs[update.at].task.live[piece.sample]
                chunk = self._chunk(jobs[update.at], run, one, before, piece.tokens, piece.finish)
                if many:
                    chunk["index"] = update.at * one.params.n + piece.sample
                await events.send(chunk)
        return events.response

    def _chunk(
        self, job: Job, run: Run, asked: Asked, sent: _Sent, tokens: int, finish: str
    ) -> dict[str, Any]:
        """What is there once *run* has so many *tokens*; only what is new where that is wanted."""
        start = sent.tokens if self._incremental else 0
        text = sent.text[sent.chars :] if self._incremental else sent.text
        sent.tokens, sent.chars = tokens, len(sent.text)
        first = start == 0
        return {
            "text": text,
            "output_ids": _generated(run)[start:tokens],
            **self._echoed(asked),
            "meta_info": self._meta(job, run, asked, start, tokens, finish, first),
        }

    def _answer(self, job: Job, run: Run, asked: Asked) -> dict[str, Any]:
        ids = _generated(run)
        return {
            "text": run.writer.text,
            "output_ids": ids,
            **self._echoed(asked),
            "meta_info": self._meta(job, run, asked, 0, len(ids), run.finish, True),
        }

    def _echoed(self, asked: Asked) -> dict[str, Any]:
        return {"prompt_token_ids": asked.prompt} if asked.echo else {}

    def _meta(
        self, job: Job, run: Run, asked: Asked, start: int, end: int, finish: str, first: bool
    ) -> dict[str, Any]:
        cached = run.cached or 0
        many = len(job.task.live) > 1
        found: dict[str, Any] = {
            "id": f"{job.rid}_{run.index}" if many else job.rid,
            "finish_reason": self._reason(run, finish, end),
            "prompt_tokens": len(asked.prompt),
            "weight_version": "default",
            "num_retractions": 0,
        }
        if asked.probe is not None:
            prompt = job.task.scored if first else None
            found |= self._logprobs(asked, asked.probe, prompt, run.probed[start:end])
        found |= {
            "reasoning_tokens": 0,
            "completion_tokens": end,
            "cached_tokens": cached,
            "cached_tokens_details": {"device": cached, "host": 0} if cached else None,
            "dp_rank": None,
        }
        if finish:
            found["e2e_latency"] = time.perf_counter() - job.began
        return found

    def _reason(self, run: Run, finish: str, count: int) -> dict[str, Any] | None:
        if not finish:
            return None
        if finish == "abort":
            return {
                "type": "abort",
                "message": "Aborted" if count else "Abort in waiting queue",
                "status_code": None,
                "err_type": None,
            }
        if finish == "length":
            return {"type": "length", "length": count}
        return {"type": "stop", "matched": run.writer.matched or run.ids[-1]}

    def _logprobs(
        self, asked: Asked, probe: Probe, prompt: Sequence[Entry] | None, answer: Sequence[Entry]
    ) -> dict[str, Any]:
        opening = probe.start < len(asked.prompt)
        first = [[None, *self._word(asked.prompt[probe.start], asked.texts)]] if opening else []
        found: dict[str, Any] = {}
        if prompt is not None:
            found["input_token_logprobs"] = first + self._own(prompt, asked)
        found["output_token_logprobs"] = self._own(answer, asked)
        found["output_token_logprobs_length"] = len(answer)
        wanted = {"top": bool(probe.top), "token_ids": bool(probe.tokens)}
        for name, field in (("top", "top"), ("token_ids", "asked")):
            if not wanted[name]:
                continue
            if prompt is not None:
                rows = [self._others(getattr(each, field), asked) for each in prompt]
                found[f"input_{name}_logprobs"] = ([None] if opening else []) + rows
            found[f"output_{name}_logprobs"] = [
                self._others(getattr(each, field), asked) for each in answer
            ]
        return found

    def _own(self, entries: Sequence[Entry], asked: Asked) -> list[Any]:
        return [[each.logprob, *self._word(each.token, asked.texts)] for each in entries]

    def _others(self, scored: Sequence[Scored], asked: Asked) -> list[Any]:
        return [[logprob, *self._word(token, asked.texts)] for logprob, token in scored]

    def _word(self, token: int, texts: bool) -> list[Any]:
        return [token, self._words.shown(token) if texts else None]


@dataclass(slots=True)
class _Sent:
    """What of one sample is known, and how much of it was sent."""

    text: str = ""
    chars: int = 0
    tokens: int = 0


def _generated(run: Run) -> list[int]:
    return run.ids[len(run.task.prompt) :]


def _rids(given: Fields, size: int, single: bool) -> list[str]:
    rid = given.raw("rid")
    if rid is None:
        return [uuid.uuid4().hex for _ in range(size)]
    if isinstance(rid, str):
        return [rid] if single else [f"{rid}_{at}" for at in range(size)]
    fits = isinstance(rid, list) and len(rid) == size and not single
    if fits and all(isinstance(each, str) for each in rid):
        return list(rid)
    raise given.wrong("rid", "a string, or a string for each prompt")


def _each(given: Fields, name: str, size: int, default: Any, *, nested: bool = False) -> list[Any]:
    """The field for each prompt: a list gives each its own, anything else holds for all."""
    value = given.raw(name)
    value = default if value is None else value
    if not isinstance(value, list) or (nested and not (value and isinstance(value[0], list))):
        return [value] * size
    if len(value) != size:
        raise given.wrong(name, f"one value, or a list of {size}")
    return [default if each is None else each for each in value]


def _too_long(size: int, backend: Embedded) -> Refusal:
    room = backend.engine.context
    return Refusal(
        f"The input ({size} tokens) is longer than the model's context length ({room} tokens)."
    )
