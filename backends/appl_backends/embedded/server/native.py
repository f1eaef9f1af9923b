"""SGLang's native ``/generate``: texts or token ids in, texts, token ids and their cost out.

Invariant: ids that come in are the prompt, and ids that go out are what was generated, unchanged,
so that a conversation can go on without being tokenised again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from appl.errors import ApplError
from appl.parts.web.events import EventStream
from appl.parts.web.refusals import Refusal, refusal_of, streamed
from appl_backends.embedded.server.fields import parsed
from appl_backends.embedded.server.jobs import EngineJob, Jobs
from appl_backends.embedded.server.native_answer import AnswerWriter, Extent
from appl_backends.embedded.server.native_request import Batch, PromptRequest, RequestReader
from appl_backends.embedded.server.special_tokens import Words
from appl_backends.embedded.task import AnswerPiece


class Generate:
    """The route ``/generate``; with *incremental*, streamed events hold what is new."""

    def __init__(self, jobs: Jobs, words: Words, *, incremental: bool = False) -> None:
        self._jobs, self._incremental = jobs, incremental
        most = jobs.limit + jobs.backend.engine.max_batch
        self._reader, self._writer = RequestReader(jobs.backend, words, most), AnswerWriter(words)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        given = parsed(await request.read())
        stream = given.flag("stream")
        try:
            batch = await self._reader.read(given)
            jobs = await self._reader.jobs(batch, stream=stream)
        except (Refusal, ApplError) as error:
            if not stream:
                raise
            return await _refused(request, error)
        if stream:
            return await self._stream(request, jobs, batch)
        await self._jobs.answer(jobs)
        found = [
            self._writer.whole(job, run, asked)
            for job, asked in zip(jobs, batch.asked, strict=True)
            for run in job.task.live
        ]
        return web.json_response(found if batch.listed else found[0])

    async def _stream(
        self, request: web.Request, jobs: Sequence[EngineJob], batch: Batch
    ) -> web.StreamResponse:
        sent: dict[tuple[int, int], _Sent] = {}
        async with self._jobs.stream(jobs) as updates, EventStream(request) as events:
            async for update in updates:
                if update.piece is None:
                    await events.send(streamed(update.refusal))
                    continue
                job, asked, piece = jobs[update.at], batch.asked[update.at], update.piece
                own = sent.setdefault((update.at, piece.sample), _Sent())
                event = self._event(job, asked, piece, own)
                if event is not None:
                    at = update.at * asked.params.n + piece.sample
                    await events.send({**event, "index": at} if batch.listed else event)
        return events.response

    def _event(
        self, job: EngineJob, asked: PromptRequest, piece: AnswerPiece, sent: _Sent
    ) -> dict[str, Any] | None:
        """The event to send after *piece*, or ``None`` if none is due yet."""
        sent.text += piece.text
        if not piece.finish and piece.tokens - sent.tokens < asked.params.interval:
            return None
        extent = Extent(sent.tokens if self._incremental else 0, piece.tokens, piece.finish)
        text = sent.text[sent.chars if self._incremental else 0 :]
        sent.tokens, sent.chars = piece.tokens, len(sent.text)
        return self._writer.part(job, job.task.live[piece.sample], asked, text, extent)


@dataclass(slots=True)
class _Sent:
    """The text of one sample so far, and how many of its characters and tokens were sent."""

    text: str = ""
    chars: int = 0
    tokens: int = 0


async def _refused(request: web.Request, error: Refusal | ApplError) -> web.StreamResponse:
    """A refusal inside the stream that was asked for, as the real server does."""
    refusal = error if isinstance(error, Refusal) else refusal_of(error)
    async with EventStream(request) as events:
        await events.send(streamed(refusal))
    return events.response
