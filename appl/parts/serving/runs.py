"""The runs of a server: accepted in order, so many at once, and found again by their names.

Invariant: everything here happens on the server's event loop; programs run on threads of their own,
and the journal is written on threads. A run belongs to the server and not to the connection that
asked for it: it goes on when its client has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from appl.base import threads
from appl.errors import ApplError
from appl.parts.serving.execution import Outcome, RunSettings, ServedJob, execute
from appl.parts.serving.functions import ServedFunction
from appl.parts.serving.journal import OPEN, Journal, JournalEntry, read
from appl.parts.serving.served_run import ServedRun
from appl.parts.web.refusals import Refusal
from appl.runtime.waiting.people import on_question
from appl.session.answers import add_answers
from appl.tracing.reading.trace import Trace
from appl.tracing.reading.waits import is_due
from appl.tracing.recording.recorder import new_path

T = TypeVar("T")
_LOG = logging.getLogger("appl.serve")
_LAST_S = 5.0
"""Seconds for programs to end that were told to; one that computes on is left, and gone on with by
the next server."""
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits on runs: at once, waiting besides, and how long those that ended are kept."""

    running: int = 64
    queued: int = 1024
    keep_s: float = 7 * 86400.0


class Runs:
    """All runs of a server of *functions*."""

    def __init__(
        self,
        functions: Mapping[str, ServedFunction],
        settings: RunSettings,
        limits: RunLimits,
    ) -> None:
        self.functions, self._settings, self.limits = functions, settings, limits
        self._journal = Journal(settings.config.home)
        self._writer = ThreadPoolExecutor(1, "appl-journal")
        self._live: dict[str, ServedRun] = {}
        self._queue: deque[ServedRun] = deque()
        self._accepting = self._running = 0
        self._seconds = 1.0  # that a run takes, lately
        self._changed = asyncio.Event()
        self._orphans: dict[tuple[str, str, str], list[str]] = {}
        self._loop = asyncio.get_running_loop()
        self._stack = contextlib.ExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self.stopping = False

    # -- the life of the server

    async def start(self) -> int:
        """Go on with the runs of a server that has ended; their number."""
        # Nobody at the terminal of a server is asked: a run that asks ends as waiting.
        self._stack.enter_context(on_question(lambda question: False))
        await self._write(self._journal.forget, time.time() - self.limits.keep_s)
        adopted = await self._adopt()
        watch = self._loop.create_task(self._watch())
        self._tasks.add(watch)
        return adopted

    async def stop(self, grace: float) -> None:
        """Let running programs end within *grace* seconds; close the others' runs as resumable."""
        self.stopping = True
        for task in self._tasks:
            task.cancel()
        while self._queue:
            run = self._queue.popleft()
            await self._note(run, Outcome("interrupted", None))
        await self._until_idle(grace)
        for run in list(self._live.values()):
            if run.job is not None and not run.is_over:
                run.job.end("interrupted")
        await self._until_idle(_LAST_S)
        for run in self._live.values():
            if not run.is_over:
                _LOG.warning("the run %s computes on; it goes on with the next server", run.name)
                run.become("interrupted")

    def close(self) -> None:
        """Give up what this server owns; after `stop`."""
        self._stack.close()
        if not self._running:
            self._journal.close()
        self._writer.shutdown()

    async def _until_idle(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._running:
                    self._changed.clear()
                    await self._changed.wait()

    async def _adopt(self) -> int:
        files = {function.file for function in self.functions.values()}
        taken = await self._write(self._journal.take_over, files)
        for entry in taken:
            if entry.state in OPEN and entry.run not in self._live:
                run = self._of(entry)
                self._enqueue(run)
                self.orphan(run)
        return len(taken)

    async def _watch(self) -> None:
        """Go on with waiting runs whose time has come."""
        while True:
            await asyncio.sleep(_LOOK_S)
            due = await self._write(self._journal.due, time.time())
            for entry in due:
                if entry.run not in self._live and entry.function in self.functions:
                    await self._again(self._of(entry))

    # -- requests

    async def accept(
        self,
        function: ServedFunction,
        arguments: str,
        key: str | None,
        *,
        streams: bool = False,
        again: bool = False,
    ) -> ServedRun:
        """A new run of *function*, or the one that was accepted before with this *key*.

        With *again*, the client says that it has sent the same request before: it gets a run whose
        answer nobody has got.

        Raises ``Refusal`` if the server stops, is full, or has another request with the key.
        """
        if again and (names := self._orphans.get(request := _request(function, arguments))):
            name = names.pop(0)
            if not names:
                del self._orphans[request]
            orphan = await self.find(name)
            if orphan is not None:
                return orphan
        if key is not None:
            known = await self._write(self._journal.keyed, function.file, function.name, key)
            if known is not None:
                return await self._same(known, arguments)
        self._check_room()
        name = new_path(function.name).stem
        self._accepting += 1
        try:
            entry = await self._write(
                self._journal.add, name, function.file, function.name, arguments, key
            )
        finally:
            self._accepting -= 1
        if entry.run != name:
            return await self._same(entry, arguments)
        run = self._of(entry)
        self._enqueue(run, streams=streams)
        return run

    def orphan(self, run: ServedRun) -> None:
        """Note that the client of *run* has gone without its answer."""
        if len(self._orphans) < _MOST_ORPHANS:
            self._orphans.setdefault(_request(run.function, run.arguments), []).append(run.name)

    def _check_room(self) -> None:
        if self.stopping:
            raise Refusal("the server is stopping", 503, code="stopping", retry_after=5)
        account = self._settings.account
        if account is not None and account.is_spent:
            raise Refusal(
                "the budget of this server is spent; it was given with --budget",
                429,
                code="budget_exceeded",
            )
        waiting = len(self._queue) + self._accepting
        if waiting >= self.limits.queued and self._running >= self.limits.running:
            rounds = 1 + waiting / self.limits.running
            raise Refusal(
                f"the server is full: {self._running} runs go on, and {waiting} wait",
                503,
                code="full",
                retry_after=max(1, min(60, math.ceil(rounds * self._seconds))),
            )

    async def _same(self, entry: JournalEntry, arguments: str) -> ServedRun:
        if entry.arguments != arguments:
            raise Refusal(
                f"the Idempotency-Key was used for other arguments, in the run {entry.run}",
                422,
                code="idempotency_key_reused",
            )
        found = await self.find(entry.run)
        assert found is not None, "it is in the journal"
        return found

    async def find(self, name: str) -> ServedRun | None:
        """The run *name*; one whose server has ended goes on here."""
        if (run := self._live.get(name)) is not None:
            return run
        entry = await self._write(self._journal.find, name)
        if entry is None or entry.function not in self.functions:
            return None
        if entry.state in OPEN and not self.stopping:
            await self._adopt()
        if (run := self._live.get(name)) is not None:
            return run
        run = self._of(entry)
        if entry.state == "waiting" and not self.stopping and await self._is_due(entry):
            await self._again(run)
        return self._live.get(name, run)

    async def answer(self, run: ServedRun, answers: Mapping[str, str], by: str | None) -> None:
        """Answer questions of a waiting run, which then goes on. Raises ``Refusal``."""
        if run.state != "waiting":
            raise Refusal(f"the run {run.name} asks nothing: it is {run.state}", 409)
        path = self._path(run.name)
        try:
            await asyncio.to_thread(add_answers, path, answers, via="http", by=by or "http")
        except (ValueError, LookupError, ApplError) as error:
            raise Refusal(str(error), 422) from None
        if await asyncio.to_thread(self._due_now, run.name):
            await self._again(run)

    async def resume(
        self, run: ServedRun, rerun: tuple[str, ...] = (), assume: Mapping[str, str] | None = None
    ) -> None:
        """Go on with a run that failed, was cancelled, or waits. Raises ``Refusal``."""
        if run.state == "finished" or not run.is_over:
            raise Refusal(f"the run {run.name} is {run.state}: there is nothing to resume", 409)
        self._check_room()
        await self._again(run, rerun, assume)

    def cancel(self, run: ServedRun) -> None:
        """End a run that goes on; what it has is kept, and it can be resumed."""
        if run in self._queue:
            self._queue.remove(run)
            done = Outcome("cancelled", json.dumps(_CANCELLED))
            task = self._loop.create_task(self._note(run, done))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif run.job is not None and not run.is_over:
            run.job.end("cancelled")

    # -- inside

    def _of(self, entry: JournalEntry) -> ServedRun:
        run = ServedRun(entry.run, self.functions[entry.function], entry.arguments)
        run.state, run.value, run.usage = entry.state, entry.value, entry.usage
        if entry.state == "finished" and run.function.streams and entry.value is not None:
            value = read(entry.value)
            if isinstance(value, str):
                run.add("text", value)
            else:
                for item in value:
                    run.add("item", item)
        return run

    async def _again(
        self,
        run: ServedRun,
        rerun: tuple[str, ...] = (),
        assume: Mapping[str, str] | None = None,
    ) -> None:
        await self._write(self._journal.claim, run.name)
        if run.name not in self._live:
            self._enqueue(run, rerun=rerun, assume=assume or {})

    def _enqueue(
        self,
        run: ServedRun,
        *,
        streams: bool = False,
        rerun: tuple[str, ...] = (),
        assume: Mapping[str, str] | None = None,
    ) -> None:
        path = self._path(run.name)
        run.begin_attempt()
        emit = _Pieces(self._loop, run).emit
        run.job = ServedJob(run.function, run.arguments, path, emit, streams, rerun, assume or {})
        self._live[run.name] = run
        self._queue.append(run)
        self._go_on()

    def _path(self, name: str) -> Any:
        return self._settings.config.home / "runs" / f"{name}.trace"

    def _go_on(self) -> None:
        while self._queue and self._running < self.limits.running and not self.stopping:
            run = self._queue.popleft()
            self._running += 1
            run.become("running")
            threads.work(partial(self._work, run))

    def _work(self, run: ServedRun) -> None:
        """Execute *run*, on a thread of its own."""
        assert run.job is not None
        began = time.monotonic()
        outcome = execute(run.job, self._settings)
        try:
            self._journal.change(run.name, outcome.state, outcome.value, outcome.due, outcome.usage)
        except Exception:  # the next server goes on with it, and finds its answers
            _LOG.exception("the journal has no result of the run %s", run.name)
        seconds = time.monotonic() - began
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._ended, run, outcome, seconds)

    def _ended(self, run: ServedRun, outcome: Outcome, seconds: float) -> None:
        self._running -= 1
        self._seconds += (seconds - self._seconds) / 8
        self._live.pop(run.name, None)
        run.job = None
        run.become(outcome.state, outcome.value, outcome.usage)
        self._changed.set()
        self._go_on()

    async def _note(self, run: ServedRun, outcome: Outcome) -> None:
        await self._write(self._journal.change, run.name, outcome.state, outcome.value)
        self._live.pop(run.name, None)
        run.become(outcome.state, outcome.value)

    async def _is_due(self, entry: JournalEntry) -> bool:
        return await asyncio.to_thread(self._due_now, entry.run)

    def _due_now(self, name: str) -> bool:
        trace = Trace.open(self._path(name), home=self._settings.config.home)
        return trace.state != "running" and is_due(trace, time.time())

    async def _write(self, action: Callable[..., T], *args: Any) -> T:
        return await self._loop.run_in_executor(self._writer, action, *args)


class _Pieces:
    """The stream of the program of *run*, on its way from the program's thread to the loop.

    The loop is woken once for all that has come since it last looked.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, run: ServedRun) -> None:
        self._loop, self._run = loop, run
        self._events = run.events  # those of a run that has begun again are others
        self._waiting: deque[tuple[str, Any]] = deque()
        self._called = False

    def emit(self, kind: str, data: Any) -> None:
        """Hand over a piece, on any thread."""
        self._waiting.append((kind, data))
        # The mark is taken back before the queue is emptied, so a piece that comes meanwhile either
        # is taken or wakes the loop again.
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.take)

    def take(self) -> None:
        """Take all that waits, on the loop."""
        self._called = False
        while self._waiting:
            kind, data = self._waiting.popleft()
            if self._run.events is self._events:
                self._run.add(kind, data)


_MOST_ORPHANS = 10_000


def _request(function: ServedFunction, arguments: str) -> tuple[str, str, str]:
    return function.file, function.name, arguments


_CANCELLED = {"type": "Cancelled", "message": "the run was cancelled", "status": 409}
