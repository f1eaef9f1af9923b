"""A recorded run as values: read once, from the first block to the last good one.

Invariant: opening writes nothing, runs nothing and makes only plain data and the values of appl;
any file gives a ``Trace`` or a ``TraceError``. All is built iteratively, in the file's order.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from appl.backend import Chunk, Request, Response
from appl.base.collecting import no_collection
from appl.errors import CallCancelled
from appl.prompt import (
    Messages,
)
from appl.tracing.format import block, codec
from appl.tracing.format.store import is_tape, regular_file
from appl.tracing.format.table import REDACTED
from appl.tracing.format.totals import Totals, combined
from appl.tracing.format.trace_scan import State, TraceScan
from appl.tracing.reading.recorded_step import RecordedStep

if TYPE_CHECKING:
    from appl.prompt.notebook import Bundle
    from appl.tracing.format.chunks import Texts
    from appl.tracing.format.failures import FailureCounts, Failures
    from appl.tracing.format.keys import RunKey
    from appl.tracing.reading.batches import RecordedBatch
    from appl.tracing.reading.spans import Span
    from appl.tracing.reading.tooluse import ToolUse

Home = Path | Callable[[], Path] | None
"""The folder with the keys of private traces, or a function that tells it if it is needed."""


@dataclass(slots=True)
class Attempt:
    """One try of a call: when it was handed to the backend, and how it failed if it did.

    ``wait`` is the time until the next one, at least, when it failed. ``waited`` are microseconds
    that it waited before it was sent, besides its turn: for ``budget``, ``circuit``, ``rate``.
    """

    number: int
    at: int | None = None
    error: BaseException | None = None
    wait: int | None = None
    waited: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class RecordedCall(RecordedStep):
    """A recorded call.

    ``shown`` says at which deliveries how many chunks of its stream had reached the program,
    ``begun`` what one that failed had said by then. Of a streamed answer, ``first`` is when the
    first chunk had come. ``source`` is ``None`` for a call that was asked live, else how another
    run answered for it: ``reused``, ``shifted`` or ``moved`` from its call ``of``, or ``pinned``.
    """

    ordinal: int = 0
    kind: str = ""
    model: str = ""
    sampling: str = "{}"
    messages: Messages | None = None
    n: int = 1
    sample: int = 0
    content: bytes = b""
    edges: tuple[str, ...] = ()
    timeout: float | None = None
    attempts: list[Attempt] = field(default_factory=list)
    response: Response | None = None
    shown: list[tuple[int, int]] = field(default_factory=list)
    cuts: Sequence[Any] = ()
    begun: Texts | None = None
    source: str | None = None
    of: str | None = None
    first: int | None = None

    @property
    def ended_as(self) -> Literal["answered", "failed", "cancelled"] | None:
        """The outcome that users are shown: a call that was ended from outside was cancelled.

        ``outcome`` is what a replay goes by. There such a call has failed: the program, which did
        not cancel it, is told so again.
        """
        return "cancelled" if isinstance(self.error, CallCancelled) else self.outcome

    @property
    def ended_from_outside(self) -> bool:
        """True if it was cancelled from outside its program, which got that as an error."""
        return self.outcome == "failed" and isinstance(self.error, CallCancelled)

    def spans(self) -> list[list[Span]]:
        """For each message of the prompt where its text comes from; empty lists where unknown."""
        from appl.tracing.reading.spans import spans_of  # a replay shows no prompt

        return spans_of(self.messages)

    def chunks(self) -> Iterator[Chunk]:
        """The chunks of a streamed answer; none if it was not streamed or was masked."""
        from appl.tracing.format.chunks import rebuilt, texts_of  # few answers are streamed

        whole = self.begun or (texts_of(self.response, self.sample) if self.response else {})
        return rebuilt(() if self.lost else self.cuts, whole)

    def count_in(self, totals: Totals, earlier: bool = False) -> None:
        """Count the call in *totals*. Of an *earlier* record, which a later process began again,
        only its cost counts.
        """
        if earlier:
            totals.in_doubt += self.ended_as is None and bool(self.attempts)
        else:
            totals.calls += 1
            if (ended_as := self.ended_as) is not None:
                setattr(totals, ended_as, getattr(totals, ended_as) + 1)
            if self.source is not None:
                totals.save(self.response)
                return
        totals.attempts += len(self.attempts)
        totals.attempts_failed += sum(attempt.error is not None for attempt in self.attempts)
        if self.response is not None:
            totals.spend(self.response)

    def as_data(self) -> dict[str, Any]:
        """The call as JSON-ready data."""
        from appl.tracing.reading import documents  # most runs are not written as JSON

        return documents.of_call(self)


class Elapsed:
    """The time from the first start to the last end of calls, of each process by itself."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}

    def add(self, call: RecordedCall) -> None:
        """Take in the times of one more call."""
        number = call.incarnation
        if call.started is not None:
            self._first[number] = min(self._first.get(number, call.started), call.started)
        if call.ended is not None:
            self._last[number] = max(self._last.get(number, call.ended), call.ended)

    @property
    def seconds(self) -> float:
        """The sum over the processes."""
        both = self._first.keys() & self._last.keys()
        return sum(self._last[number] - self._first[number] for number in both) / 1e6


