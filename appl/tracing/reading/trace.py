"""A recorded run as values: read once, from the first block to the last good one.

Invariant: opening writes nothing, runs nothing and makes only plain data and the values of appl;
any file gives a ``Trace`` or a ``TraceError``. All is built iteratively, in the file's order.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from appl.backend import Chunk, Request, Response
from appl.errors import CallCancelled, TraceCorrupt, TraceError, TraceTooNew
from appl.prompt import (
    NOWHERE,
    ROLES,
    Media,
    Message,
    Messages,
    Origin,
    Rope,
    Spans,
    tagged,
)
from appl.prompt.notebook import Bundle
from appl.tracing.format import block, codec, keys, record, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance, of_file
from appl.tracing.format.chunks import Texts, check, rebuilt, texts_of
from appl.tracing.format.failures import Failure, FailureCounts, Failures, error_key
from appl.tracing.format.record import checked, optional, word
from appl.tracing.format.sealing import REDACTED, Sealer
from appl.tracing.format.store import State, TraceScan, is_tape, regular_file
from appl.tracing.format.table import MASKED, SEALED, as_record, chosen, tag_of, width
from appl.tracing.format.totals import Totals, by_model, combined
from appl.tracing.reading import notebook
from appl.tracing.reading.spans import Span, cut, spans_of
from appl.tracing.reading.tooluse import RecordedStep, ToolUse

Home = Path | Callable[[], Path] | None
"""The folder with the keys of private traces, or a function that tells it if it is needed."""

_MANY = 1 << 31
_EDGE = 128
_RECENT = 64  # attempts of one call that may be under way at once
CLOSE, AROUND, _UNUSUAL = tag_of(table.CloseRecord), (MASKED, SEALED), (0, 0)
_TAKES = {
    tag_of(kind): (width(kind), size)
    for kind, size in (
        (table.StartRecord, 512),
        (table.DispatchRecord, 256),
        (table.PromptRecord, 448),
        (table.DeliveryRecord, 64),
    )
}
"""Fast path for the most frequent records: the number of their fields without optional ones, and an
upper bound in bytes for the memory that such a record takes."""

_KEPT = table.tags(
    [table.ProcessRecord, table.FileRecord, table.LineRecord, table.ParametersRecord]
)
"""The kinds of which every reader keeps all records."""

_DECIMAL = 2_000
"""Bits of an integer that is written in decimal digits."""
BAD = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


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
        return spans_of(self.messages)

    def chunks(self) -> Iterator[Chunk]:
        """The chunks of a streamed answer; none if it was not streamed or was masked."""
        return rebuilt(() if self.lost else self.cuts, self._whole())

    def _whole(self) -> Texts:
        return self.begun or (texts_of(self.response, self.sample) if self.response else {})

    def as_data(self) -> dict[str, Any]:
        """The call as JSON-ready data."""
        messages = [message.as_dict() for message in self.messages or ()]
        return {**self.facts(), "messages": messages}

    def facts(self) -> dict[str, Any]:
        """The call as JSON-ready data, without the messages of its prompt."""
        response = self.response
        samples = response.samples if response else ()
        return {
            "address": self.address,
            "ordinal": self.ordinal,
            "kind": self.kind,
            "model": self.model,
            "sampling": self.sampling,
            "content": tagged(self.content),
            "edges": list(self.edges),
            "file": self.file,
            "line": self.line,
            "started_us": self.started,
            "ended_us": self.ended,
            "attempts": len(self.attempts),
            "retries": [
                {"attempt": each.number, "error": error_data(each.error), "wait_us": each.wait}
                for each in self.attempts
                if each.error is not None
            ],
            "outcome": self.ended_as,
            "texts": [s.text for s in samples],
            "finish_reasons": [s.finish_reason for s in samples],
            "tool_calls": [[call.as_dict() for call in s.tool_calls] for s in samples],
            "reasoning": [s.reasoning for s in samples],
            "chunks": [len(chunk.text) for chunk in self.chunks()],
            "usage": asdict(response.usage) if response else None,
            "cost": response.cost if response else None,
            "reused": response.reused if response else 0,
            "shed": list(response.shed) if response else [],
            "scores": list(response.scores) if response and response.scores else None,
            "choice_method": response.choice_method if response else None,
            "error": error_data(self.error),
            "masked": list(self.masked),
            "source": self.source,
            "of": self.of,
        }


def error_data(error: BaseException | None) -> dict[str, str] | None:
    """*error* as JSON-ready data."""
    return None if error is None else {"type": type(error).__name__, "message": str(error)}


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


@dataclass(slots=True)
class Trace:
    """The contents of a trace file.

    ``tools`` are the calls of tools, by address. ``torn`` is the size of a last group that a crash
    cut off; ``moments`` counts deliveries and observations together, in whose order a replay tells
    them again. ``failures`` are refused answers and failed items, by address.
    ``earlier`` are records of calls that a later process began again.
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
    records: int = 0
    masked: int = 0
    moments: int = 0
    by_address: Mapping[str, RecordedCall] = field(default_factory=dict)
    tools: Mapping[str, ToolUse] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    earlier: Sequence[RecordedCall] = field(default_factory=list)
    key: keys.RunKey | None = field(default=None, repr=False)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        salvage: bool = False,
        limit: int = 0,
        home: Home = None,
    ) -> Trace:
        """Read the trace, or the tape, at *path*, a stranger's too; writes nothing.

        With *salvage* a damaged trace gives the part before the damage. *limit* is the memory in
        bytes that its records may take, when the default of 128 MiB and 50 times the file is not
        what is wanted. Of a private trace, *home* is where its key is looked for, to replay it, or
        a function that tells where; without one it is only read. Raises ``TraceError``.
        """
        with regular_file(Path(path)) as file:
            if is_tape(file):
                from appl.tracing.tape import reading as tape  # only a tape is read by it

                return tape.read_from(file, Path(path), limit)
            return cls(Path(path)).filled(TraceScan(file, salvage=salvage, limit=limit), home)

    def filled(self, scan: TraceScan, home: Home = None) -> Trace:
        """This trace, with all that *scan* finds in its file. Raises ``TraceError``."""
        builder = Builder(self, scan.allowance, home)
        scan.read(builder.block)
        self.moments = builder.deliveries
        self.calls = list(self.by_address.values())
        self.torn, self.state = scan.torn, scan.state(builder.closed)
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
        return notebook.bundle(self)

    def totals(self) -> Totals:
        """The sums over all calls."""
        return combined(self.totals_by_model().values())

    def failure_counts(self) -> FailureCounts:
        """The numbers of answers that were refused, and of items of maps and tools that failed."""
        return self.failures.counts(sum(used.has_failed for used in self.tools.values()))

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
        return by_model(self.calls, self.earlier)

    def began(self) -> datetime | None:
        """When the run began, in UTC."""
        first = self.incarnations[0] if self.incarnations else None
        return datetime.fromtimestamp(first.wall / 1e9, UTC) if first else None

    def every_call(self) -> Iterator[RecordedCall]:
        """All records of calls: first of those that a later process began again."""
        return itertools.chain(self.earlier, self.calls)

    def seconds(self) -> float:
        """From the first start to the last end, as far as recorded; of each process by itself."""
        elapsed = Elapsed()
        for call in self.every_call():
            elapsed.add(call)
        return elapsed.seconds

    def wall(self, at: int, incarnation: int = 0) -> int:
        """The time *at* of an incarnation in nanoseconds since 1970: those of several add up."""
        known = self.incarnations
        return at * 1000 + (known[incarnation].wall if incarnation < len(known) else 0)

    def facts(self) -> dict[str, object]:
        """The trace as JSON-ready data, without what is counted or listed one by one."""
        began = self.began()
        return {
            "path": str(self.path),
            "state": self.state,
            "reason": self.reason,
            "error": error_data(self.error),
            "began": began.isoformat() if began else None,
            "torn_bytes": self.torn,
            "header": jsonable(self.header),
        }

    def call_facts(self, call: RecordedCall) -> dict[str, Any]:
        """*call* as JSON-ready data without its messages; a refused answer is ``rejected``."""
        data = call.facts()
        refused = self.failures.get(call.address) if call.response is not None else None
        if refused is not None:
            data |= {"outcome": "rejected", "error": error_data(refused.error)}
        return data

    def as_data(self) -> dict[str, Any]:
        """The whole trace as JSON-ready data."""
        return {
            **self.facts(),
            "seconds": self.seconds(),
            "totals": self.sums(),
            "failures": [failure.as_data() for failure in self.failures.values()],
            "scopes": [scope_data(scope) for scope in self.scopes],
            "calls": [{**call.as_data(), **self.call_facts(call)} for call in self.calls],
            "tools": [used.as_data() for used in self.tools.values()],
            "observations": [observation_data(seen) for seen in self.observations],
            "warnings": [{"address": a, "message": m} for a, m in self.warnings],
        }


