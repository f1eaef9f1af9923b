"""The questions of programs on workers, and the calls that the driver makes of them.

Invariant: a question is asked in the driver's run, which alone has limits, budgets, caches and a
record. What becomes of it is told to the worker that asked last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

from appl.backend import Chunk, Response, Sampling
from appl.errors import CallCancelled
from appl.prompt import Messages
from appl.prompt.secret import KEY_OF_CALL, conceal
from appl.runtime.answers.call import Call, CallIdentity
from appl.runtime.answers.feed import Feed
from appl.runtime.answers.samples import NamedStore
from appl.runtime.concurrency.promise import Error, Outcome
from appl.runtime.event import CallEnded, CallStarted, Source
from appl.runtime.frame import Frame
from appl.runtime.scheduling.accounts import Account

PromptKey = tuple[bytes, int]
"""The digest of a prompt's content, and where its texts come from."""


class WorkerQuestion(NamedTuple):
    """A call of a worker, as it is sent; its prompt is sent before it and has the key *prompt*.

    *conversation* is the address of the activation whose prompt it goes on with. *budgets* are the
    numbers and limits of the worker's budgets around it, inner ones first.
    """

    address: str
    identity: CallIdentity
    model: str
    prompt: PromptKey | None
    sampling: Sampling
    n: int
    timeout: float | None
    priority: int
    cache: str | NamedStore | None
    edges: tuple[str, ...]
    conversation: str
    streams: bool
    budgets: tuple[tuple[int, tuple[int | None, ...]], ...]
    key: str | None = None


Told = Callable[["WorkerCall", object], None]
"""Takes what a call is told: a piece of a stream, a response, or an error."""


class WorkerCall(Call):
    """The driver's call for a *question* of worker number *worker*; *tell* tells the worker."""

    __slots__ = ("_tell", "_worker", "batches", "question", "response")

    def __init__(
        self,
        question: WorkerQuestion,
        frame: Frame,
        messages: Messages | None,
        account: Account | None,
        worker: int,
        tell: Told,
    ) -> None:
        super().__init__(
            question.address, None, ref(frame), frame.run, account, question.identity,
            None, messages, question.model, question.sampling, question.n, question.timeout,
            question.priority, None, None, question.key,
        )  # fmt: skip
        self.question, self.response = question, None
        is_embedding = question.sampling.dimensions is not None
        self.batches = frame.run.dispatch.embeddings if is_embedding else None
        conceal(KEY_OF_CALL, question.key)
        self._worker, self._tell = worker, tell
        self.emit = _WorkerFeed(self) if question.streams else None

    response: Response | None

    @property
    def away(self) -> int:
        return self._worker

    def edges(self) -> tuple[str, ...]:
        return self.question.edges

    def starts(self) -> None:
        request, (kind, _, file, line) = self.request, self.identity
        watcher = self.run.reporter.watcher
        if watcher is not None and request is not None:
            at, edges = time.monotonic_ns(), self.edges()  # its prompt has no parts here
            watcher.on_event(CallStarted(request, kind, edges, file, line, at))

    def tell(self, news: object) -> None:
        """Tell the worker that asked last."""
        self._tell(self, news)

    def _end(
        self, outcome: Outcome, response: Response | None, error: BaseException | None
    ) -> None:
        if self.outcome is None:
            self.response = response
            super()._end(outcome, response, error)
            self.tell(response if error is None else error)

    # -- when its worker is lost

    def answers(self, other: WorkerCall) -> bool:
        """True if the outcome of this call, now or later, is that of *other*, which asks anew."""
        error = self.outcome.error if isinstance(self.outcome, Error) else None
        if isinstance(error, CallCancelled) and not error.outside:
            return False
        if self.outcome is None and self.emit is not None:
            return False  # pieces of it were told, and would be counted twice
        request, asks = self.request, other.request
        return request is not None and asks is not None and request.digest == asks.digest

    def continue_for(self, other: WorkerCall) -> None:
        """Answer *other*, which another worker asks, in its place."""
        self.question, self._worker, self._tell = other.question, other._worker, other._tell
        if self.outcome is None:
            return
        self.starts()
        self._report_end(self.response, self._error(), Source("reused", self.address))
        for chunk in self.emit.chunks if self.emit is not None else ():
            self.tell(chunk)
        self.tell(self.response if self.response is not None else self._error())

    def _error(self) -> BaseException | None:
        return self.outcome.error if isinstance(self.outcome, Error) else None

    def end_as_lost(self) -> None:
        """Report it as cancelled: no worker has asked it again, and a replay does not ask it."""
        why = CallCancelled("asked by a worker that was lost, and not again")
        self.starts()
        if self.outcome is None:
            self.parted(why)
        else:
            self._report_end(None, why, None)

    def _report_end(
        self, response: Response | None, error: BaseException | None, source: Source | None
    ) -> None:
        chunks = self.emit.chunks if self.emit is not None and response is not None else ()
        at = time.monotonic_ns()
        self.run.reporter.emit(CallEnded(self.address, response, error, at, chunks, source))


class _WorkerFeed(Feed):
    """Passes every piece of a call's answer on to the worker."""

    __slots__ = ("_call",)

    def __init__(self, call: WorkerCall) -> None:
        super().__init__(call.address, call.run.reporter, self)
        self._call = call

    def __call__(self, chunk: Chunk) -> None:
        count = len(self.chunks)
        super().__call__(chunk)
        for fresh in self.chunks[count:]:
            self._call.tell(fresh)

    def add(self, feed: Feed, kind: Any, text: str) -> None:
        """Do nothing: nobody in this process reads it."""
