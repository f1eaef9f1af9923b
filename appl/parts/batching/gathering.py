"""The calls of a run that wait for batches, gathered by levels, and the batches that are away.

Invariant: everything here runs on the I/O loop. A level is sent when no program can go on and no
batch of its kind is away; so a program of depth k makes k batches of a kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

from appl.backend import Request
from appl.base import threads
from appl.errors import Awaited
from appl.parts.batching.batch import Batch, BatchQuestion
from appl.parts.batching.provider import BatchItem, BatchPlan, BatchProvider, Outcome
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.event import BatchChanged

if TYPE_CHECKING:
    from pathlib import Path

    from appl.runtime.event import Event
    from appl.runtime.world import Programs
    from appl.tracing.reading.batches import Item, RecordedBatch
    from appl.tracing.reading.trace import Trace

STAY_S = 600.0
"""Seconds for which a command stays for a batch: some take only minutes."""
QUIET_S = 5.0
"""Seconds without any event after which a level is sent although a timer of a program runs."""

_NONE: Mapping[str, str] = MappingProxyType({})

AtOnce = Literal["at once"]
"""Nobody waits for batches any more: the question is to be asked at the usual price."""


class BatchRun(Protocol):
    """The run whose calls are gathered."""

    trace_path: Callable[[], Path | None]

    @property
    def waiting(self) -> BaseException | None:
        """The wait that ended it, if one did."""

    def fail(self, error: Exception) -> None:
        """End the run with *error*."""


class Gathering:
    """Gathers the questions of one run, and sends them as *plan* says.

    ``direct`` counts the calls that are asked at once meanwhile. *say* shows the user a line.
    """

    def __init__(self, plan: BatchPlan, say: Callable[[str], None]) -> None:
        self.plan, self._say = plan, say
        self.direct = 0
        self.batches: dict[str, Batch] = {}
        self._waiting: dict[tuple[str, str], list[BatchQuestion]] = {}
        self._providers: dict[str, BatchProvider] = {}
        self._recorded: dict[Item, RecordedBatch] = {}
        self._leftovers: list[RecordedBatch] = []
        self._trace: Trace | None = None
        self._programs: Programs | None = None
        self._run: BatchRun | None = None
        self._emit: Callable[[Event], None] = lambda _: None
        self._barrier: Callable[[], None] = lambda: None
        self._tasks: set[asyncio.Task[None]] = set()
        self._tidying: set[asyncio.Task[None]] = set()
        self._began = time.time()
        self._alarm: asyncio.TimerHandle | None = None
        self.waits = True

    def serve(
        self, run: BatchRun, emit: Callable[[Event], None], barrier: Callable[[], None]
    ) -> None:
        """Serve *run*, whose trace gets what *emit* is told; *barrier* returns when it has it."""
        self._run, self._emit, self._barrier = run, emit, barrier

    def add(self, name: str, provider: BatchProvider) -> None:
        """Note the *provider* of the backend *name*."""
        self._providers[name] = provider

    def go_on(
        self, trace: Trace, resent: Collection[str] = (), identities: Mapping[str, str] = _NONE
    ) -> None:
        """Go on with the batches of *trace*, whose run this one resumes; before it begins.

        Those with the keys *resent* are not at the provider, the user says; the names
        that it has for others are *identities*, by key.
        """
        self._trace = trace
        began = trace.began()
        self._began = self._began if began is None else began.timestamp()
        for batch in trace.batches.values():
            if batch.key in resent and batch.is_away:
                batch.state = "refused"
                self.note(batch.key, "refused", {}, ())
            elif batch.key in identities and batch.is_away:
                batch.facts["id"], batch.state = identities[batch.key], "sent"
                self.note(batch.key, "sent", {"id": identities[batch.key]}, ())
            unanswered = [item for item in batch.items() if self._is_open(item[0], batch)]
            self._recorded |= dict.fromkeys(unanswered, batch)
            if not unanswered and batch.state in ("gathered", "refused", "ended"):
                self._leftovers.append(batch)

    def _is_open(self, address: str, batch: RecordedBatch) -> bool:
        """True if the call at *address* gets its answer from *batch*."""
        assert self._trace is not None
        call = self._trace.by_address.get(address)
        outcome = None if call is None else call.outcome
        if batch.is_away:  # its calls may have been cancelled, or failed, as the run broke off
            return outcome != "answered"
        return batch.state == "ended" and outcome in (None, "cancelled")

    def _tidy(self) -> None:
        """Remove the files of batches whose answers all programs have."""
        unclaimed = {record.key for record in self._recorded.values()}
        for batch in self.batches.values():
            if batch.is_read and not batch.is_tidied and batch.intent.key not in unclaimed:
                batch.is_tidied = True
                self._tidying.add(self.start(batch.tidy()))

    def _tidy_leftovers(self) -> None:
        """Remove the files of batches that an earlier process did not get to remove."""
        leftovers, self._leftovers = self._leftovers, []
        for record in leftovers:
            backend = str(record.facts.get("backend"))
            if backend in self._providers:
                batch = self._of_record(record, backend)
                batch.is_away, batch.is_read, batch.is_tidied = False, True, True
                self._tidying.add(self.start(batch.tidy()))

    # -- questions

    async def answer(self, backend: str, request: Request, item: BatchItem) -> Outcome | AtOnce:
        """The outcome of *item*, which asks *backend* for *request*, in a batch."""
        self._tidy_leftovers()
        question = BatchQuestion(request, item)
        recorded = self._recorded.pop(question.place, None)
        self._set_alarm()
        trace = self._trace if recorded is not None else None
        before = trace.by_address.get(request.address) if trace is not None else None
        if (
            recorded is not None
            and trace is not None
            and before is not None
            and before.content == trace.content_of(request)
        ):
            self._joined(recorded, backend).join(question)
        elif not self.waits:
            return "at once"
        else:
            self._waiting.setdefault((backend, item.kind), []).append(question)
            self.look_soon()
        try:
            return await question.answer
        finally:
            waiting = self._waiting.get((backend, item.kind))
            if waiting is not None and question in waiting:  # its program has cancelled it
                waiting.remove(question)

    def knows(self, request: Request) -> bool:
        """True if *request* is in a batch of an earlier process."""
        return (request.address, request.sample, request.n) in self._recorded

    def _joined(self, recorded: RecordedBatch, backend: str) -> Batch:
        """The batch of an earlier process, which is looked for from now on."""
        batch = self.batches.get(recorded.key)
        if batch is None:
            batch = self._of_record(recorded, backend)
            self.batches[recorded.key] = batch
            if not self.waits:
                batch.give_up()
            self.start(batch.go_on())
        return batch

    def _of_record(self, record: RecordedBatch, backend: str) -> Batch:
        earlier = () if self._trace is None else self._trace.batches.values()
        others = frozenset(batch.id for batch in earlier if batch.id is not None)
        return Batch.recorded(record, backend, self._providers[backend], self, others)

    # -- levels

    def watched_by(self, programs: Programs) -> None:
        """*programs* are those whose calls are gathered."""
        self._programs = programs

    def look_soon(self) -> None:
        """Look whether no program can go on."""
        if self._programs is not None:
            self._programs.look_soon()

    def on_idle(self, final: bool = True) -> bool:
        """Send what was gathered, as no program can go on without it; hands nothing over."""
        self._tidy()
        if self.direct or not self._waiting or self._programs is None:
            return False
        # A program that sleeps may go on by itself. A batch takes minutes, so it gets seconds.
        if not final and not self._programs.idle_for(QUIET_S):
            return False
        away = {
            (batch.backend, batch.intent.kind) for batch in self.batches.values() if batch.is_away
        }
        for kind in [kind for kind in self._waiting if kind not in away]:
            self._send(kind, self._waiting.pop(kind))
        return False

    def _send(self, kind: tuple[str, str], questions: Sequence[BatchQuestion]) -> None:
        backend, name = kind
        provider = self._providers[backend]
        for some in parts(questions, provider.most_items, provider.most_bytes):
            batch = Batch(secrets.token_hex(10), name, backend, provider, self)
            batch.add(some)
            self.batches[batch.intent.key] = batch
            self.start(batch.send())

    def leave(self) -> None:
        """Let the run end as waiting when a batch has been away for ``STAY_S`` seconds."""
        self.plan = replace(self.plan, stay_s=STAY_S)

    def stays(self) -> None:
        """Look, when a batch that was just sent has been away for long, whether the run may end."""
        if self.plan.stay_s < math.inf:
            # A little later, so that the batch has been away for so long by its own clock.
            asyncio.get_running_loop().call_later(self.plan.stay_s + 0.001, self.look_soon)

    def away(self, backend: str) -> Iterator[Awaited]:
        """The calls to *backend* that keep the process no longer."""
        leaving = [
            batch for batch in self.batches.values() if batch.backend == backend and batch.is_left
        ]
        for batch in leaving:
            yield from batch.awaited()
        kinds = {batch.intent.kind for batch in leaving}
        for kind in kinds:
            for question in self._waiting.get((backend, kind), ()):
                yield Awaited(question.place[0], "batch", "waits for the batch before it", None)

    # -- the deadline

    def _set_alarm(self) -> None:
        within = self.plan.within_s
        if within is None or self._alarm is not None:
            return
        remaining_s = self._began + within - time.time()
        self._alarm = asyncio.get_running_loop().call_later(max(remaining_s, 0.0), self._is_late)

    def _is_late(self) -> None:
        """Nobody waits any more: what is gathered is asked at once, what is away is cancelled."""
        self.waits = False
        waiting, self._waiting = self._waiting, {}
        for question in [question for questions in waiting.values() for question in questions]:
            question.end("at once")
        for batch in self.batches.values():
            batch.give_up()

    # -- for batches

    def start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Have *work* done beside the calls."""
        # An empty context: what is done for all calls keeps none of their programs.
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._tidying.discard)
        return task

    def note(self, key: str, state: str, facts: dict[str, object], calls: Iterable[str]) -> None:
        """Record that the batch *key* has reached *state*."""
        self._emit(BatchChanged(key, state, time.monotonic_ns(), facts, tuple(calls)))

    async def committed(self) -> None:
        """Return when all that was noted is on disk. Raises ``TraceWriteError``."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            error: Exception | None = None
            try:
                self._barrier()
            except Exception as failure:
                error = failure
            loop.call_soon_threadsafe(_end, done, error)

        threads.work(work)
        await done

    def say(self, line: str) -> None:
        """Show the user a line."""
        self._say(f"appl: {line}")

    def fail(self, error: Exception) -> None:
        """End the run with *error*."""
        assert self._run is not None
        self._run.fail(error)

    # -- the end

    def close(self) -> None:
        """Remove the files of batches that were read, and leave the others; from any thread."""
        if self.batches or self._leftovers:
            closing = asyncio.run_coroutine_threadsafe(self._close(), io_thread().loop)
            with contextlib.suppress(TimeoutError):  # the provider removes its files by itself
                closing.result(_CLOSE_S)

    async def _close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        path = self._run.trace_path() if self._run is not None else None
        run = "RUN" if path is None else path.stem
        is_waiting = self._run is not None and self._run.waiting is not None
        for batch in self.batches.values():
            batch.hide()
            if batch.is_away and batch.status is not None and not is_waiting:
                self.say(
                    f"the batch {batch.status.id} goes on at {batch.backend}: the same command, or "
                    f"`appl trace resume {run}`, goes on with it; `appl trace batches {run} "
                    "--cancel` cancels it"
                )
        self._tidy_leftovers()
        self._tidy()
        for task in self._tasks - self._tidying:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


_CLOSE_S = 30.0


def parts(
    questions: Sequence[BatchQuestion], most_items: int, most_bytes: int
) -> list[list[BatchQuestion]]:
    """*questions* in parts, each of which fits into one batch."""
    groups: list[list[BatchQuestion]] = []
    size = 0
    for question in questions:
        own = len(question.item.body) + _AROUND
        if not groups or len(groups[-1]) == most_items or size + own > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(question)
        size += own
    return groups


_AROUND = 256
"""Bytes around a body in a batch, at most."""


def _end(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():  # whoever waited was cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