def scope_data(scope: Scope) -> dict[str, Any]:
    """*scope* as JSON-ready data."""
    data = {name: getattr(scope, name) for name in scope.__slots__}
    return {**data, "metadata": jsonable(scope.metadata)}


def observation_data(seen: Observation) -> dict[str, Any]:
    """*seen* as JSON-ready data."""
    return {
        "address": seen.address,
        "ordinal": seen.ordinal,
        "kind": seen.kind,
        "value": jsonable(seen.value),
        "masked": list(seen.masked),
    }


def jsonable(value: object) -> Any:
    """*value* with what JSON lacks turned into text: bytes, and keys that are no strings.

    An integer of more than 2,000 bits is its hexadecimal text: Python refuses to write long ones in
    decimal, each interpreter from another length on.
    """
    if isinstance(value, dict):
        return {_key(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, int) and value.bit_length() > _DECIMAL:
        return hex(value)
    return value


def _key(key: object) -> str:
    try:
        return str(key)
    except ValueError:  # it is, or holds, an integer too long for decimal digits
        return str(jsonable(key))


class NumberedRecords:
    """The values that records of one process refer to by numbers, counted from 1 in each process.

    Where a value has masked secrets their names follow it.
    """

    def __init__(self, values: Callable[[table.Kind], Any] = lambda kind: {}) -> None:
        self.files: dict[int, str] = values(table.FileRecord)
        self.lines: dict[int, tuple[str, int]] = values(table.LineRecord)
        self.scopes: dict[int, str] = values(table.ScopeRecord)
        self.pieces: dict[int, list[bytes]] = values(table.PieceRecord)
        self.media: dict[int, tuple[Media, tuple[str, ...]]] = values(table.MediumRecord)
        self.messages: dict[int, tuple[Message, tuple[str, ...]]] = values(table.MessageRecord)
        self.ropes: dict[int, tuple[Message, Rope, tuple[str, ...]]] = values(table.LongerRecord)
        self.nodes: dict[int, tuple[Messages, tuple[str, ...]]] = values(table.PromptRecord)
        self.parameters: dict[int, tuple[str, str, tuple[str, ...]]] = values(
            table.ParametersRecord
        )
        self.calls: dict[int, RecordedCall] = values(table.StartRecord)
        self.answer_masks: dict[int, tuple[str, ...]] = {}
        self.used: dict[Any, ToolUse] = {}


class Builder:
    """Puts the records of a file together; keeps the numbers of the current incarnation.

    What is made of them is taken from *allowance*.
    """

    _call_kind: type[RecordedCall] = RecordedCall

    def __init__(
        self, trace: Trace, allowance: DecodingAllowance | None = None, home: Home = None
    ) -> None:
        self._trace, self._allowance = trace, allowance or DecodingAllowance(of_file(0))
        self._home, self._sealer = home, None if trace.key is None else Sealer(trace.key)
        self._scopes: list[Scope] = checked(list, trace.scopes)
        self._observations: list[Observation] = checked(list, trace.observations)
        self._warnings: list[tuple[str, str]] = checked(list, trace.warnings)
        self._earlier: list[RecordedCall] = checked(list, trace.earlier)
        self._by_address: dict[str, RecordedCall] = checked(dict, trace.by_address)
        self._tools: dict[str, ToolUse] = checked(dict, trace.tools)
        self.closed = False
        self.deliveries = self._positions = self._ends = 0
        self._masks: tuple[str, ...] = ()
        self._forget()
        handlers: dict[table.Kind, Callable[[Any], None]] = {
            table.HeaderRecord: self._header,
            table.ProcessRecord: self._process,
            table.FileRecord: self._source_file,
            table.ScopeRecord: self._scope,
            table.LineRecord: self._line,
            table.PieceRecord: self._piece,
            table.MediumRecord: self._medium,
            table.MessageRecord: self._message,
            table.LongerRecord: self._longer,
            table.PromptRecord: self._prompt,
            table.ParametersRecord: self._params,
            table.StartRecord: self._start,
            table.DispatchRecord: self._dispatch,
            table.RetryRecord: self._retry,
            table.ChunksRecord: self._chunks,
            table.EndRecord: self._end,
            table.DeliveryRecord: self._delivery,
            table.ToolStartRecord: self._tool,
            table.ToolEndRecord: self._result,
            table.FailureRecord: self._failure,
            table.ObservationRecord: self._observation,
            table.WarningRecord: self._warning,
            table.CloseRecord: self._close,
        }
        self._handlers = {tag_of(kind): handler for kind, handler in handlers.items()}

    def _count_kept(self) -> None:
        """Count the records that are kept to the end, for a reader that lets go of the others."""
        for tag in _KEPT & self._handlers.keys():
            self._handlers[tag] = functools.partial(self._kept, self._handlers[tag])

    def _kept(self, handler: Callable[[Any], None], record: object) -> None:
        self._allowance.spend(2 * RECORD)
        handler(record)

    def _forget(self) -> None:
        """Begin a new space of numbers: each process that writes counts from 1."""
        self._numbered = NumberedRecords()

    def block(self, raw: bytes, number: int) -> None:
        """Take in the records of one block. Raises ``TraceCorrupt``."""
        try:
            self._take_in(raw)
        except TraceError:
            raise
        except BAD as error:
            at = self._trace.records
            raise TraceCorrupt(f"record {at} (block {number}) is not valid: {error!r}") from None

    def _take_in(self, raw: bytes) -> None:
        trace, allowance, take_in = self._trace, self._allowance, self._record
        scratch = DecodingAllowance(max(allowance.most - allowance.taken, 0))
        for fields in codec.unpack(raw, scratch):
            plain, takes = _TAKES.get(fields[0], _UNUSUAL)
            allowance.spend(takes if len(fields) == plain else RECORD + scratch.taken)
            scratch.taken = 0
            take_in(fields)
            trace.records += 1

    def _record(self, fields: Any) -> None:
        self._masks = ()
        if fields[0] in AROUND:
            fields = self._unwrapped(fields)
        tag = fields[0]
        self.closed = tag == CLOSE
        handler = self._handlers.get(tag)
        if handler is not None:
            handler(as_record(fields))

    def _unwrapped(self, fields: Any) -> object:
        """The record that was sealed or masked; notes what was taken out of it."""
        if fields[0] == SEALED:
            _, sealed, names, shown = fields
            fields = self._opened(sealed, names, shown)
        if fields[0] == MASKED:
            _, names, fields = fields
            self._masks = tuple(checked(str, name) for name in names)
            if self._sealer is not None:  # with the key, what only its owner may read is no gap
                self._masks = tuple(name for name in self._masks if name != REDACTED)
            self._trace.masked += 1
        return fields

    def _opened(self, sealed: object, names: object, shown: object) -> Any:
        """The sealed record, where there is a key; else what is shown in its place."""
        for header in chosen([shown], table.HeaderRecord):
            self._header(header)
        if self._sealer is None:
            return (MASKED, names, shown)
        record = self._sealer.open(checked(bytes, sealed), codec.pack(shown))
        (original,) = codec.unpack(record, self._allowance)
        return original

    def _find_key(self) -> None:
        if self._home is None or self._sealer is not None or not self._trace.private:
            return
        name = keys.identity_in(self._trace.header)
        if name is None:
            return
        self._trace.key = keys.find(self._home() if callable(self._home) else self._home, name)
        privacy = self._trace.header["privacy"]
        if self._trace.key is not None and privacy.get("mode") == REDACTED:
            self._sealer = Sealer(self._trace.key)

    def _header(self, header: table.HeaderRecord) -> None:
        self._trace.header = checked(dict, codec.revive(header.facts, self._long))
        written = checked(int, self._trace.header.get("format"))
        if written > record.FORMAT:
            raise TraceTooNew(
                f"the trace has format {written}; this version of appl reads up to {record.FORMAT}"
            )
        self._find_key()

    def _process(self, process: table.ProcessRecord) -> None:
        self._forget()
        self._trace.reason, self._trace.error = "", None  # how an earlier process ended is past
        self._trace.incarnations.append(
            Incarnation(
                checked(int, process.number),
                checked(int, process.pid),
                checked(str, process.host),
                checked(str, process.reason),
                checked(int, process.wall_ns),
                checked(int, process.monotonic_ns),
            )
        )

    @property
    def _incarnations(self) -> int:
        """The index of the process whose records are read."""
        return max(len(self._trace.incarnations) - 1, 0)

    def _source_file(self, file: table.FileRecord) -> None:
        self._numbered.files[checked(int, file.id)] = checked(str, file.name)

    def _piece(self, piece: table.PieceRecord) -> None:
        pieces = self._numbered.pieces.setdefault(checked(int, piece.id), [])
        if piece.place != len(pieces):
            raise ValueError(f"piece {piece.place} of a long text follows piece {len(pieces) - 1}")
        pieces.append(checked(bytes, piece.data))

    def _long(self, value: object) -> Any:
        """The text that *value* is or refers to."""
        if not isinstance(value, dict):
            return value
        number, length, is_text = value["$blob"]
        data = b"".join(self._numbered.pieces[number])
        self._allowance.spend(len(data))
        self._allowance.spend_text(data)
        if len(data) != length:
            raise ValueError(f"a long text has {len(data)} bytes instead of {length}")
        return data.decode("utf-8", "surrogatepass") if is_text else data

    def _scope(self, scope: table.ScopeRecord) -> None:
        above, leaf = self._scope_of(scope.parent), checked(str, scope.leaf)
        address = f"{above}/{leaf}" if scope.parent != "" else leaf
        self._allowance.spend(4 * len(address))
        self._numbered.scopes[checked(int, scope.id)] = address
        self._scopes.append(
            Scope(
                address,
                above,
                checked(str, scope.name),
                self._file(scope.file),
                optional(int, scope.line),
                checked(int, scope.at),
                codec.revive(scope.metadata, self._long),
                self._incarnations,
            )
        )

    def _address_below(self, scope: object, leaf: object) -> str:
        return f"{self._scope_of(scope)}/{checked(str, leaf)}"

    def _scope_of(self, reference: object) -> str:
        if isinstance(reference, int):
            return self._numbered.scopes[reference]
        return str(checked(str, reference))

    def _file(self, number: Any) -> str | None:
        return None if number is None else self._numbered.files[number]

    def _medium(self, medium: table.MediumRecord) -> None:
        from appl.prompt import Audio, Image  # few prompts hold any

        sort: type[Image | Audio] = {"image": Image, "audio": Audio}[medium.kind]
        content = checked(bytes, self._long(medium.data))
        url, detail = optional(str, medium.url), optional(str, medium.detail)
        made = sort.restored(url, content, checked(str, medium.mime), detail)
        self._numbered.media[checked(int, medium.id)] = (made, self._masks)

    def _message(self, message: table.MessageRecord) -> None:
        _, number, role, content, more = message
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}")
        if type(content) is int and role == "assistant" and more is None:
            self._numbered.messages[checked(int, number)] = self._said_again(content)
            return
        text = checked(str, self._long(content))
        self._numbered.messages[checked(int, number)] = self._made(word(role), text, more)

    def _said_again(self, call: int) -> tuple[Message, tuple[str, ...]]:
        """The answer of *call* as a message, and the secrets that were taken out of it."""
        answered = self._answered(call)
        if answered.response is None or not answered.response.samples:
            raise ValueError(f"a message is the answer of {answered.address}, which has none")
        masks = self._masks + self._numbered.answer_masks.get(call, ())
        return Message("assistant", answered.response.samples[0].text), masks

    def _answered(self, call: int) -> RecordedCall:
        return self._numbered.calls[call]

    def _made(self, role: Any, text: str, more: Any) -> tuple[Message, tuple[str, ...]]:
        """A message, and the secrets that were taken out of it."""
        if more is None:
            return Message(role, text), self._masks
        media = [
            (checked(int, at), *self._numbered.media[each]) for at, each in more.get("media", ())
        ]
        message = Message(
            role,
            text,
            tuple((at, medium) for at, medium, _ in media),
            record.calls_from(more.get("calls", ()), self._long),
            optional(str, more.get("of")),
            optional(str, more.get("name")),
            checked(bool, more.get("error", False)),
            record.provided_from(more.get("provided"), self._long),
        )
        return message, self._masks + tuple(mask for _, _, masked in media for mask in masked)

    def _longer(self, longer: table.LongerRecord) -> None:
        """A message that goes on; it is put together when somebody reads it."""
        if longer.message in self._numbered.ropes:
            said, rope, masked = self._numbered.ropes[longer.message]
        else:
            said, masked = self._numbered.messages[longer.message]
            rope = Rope(None, said.content)
        outline, masks = self._made(said.role, "", longer.more)
        text = checked(str, self._long(longer.text))
        before, own = self._spans((longer.more or {}).get("from"), rope, len(text))
        if before:  # what a message was that goes on is told where it does
            rope = Rope(None, said.content, before)
        masks = self._marks(masked, masks)
        self._numbered.ropes[checked(int, longer.id)] = (outline, Rope(rope, text, own), masks)

    def _spans(self, told: object, rope: Rope | None, length: int) -> tuple[Spans, Spans]:
        """The origins of *rope*, if they are told, and of a text of *length* after it.

        Where a text was masked, they no longer fit and nothing is known.
        """
        if told is None:
            return NOWHERE, NOWHERE
        spans: Spans = tuple(
            each if i % 2 == 0 else self._origin(each) for i, each in enumerate(checked(list, told))
        )
        total = sum(checked(int, each) for each in spans[::2])
        if any(each <= 0 for each in spans[::2]) or len(spans) % 2:
            raise ValueError("the origins of a text are not those of a text")
        if total == length:
            return NOWHERE, spans
        if rope is not None and rope.base is None and total == rope.size + length:
            return cut(spans, rope.size)
        return NOWHERE, NOWHERE

    def _origin(self, reference: object) -> Origin:
        if not isinstance(reference, int):
            return cast(Origin, optional(str, reference))
        site = self._numbered.lines.get(reference)
        return site if site is not None else self._address(reference)

    def _line(self, line: table.LineRecord) -> None:
        self._numbered.lines[checked(int, line.id)] = (
            self._numbered.files[line.file],
            checked(int, line.line),
        )

    def _prompt(self, prompt: table.PromptRecord) -> None:
        _, number, parent, message, digest, origins = prompt
        above, masks = (None, ()) if parent is None else self._numbered.nodes[parent]
        roped = self._numbered.ropes.get(message)
        if roped is not None:
            link = Messages.roped(above, *roped[:2], closed=False)
            masks += roped[2]
        else:
            said, masked = self._numbered.messages[message]
            spans = NOWHERE
            if origins is not None:
                _, spans = self._spans(origins, None, len(said.content))
            link, masks = Messages(above, said, spans=spans), masks + masked
        known = not masks and not self._trace.private and roped is None
        self._check_digest(link, digest, known)  # a rope is not put together here
        self._numbered.nodes[checked(int, number)] = (link, self._marks(masks) if masks else ())

    def _check_digest(self, link: Messages, digest: Any, known: bool) -> None:
        """Note the *digest* of *link*; where all of its text is *known*, it must be right."""
        if not known:
            link.has_digest(checked(bytes, digest))
        elif link.digest != digest:
            raise ValueError("a message is not what its digest says")

    def _marks(self, *masks: tuple[str, ...]) -> tuple[str, ...]:
        """All of *masks*, which grow with each message that a prompt has."""
        found = tuple(itertools.chain(*masks)) if any(masks) else ()
        self._allowance.spend(8 * len(found))
        return found

    def _params(self, params: table.ParametersRecord) -> None:
        text = checked(str, self._long(params.options))
        if not self._masks:
            checked(dict, json.loads(text))
        model = checked(str, params.model)
        self._numbered.parameters[checked(int, params.id)] = (model, text, self._masks)

    def _start(self, start: table.StartRecord) -> None:
        (
            _, number, scope, leaf, ordinal, kind, prompt, params, n, sample, content, edges, file,
            line, at, timeout,
        ) = start  # fmt: skip
        messages, masks = (None, ()) if prompt is None else self._asked(prompt)
        model, sampling, more = self._numbered.parameters[params]
        masked = masks or more or self._masks
        self._allowance.spend(_EDGE * len(edges))
        call = self._call_kind(
            address=self._address_below(scope, leaf),
            ordinal=checked(int, ordinal),
            kind=word(kind),
            model=model,
            sampling=sampling,
            messages=messages,
            n=checked(int, n),
            sample=checked(int, sample),
            content=checked(bytes, content),
            edges=tuple(map(self._address, edges)),
            file=self._file(file),
            line=optional(int, line),
            timeout=optional(float, timeout),
            position=self._positions,
            started=checked(int, at),
            masked=self._marks(masks, more, self._masks) if masked else (),
            incarnation=self._incarnations,
        )
        self._positions += 1
        self._numbered.calls[checked(int, number)] = call
        self._add(call)

    def _asked(self, prompt: int) -> tuple[Messages | None, tuple[str, ...]]:
        return self._numbered.nodes[prompt]

    def _add(self, call: RecordedCall) -> None:
        """A call that was begun again by a later process takes the place of its first record."""
        self._allowance.spend(2 * RECORD + 4 * len(call.address))
        before = self._by_address.pop(call.address, None)
        if before is not None:
            self._earlier.append(before)
            self._trace.failures.begun_again(call.address)
        self._by_address[call.address] = call

    def _address(self, reference: object) -> str:
        return (
            self._numbered.calls[reference].address
            if isinstance(reference, int)
            else str(reference)
        )

    def _call(self, reference: object) -> RecordedCall:
        """The call of *reference*; one that ended without having started begins to exist here."""
        if isinstance(reference, int):
            return self._numbered.calls[reference]
        address = checked(str, reference)
        found = self._trace.by_address.get(address)
        if found is None:
            found = self._call_kind(address)
            self._add(found)
        return found

    def _dispatch(self, dispatch: table.DispatchRecord) -> None:
        _, call, number, at, waited = dispatch
        waits: dict[str, int] = {}
        if waited is not None:
            waits = {checked(str, why): checked(int, took) for why, took in waited.items()}
        self._call(call).attempts.append(
            Attempt(checked(int, number), checked(int, at), waited=waits)
        )

    def _retry(self, retry: table.RetryRecord) -> None:
        attempts, number = self._call(retry.call).attempts, retry.attempt
        recent = reversed(attempts[-_RECENT:])
        found = next((attempt for attempt in recent if attempt.number == number), None)
        if found is None:
            found = Attempt(checked(int, number), checked(int, retry.at))
            attempts.append(found)
        found.error, found.wait = self._error(retry.error), checked(int, retry.wait)

    def _error(self, data: object) -> BaseException:
        def revived(value: object) -> Any:
            return codec.revive(value, self._long)

        return record.error_from(data, revived, self._long)

    def _end(self, end: table.EndRecord) -> None:
        _, reference, status, value, at, lengths, texts, about = end
        call = self._call(reference)
        if status == record.ANSWERED:
            call.outcome, call.response = "answered", record.response_from(value, self._long)
        elif status in (record.FAILED, record.CANCELLED):
            call.outcome = "failed" if status == record.FAILED else "cancelled"
            call.error = self._error(value)
        else:
            raise ValueError(f"unknown outcome {status!r}")
        call.ended, call.end_position = checked(int, at), self._ends
        if self._masks:
            call.masked += self._masks
            call.lost += self._masks
            if isinstance(reference, int):
                self._numbered.answer_masks[reference] = self._masks
        self._ends += 1
        if about is not None:
            call.first = optional(int, about.get("first"))
            call.source = optional(str, about.get("source"))
            call.of = optional(str, about.get("of"))
        if lengths is not None:
            self._stream(call, lengths, texts)

    def _stream(self, call: RecordedCall, lengths: object, texts: Any) -> None:
        if texts is not None:
            call.begun = {
                (checked(int, sample), checked(int, kind)): checked(str, self._long(text))
                for sample, kind, text in texts
            }
        call.cuts = self._cuts(call, checked(list, lengths))

    def _cuts(self, call: RecordedCall, lengths: list[Any]) -> Sequence[Any]:
        """The *lengths* of the chunks of *call*, which must add up to what it said."""
        if not call.lost:
            check(lengths, call._whole())
        return lengths

    def _chunks(self, delivered: table.ChunksRecord) -> None:
        count = checked(int, delivered.chunks)
        if not 0 < count < _MANY:
            raise ValueError(f"{count} chunks were delivered")
        self._call(delivered.call).shown.append((self.deliveries, count))
        self.deliveries += 1

    def _tool(self, tool: table.ToolStartRecord) -> None:
        _, number, scope, leaf, name, arguments, effect, file, line, at = tool
        used = ToolUse(
            address=self._address_below(scope, leaf),
            name=checked(str, name),
            arguments=checked(str, self._long(arguments)),
            effect=checked(str, effect),
            file=self._file(file),
            line=optional(int, line),
            position=self._positions,
            started=checked(int, at),
            masked=self._masks,
            incarnation=self._incarnations,
        )
        self._positions += 1
        self._numbered.used[checked(int, number)] = used
        self._tools.pop(used.address, None)
        self._tools[used.address] = used

    def _use(self, reference: object) -> ToolUse | None:
        if isinstance(reference, int):
            return self._numbered.used.get(reference)
        return self._trace.tools.get(checked(str, reference))

    def _result(self, result: table.ToolEndRecord) -> None:
        _, reference, status, value, at = result
        used = self._use(reference)
        if used is None:
            raise ValueError(f"a result is that of no tool call: {reference!r}")
        if status == record.ANSWERED:
            used.message, masks = self._numbered.messages[value]
            used.outcome, used.lost = "answered", masks
        elif status in (record.FAILED, record.CANCELLED):
            used.outcome = "failed" if status == record.FAILED else "cancelled"
            used.error = self._error(value)
        else:
            raise ValueError(f"unknown outcome {status!r}")
        used.ended, used.end_position = checked(int, at), self._ends
        used.lost += self._masks
        used.masked += used.lost
        self._ends += 1

    def _delivery(self, delivery: table.DeliveryRecord) -> None:
        call: RecordedCall | ToolUse = self._use(delivery.call) or self._call(delivery.call)
        if call.delivered is None:
            call.delivered = self.deliveries
            call.delivered_at = self._by_clock_of(call, checked(int, delivery.at))
        self.deliveries += 1

    def _by_clock_of(self, call: RecordedCall | ToolUse, at: int) -> int:
        """The time *at* of this process by the clock of the one in which *call* began."""
        trace, now = self._trace, self._incarnations
        if call.incarnation == now:
            return at
        return (trace.wall(at, now) - trace.wall(0, call.incarnation)) // 1000

    def _observation(self, seen: table.ObservationRecord) -> None:
        _, address, ordinal, kind, value, at = seen
        self._observations.append(
            Observation(
                checked(str, address),
                checked(int, ordinal),
                checked(str, kind),
                codec.revive(value, self._long),
                checked(int, at),
                self.deliveries,
                self._masks,
                self._incarnations,
            )
        )
        self.deliveries += 1

    def _failure(self, failed: table.FailureRecord) -> None:
        address, of = checked(str, failed.address), checked(str, failed.of)
        self._allowance.spend(2 * RECORD + 4 * (len(address) + len(of)))
        items, at = checked(int, failed.items), checked(int, failed.at)
        if not 0 <= items < _MANY:
            raise ValueError(f"a map has {items} items")
        error = self._error(failed.error)
        key = error_key(type(error).__name__, str(error))
        made = Failure(address, word(failed.kind), of, items, at, error, key)
        self._trace.failures[address] = made

    def _warning(self, warning: table.WarningRecord) -> None:
        message = checked(str, warning.message)
        self._warnings.append((checked(str, warning.address), message))

    def _close(self, close: table.CloseRecord) -> None:
        self._trace.reason = checked(str, close.reason)
        self._trace.error = None if close.error is None else self._error(close.error)


def records(path: Path) -> Iterator[Any]:
    """The raw records of the trace at *path*, as they stand; for tools and tests."""
    with regular_file(path) as file:
        for raw in block.scan(file, block.Scan()):
            yield from codec.unpack(raw)
