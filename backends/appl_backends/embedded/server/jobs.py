"""Requests on their way through the engine: a bounded number, each with a name to abort it by.

Invariant: a job is known by its name exactly while somebody waits for it, and nobody waiting any
more aborts it before the engine's next step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appl.errors import BackendError
from appl.parts.web.refusals import Refusal, refusal_of

if TYPE_CHECKING:
    from appl_backends.embedded import Embedded
    from appl_backends.embedded.task import AnswerPiece, EngineTask

BUSY = "The request queue is full."


@dataclass(slots=True, eq=False)
class EngineJob:
    """One prompt on its way; ``began`` is the time of its request in seconds.

    ``group`` is the name of the request where that has several prompts, each with its own.
    """

    rid: str
    task: EngineTask
    group: str | None = None
    began: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class Update:
    """More of the job number ``at`` of a stream, or why there will be no more."""

    at: int
    piece: AnswerPiece | None
    error: BackendError | None = None

    @property
    def refusal(self) -> Refusal:
        """Why there will be no more."""
        assert self.error is not None, "an update is a piece or an error"
        return refusal_of(self.error)


class Jobs:
    """All open jobs; beyond those of a full batch, at most *limit* samples wait."""

    def __init__(self, backend: Embedded, limit: int) -> None:
        self.backend, self.limit = backend, limit
        self._open: dict[str, EngineJob] = {}
        self._closed = False
        self.finished = 0
        self.refused = 0

    @property
    def open(self) -> int:
        """The number of open jobs."""
        return len(self._open)

    @property
    def waiting(self) -> int:
        """The number of sequences that wait for a place in the batch."""
        engine = self.backend.engine
        return len(engine.waiting) + len(engine.inbox)

    async def answer(self, jobs: Sequence[EngineJob]) -> None:
        """Have *jobs* done. Raises ``Refusal`` if there is no room, or the engine's error."""
        with self._named(jobs):
            try:
                async with asyncio.TaskGroup() as group:
                    for job in jobs:
                        group.create_task(self._run(job))
            except BaseExceptionGroup as failed:
                raise failed.exceptions[0] from None

    @asynccontextmanager
    async def stream(self, jobs: Sequence[EngineJob]) -> AsyncIterator[AsyncIterator[Update]]:
        """The pieces of *jobs* as they come, until all have finished."""
        with self._named(jobs):
            updates: asyncio.Queue[Update] = asyncio.Queue()
            running = [
                asyncio.create_task(self._follow(at, job, updates)) for at, job in enumerate(jobs)
            ]
            try:
                yield self._updates(updates, len(running))
            finally:
                # The client may have left early. Cancelling a task aborts its job; the jobs keep
                # their names until every task has ended, so that no name is used twice.
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    def abort(self, rid: str) -> bool:
        """End the job or the group *rid* with what is there; false when there is none."""
        found = [job for job in self._open.values() if rid in (job.rid, job.group)]
        for job in found:
            self.backend.worker.abort(job.task)
        return bool(found)

    def abort_all(self) -> None:
        """End every job with what it has."""
        for job in self._open.values():
            self.backend.worker.abort(job.task)

    def close(self) -> None:
        """End every job with what it has, and take no more."""
        self._closed = True
        self.abort_all()

    # -- inside ---------------------------------------------------------------------------------

    @contextmanager
    def _named(self, jobs: Sequence[EngineJob]) -> Iterator[None]:
        # Nothing is awaited between the check and the entry, so no other request comes between.
        self._admit(jobs)
        self._open |= {job.rid: job for job in jobs}
        try:
            yield
        finally:
            for job in jobs:
                del self._open[job.rid]

    def _admit(self, jobs: Sequence[EngineJob]) -> None:
        if self._closed:
            raise Refusal("the server is stopping", 503)
        names = [job.rid for job in jobs]
        taken = set(self._open)
        for rid in names:
            if rid in taken:
                raise Refusal(f"Duplicate request ID detected: {rid[:80]}")
            taken.add(rid)
        wanted = _samples(jobs)
        room = self.limit + self.backend.engine.max_batch
        if wanted > room:
            raise Refusal(f"the request asks for {wanted} samples, more than {room} at once")
        if _samples(self._open.values()) + wanted > room:
            self.refused += 1
            raise Refusal(BUSY, 503, retry_after=1)

    async def _run(self, job: EngineJob) -> None:
        await self.backend.worker.run(job.task)
        self.finished += 1

    async def _follow(self, at: int, job: EngineJob, updates: asyncio.Queue[Update]) -> None:
        try:
            # The worker calls this on the server's loop: the queue needs no lock, and the pieces of
            # a job come before its end.
            await self.backend.worker.run(
                job.task, lambda piece: updates.put_nowait(Update(at, piece))
            )
            self.finished += 1
            updates.put_nowait(Update(at, None))
        except BackendError as error:
            updates.put_nowait(Update(at, None, error))

    async def _updates(self, updates: asyncio.Queue[Update], left: int) -> AsyncIterator[Update]:
        while left:
            update = await updates.get()
            left -= update.piece is None
            if update.piece is not None or update.error is not None:
                yield update


def _samples(jobs: Iterable[EngineJob]) -> int:
    return sum(len(job.task.draws) for job in jobs)
