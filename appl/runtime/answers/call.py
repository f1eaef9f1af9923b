"""A call: one node of the unrolled graph, from the moment it is issued to its outcome.

Invariant: everything that identifies a call is fixed when it is issued, on the program's thread;
its outcome is set on the I/O thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import ReferenceType

from appl.backend import Chunk, Profile, Request, Response, Sampling, check_media
from appl.errors import CallCancelled, MalformedResponse
from appl.prompt.chain import PromptNode, PromptSlot, nodes_of
from appl.prompt.message import Messages, RoleName
from appl.prompt.voice import VOICES
from appl.runtime.answers.answer import ToolRunner
from appl.runtime.answers.text import Text
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, Outcome, Promise, Value, explained, source_of
from appl.runtime.event import CallEnded, CallStarted, Delivered, Source
from appl.runtime.world import Go, How, Moment

if TYPE_CHECKING:
    from asyncio import Task

    from appl.errors import RunWaiting
    from appl.runtime.answers.feed import Feed, Sink
    from appl.runtime.answers.models import Models, Spot
    from appl.runtime.answers.stream import Stream
    from appl.runtime.concurrency.idle_detection import IdleDetection
    from appl.runtime.concurrency.promise import Home
    from appl.runtime.reporter import Reporter
    from appl.runtime.run_services import Services
    from appl.runtime.scheduling.accounts import Account


class CallDispatch(Protocol):
    """The dispatch of a run, as far as its calls need it."""

    models: Models


class CallOutside(Protocol):
    """The seam between a run and its world, as far as its calls need it: see ``Outside``."""

    answer: Callable[[Call, Callable[[Call], None]], None] | None
    amend: Callable[[Call], None] | None
    idle_detection: IdleDetection | None

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        """As ``World.ends``."""


class CallRun(Protocol):
    """The run of a call, as far as its calls and the scheduler need it."""

    services: Services
    reporter: Reporter
    closed: bool
    waiting: RunWaiting | None

    @property
    def dispatch(self) -> CallDispatch:
        """The names that calls may ask."""

    @property
    def outside(self) -> CallOutside:
        """The seam through which the world answers its calls."""

    def admit(self, call: Call) -> None:
        """Send *call* on its way; on the I/O loop."""


class CallsToCome(Protocol):
    """The calls of a function, as its graph counts them: see ``CallCounts``."""

    @property
    def models(self) -> frozenset[str]:
        """The models that it asks, as they are written."""

    def remaining(self, calls: int, line: int | None) -> tuple[int, int | None]:
        """The least and the most calls after the latest of *calls*, which is in *line*."""


class CallBody(Protocol):
    """The function that issues calls, as far as the scheduler needs it: see ``Body``."""

    file: str | None
    qualname: str

    def counts(self) -> CallsToCome | None:
        """The calls that an activation makes on its prompt; ``None`` if nobody knows."""


class CallFrame(Protocol):
    """The activation that issues a call, as far as the call needs it."""

    address: str
    account: Account | None
    body: ReferenceType[CallBody] | None
    ended: bool

    @property
    def run(self) -> CallRun:
        """The run that it belongs to."""

    def root_of_prompt(self) -> CallFrame:
        """The outermost activation that writes to the same prompt."""

    def when_ended(self, act: Callable[[], None]) -> None:
        """Have *act* called once when the activation has ended."""


class CallIdentity(NamedTuple):
    """The part of a call that is fixed when it is issued, besides its address.

    ``kind`` is the name of the function that issued it, ``ordinal`` its index among the calls of
    its frame; ``file`` and ``line`` are the user's source line, where there is one.
    """

    kind: str
    ordinal: int
    file: str | None
    line: int | None


class Call(Promise):
    """One question to a model; ``node`` is its prompt, or ``messages`` when they were given.

    ``attempts`` counts those that were made, and ``worker`` is the task that works on it. It may
    go to the ``others`` if its backend cannot answer.
    ``frame`` refers to the activation that issued it, while that lives; to the outermost one that
    writes to its prompt where the prompt outlives the first.
    """

    __slots__ = (
        "account",
        "attempts",
        "cache",
        "earlier_answer",
        "emit",
        "frame",
        "identity",
        "key",
        "messages",
        "model",
        "n",
        "node",
        "priority",
        "request",
        "run",
        "sampling",
        "schema",
        "source",
        "timeout",
        "tools",
        "worker",
    )

    others: tuple[Spot, ...] = ()
    batches: Any = None
    """The group that answers it with other calls, if it asks for embeddings."""

    def __init__(
        self,
        address: str,
        home: Home | None,
        frame: ReferenceType[CallFrame],
        run: CallRun,
        account: Account | None,
        identity: CallIdentity,
        node: PromptNode | None,
        messages: Messages | None,
        model: str,
        sampling: Sampling,
        n: int = 1,
        timeout: float | None = None,
        priority: int = 0,
        cache: str | None = None,
        tools: ToolRunner | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(address, home, node is None or node.is_ready)
        self.frame, self.run, self.account, self.identity = frame, run, account, identity
        self.node, self.messages = node, messages
        self.model, self.sampling, self.n = model, sampling, n
        self.timeout, self.priority, self.cache, self.tools = timeout, priority, cache, tools
        self.key = key
        self.attempts = 0
        self.emit: Feed | None = None
        self.request: Request | None = None
        self.worker: Task[None] | None = None
        self.source: Source | None = None
        self.earlier_answer: Response | None = None
        self.schema: dict[str, Any] | None = None  # of the type of its answer

    @property
    def file(self) -> str | None:
        """The user's file."""
        return self.identity.file

    @property
    def line(self) -> int | None:
        """The user's line."""
        return self.identity.line

    @property
    def place(self) -> tuple[str, int] | None:
        """The user's file and line."""
        file, line = self.identity.file, self.identity.line
        return (file, line) if file is not None and line is not None else None

    @property
    def away(self) -> int:
        """The number, from 1, of the worker that has made it; 0 for a call of this process."""
        return 0

    @property
    def profile(self) -> Profile:
        """The profile of the backends that may answer."""
        return self.run.dispatch.models.profile_of(self.model)

    def trunk(self) -> PromptNode | None:
        """The prompt as parts, given messages too, for another call to continue."""
        if self.node is not None or self.messages is None:
            return self.node
        return nodes_of(None, self.messages)

    def add(self, role: RoleName, text: str) -> None:
        """Have the prompt end with one more item; before the call is submitted."""
        node = PromptNode(self.trunk(), VOICES[role], text, site=self.place)
        self.node, self.messages = node, None

    def longer(self, address: str, node: PromptNode) -> Call:
        """The same question with a longer prompt, asked on behalf of this call."""
        return Call(
            address, None, self.frame, self.run, self.account, self.identity, node, None,
            self.model, self.sampling, self.n, self.timeout, self.priority, self.cache, self.tools,
            self.key,
        )  # fmt: skip

    # -- as a part of a series

    @property
    def call(self) -> Call:
        """This call itself: the first of what is one call."""
        return self

    def calls(self) -> Iterator[Call]:
        """This call alone."""
        yield self

    def begin(self) -> Call:
        """The call to submit: this one, which follows no other."""
        return self

    def stream_to(self, sink: Sink) -> None:
        """Have what the backend emits passed on to *sink*; before the call is submitted."""
        from appl.runtime.answers.feed import Feed  # few calls are streamed

        self.emit = Feed(self.address, self.run.reporter, sink)

    @property
    def stream(self) -> Stream | None:
        """The stream of what the backend emits, if there is one."""
        if self.emit is None:
            return None
        from appl.runtime.answers.stream import Stream  # few calls are streamed

        return self.emit.sink if isinstance(self.emit.sink, Stream) else None

    # -- on the I/O thread

    def admit(self) -> None:
        """Hand this call to the scheduler."""
        self.run.admit(self)

    def prepare(self) -> None:
        """Render the prompt, whose parts are all there."""
        node = self.node
        if node is not None and self.messages is None:
            self.messages = node.messages()
        if self.messages is not None and self.messages.needs:
            check_media(self.profile, self.messages)
        self.request = Request(
            self.address, self.identity.ordinal, self.model, self.messages, self.sampling,
            self.n, 0, self.timeout, self.priority, self.cache, self.key,
        )  # fmt: skip

    def starts(self) -> None:
        """Report that the prepared call starts."""
        watcher, request = self.run.reporter.watcher, self.request
        if watcher is not None and request is not None:
            at = time.monotonic_ns()
            kind, _, file, line = self.identity
            edges = self.edges() if self.node is not None and self.node.has_hole else ()
            watcher.on_event(CallStarted(request, kind, edges, file, line, at))

    def edges(self) -> tuple[str, ...]:
        """The addresses of the calls whose answers the prompt holds, those implied left out."""
        if self.node is None or not self.node.has_hole:
            return ()
        addresses = dict.fromkeys(
            at for source in sources(self.node) for at in source.answered_by()
        )
        return tuple(addresses)

    def answered(self, response: Response) -> None:
        """End the call well if every sample is there; samples that were ``given`` come first."""
        if self.earlier_answer is not None:
            from appl.runtime.answers.samples import mixed  # few calls begin with known samples

            response = mixed(self.earlier_answer, response)
        if len(response.samples) < max(self.n, 1):
            got = f"{len(response.samples)} of {self.n} samples"
            self.failed(MalformedResponse(f"the backend answered with {got}"))
            return
        wrong = self.emit.complete(response) if self.emit is not None else None
        if wrong is not None:
            self.failed(MalformedResponse(f"the backend contradicts itself: {wrong}"))
            return
        self._end(Value(Text.of(self.address, response, tools=self.tools)), response, None)

    def told(self, news: Any) -> None:
        """Take a piece of the answer, the answer, or an error from the world."""
        if isinstance(news, Chunk):
            assert self.emit is not None
            self.emit(news)
        elif isinstance(news, BaseException):
            self.failed(news)
        else:
            self.answered(news)

    def failed(self, error: BaseException) -> None:
        """End the call with *error*, which gets a note of where it was issued."""
        explained(error, self.where())
        if isinstance(error, CallCancelled):  # who cancelled it knows
            self.looked = True
        self._end(Error(error), None, error)

    def failed_as(self, outcome: Error) -> None:
        """Have the call fail, as a part of its prompt failed, when the world says so."""
        moment = Moment(self.address, "answer")
        self.run.outside.ends(moment, "failed", lambda: self._end(outcome, None, outcome.error))

    def _end(
        self, outcome: Outcome, response: Response | None, error: BaseException | None
    ) -> None:
        if self.outcome is not None:
            return
        if self.emit is not None:
            self.emit.close()
        is_under_way = error is not None and self.run.waiting is not None
        if (watcher := self.run.reporter.watcher) is not None and not is_under_way:
            at, chunks = time.monotonic_ns(), self.emit.chunks if self.emit is not None else ()
            watcher.on_event(CallEnded(self.address, response, error, at, chunks, self.source))
        self.finish(outcome)

    def aborted(self) -> None:
        """End as cancelled, when the world says so: it may come too late."""
        self.run.outside.ends(Moment(self.address, "answer"), "cancelled", self._abort)

    def _abort(self) -> None:
        """End as cancelled; an attempt that runs is aborted first, with the work behind it."""
        if self.outcome is not None:
            return
        if self.worker is not None:
            self.worker.cancel()
        else:
            self.failed(CallCancelled(f"the call {self.address} was cancelled"))

    def end_from_outside(self) -> bool:
        """End as cancelled by somebody outside of the program; false when it had ended before."""
        if self.outcome is not None:
            return False
        worker = self.worker
        message = f"the call {self.address} was cancelled from outside"
        self.failed(CallCancelled(message, outside=True))
        if worker is not None:
            worker.cancel()
        return True

    def parted(self, error: BaseException) -> None:
        """End with *error*; if its own attempt has found it, the attempt is ended after it."""
        self.failed(error)
        io_thread().soon(self._let_go)

    def _let_go(self) -> None:
        if self.worker is not None:
            self.worker.cancel()

    # -- on any thread

    def where(self) -> str:
        """The place of the call in the program, for notes on errors."""
        at = f", {self.file}:{self.line}" if self.file else ""
        return f"in call {self.address}{at}"

    def cancel(self) -> None:
        self.looked = True
        if self.outcome is None:
            io_thread().send(self.aborted)

    def deliver(self) -> None:
        watcher = self.run.reporter.watcher
        if watcher is not None and not self.delivered and self.run.waiting is None:
            watcher.on_event(Delivered(self.address, time.monotonic_ns()))
        super().deliver()

    def blockers(self) -> Iterable[Promise]:
        return (source for source in sources(self.node) if not source.done)

    def answered_prompt(self) -> PromptNode | None:
        return self.node

    def suspicious(self) -> bool:
        return self.node is not None and self.node.first_waiting() is not None


def sources(node: PromptNode | None) -> Iterator[Promise]:
    """The calls that the lazy parts of a prompt wait for, nearest first.

    Ends at an answer that was asked for with all earlier parts before it: it implies them.
    """
    hole = node.hole if node is not None else None
    while hole is not None:
        part = hole.lazy
        assert part is not None
        source = source_of(part)
        if isinstance(part, PromptSlot) and source.done:
            yield from _sources_in(part)
        else:
            yield source
        before = hole.before
        prompt_node = source.answered_prompt()
        if prompt_node is not None and before is not None and prompt_node.hole is before:
            return
        hole = before


def _sources_in(place: PromptSlot) -> Iterator[Promise]:
    for node in reversed(place.prompt_nodes()):
        if isinstance(node.part, PromptSlot):
            yield from _sources_in(node.part)
        elif node.lazy is not None:
            yield source_of(node.lazy)