@dataclass(frozen=True, slots=True)
class Scope:
    """A function, ``call``, ``map`` item or task that got an address."""

    address: str
    parent: str
    name: str
    file: str | None
    line: int | None
    at: int
    metadata: Any = None
    incarnation: int = 0
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """The end of a function: it returned the answer of ``call``, or ``value``, or it raised."""

    address: str
    call: str | None
    value: str | None
    error: BaseException | None
    at: int
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that a program saw of the outside world; ``position`` is among the deliveries."""

    address: str
    ordinal: int
    kind: str
    value: Any
    at: int
    position: int
    masked: tuple[str, ...] = ()
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Incarnation:
    """A process that wrote to this trace; ``wall`` and ``monotonic`` (ns) were read at once."""

    number: int
    pid: int
    host: str
    reason: str
    wall: int
    monotonic: int


@dataclass(slots=True)
class Trace:
    """The contents of a trace file.

    ``tools`` are the calls of tools, by address. ``torn`` is the size of a last group that a crash
    cut off; ``moments`` counts deliveries and observations together, in whose order a replay tells
    them again. ``failures`` are refused answers and failed items, by address.
    ``returns`` are the ends of functions, by address, where arguments are recorded.
    ``earlier`` are records of calls that a later process began again, ``batches`` those that were
    made for a provider, by key. ``others`` are answers of earlier runs, to other questions at the
    same addresses. ``read_to`` is the end of what was read of the file, and the checksum of its
    last block.
    """

    path: Path
    header: dict[str, Any] = field(default_factory=dict)
    incarnations: list[Incarnation] = field(default_factory=list)
    scopes: Sequence[Scope] = field(default_factory=list)
    calls: Sequence[RecordedCall] = field(default_factory=list)
    observations: Sequence[Observation] = field(default_factory=list)
    warnings: Sequence[tuple[str, str]] = field(default_factory=list)
    state: State = "crashed"
    reason: str = ""
    error: BaseException | None = None
    torn: int = 0
    read_to: tuple[int, int] | None = None
    records: int = 0
    masked: int = 0
    moments: int = 0
    by_address: Mapping[str, RecordedCall] = field(default_factory=dict)
    others: list[RecordedCall] = field(default_factory=list)
    tools: Mapping[str, ToolUse] = field(default_factory=dict)
    failures: Failures = field(default_factory=dict)
    returns: dict[str, Returned] = field(default_factory=dict)
    earlier: Sequence[RecordedCall] = field(default_factory=list)
    batches: dict[str, RecordedBatch] = field(default_factory=dict)
    key: RunKey | None = field(default=None, repr=False)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        salvage: bool = False,
        limit: int = 0,
        home: Home = None,
        check: bool = False,
    ) -> Trace:
        """Read the trace, or the tape, at *path*, a stranger's too; writes nothing.

        Prompts, answers, results and observed values are read when somebody asks for them, and
        each time anew unless that was a short while ago: the file stays open until nobody holds
        the trace or its calls. One that is not valid raises ``TraceCorrupt`` where it is asked for,
        or, with *check*, here.
        With *salvage* a damaged trace gives the part before the damage. *limit* is the memory in
        bytes that its records may take, when the default of 128 MiB and 50 times the file is not
        what is wanted. Of a private trace, *home* is where its key is looked for, to replay it, or
        a function that tells where; without one it is only read. Raises ``TraceError``.
        """
        with regular_file(Path(path)) as file:
            if is_tape(file):
                from appl.tracing.tape import reading as tape  # only a tape is read by it

                return tape.read_from(file, Path(path), limit)
            scan = TraceScan(file, salvage=salvage, limit=limit)
            return cls(Path(path)).filled(scan, home, check)

    def filled(self, scan: TraceScan, home: Home = None, check: bool = False) -> Trace:
        """This trace, with all that *scan* finds in its file. Raises ``TraceError``."""
        from appl.tracing.reading.reader import Reader  # it makes the values of this module

        reader = Reader.of_blocks(self, scan, home)
        reader.checks = check
        with no_collection():  # all that is made stays
            scan.read(reader.block)
        reader.finish(scan)
        return self

    @property
    def private(self) -> bool:
        """True if the trace was made with a key, and does not show the texts of its run."""
        return "privacy" in self.header

    @property
    def opened(self) -> bool:
        """True if the trace is not private, or was read with its key."""
        privacy = self.header.get("privacy")
        sealed = isinstance(privacy, dict) and privacy.get("mode") == REDACTED
        return not self.private or (sealed and self.key is not None)

    def content_of(self, request: Request) -> bytes:
        """The content digest that *request* has in this trace."""
        return request.digest if self.key is None else self.key.digest(request.digest)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """The forms of the trace that a notebook can show."""
        from appl.tracing.reading import documents

        return documents.bundle(self)

    def totals(self) -> Totals:
        """The sums over all calls."""
        return combined(self.totals_by_model().values())

    def failure_counts(self) -> FailureCounts:
        """The numbers of answers that were refused, and of items of maps and tools that failed."""
        from appl.tracing.format.failures import counts_of  # a replay counts none

        return counts_of(self.failures, sum(used.has_failed for used in self.tools.values()))

    def sums(self) -> dict[str, object]:
        """The sums over all calls, and what else failed, as JSON-ready data."""
        return {**self.totals().as_data(), **self.failure_counts().as_data()}

    def outcome_of(self, call: RecordedCall) -> str:
        """The outcome of *call* that users are shown: ``rejected`` if its type refused the answer
        and it was not asked for again.
        """
        if call.response is not None and call.address in self.failures:
            return "rejected"
        return call.ended_as or "in flight"

    def totals_by_model(self) -> dict[str, Totals]:
        """The sums over the calls, by the model that they asked for."""
        totals: dict[str, Totals] = {}
        for is_earlier, calls in ((False, self.calls), (True, self.earlier)):
            for call in calls:
                call.count_in(totals.setdefault(call.model, Totals()), is_earlier)
        return totals

    def began(self) -> datetime | None:
        """When the run began, in UTC."""
        first = self.incarnations[0] if self.incarnations else None
        return datetime.fromtimestamp(first.wall / 1e9, UTC) if first else None

    def every_call(self) -> Iterator[RecordedCall]:
        """All records of calls: first of those that a later process began again."""
        return itertools.chain(self.earlier, self.calls)

    @property
    def batched(self) -> frozenset[str]:
        """The addresses of calls that are, or were, in batches."""
        return frozenset(address for it in self.batches.values() for address in it.calls)

    def paid_calls(self) -> list[RecordedCall]:
        """All records of calls, but for those in batches that a later process began again.

        These got their answers from the batch that the first process had sent, paid once.
        """
        if not self.batches:
            return [*self.every_call()]
        batched = self.batched
        return [*(call for call in self.earlier if call.address not in batched), *self.calls]

    def seconds(self) -> float:
        """From the first start to the last end, as far as recorded; of each process by itself."""
        elapsed = Elapsed()
        for call in self.every_call():
            elapsed.add(call)
        return elapsed.seconds

    def wall(self, at: int, incarnation: int = 0) -> int:
        """The time *at* of an incarnation in nanoseconds since 1970: those of several add up."""
        incarnations = self.incarnations
        return at * 1000 + (
            incarnations[incarnation].wall if incarnation < len(incarnations) else 0
        )

    def as_data(self) -> dict[str, Any]:
        """The whole trace as JSON-ready data."""
        from appl.tracing.reading import documents

        return documents.of_trace(self)


def records(path: Path) -> Iterator[Any]:
    """The raw records of the trace at *path*, as they stand; for tools and tests."""
    with regular_file(path) as file:
        for raw in block.scan(file, block.Scan()):
            yield from codec.unpack(raw)
