"""The one reader of records: it scans a run once, and makes what is short of each record.

Prompts, answers, results and observed values stay in the file until somebody asks for them
(``process_records``), so that a long run takes little memory, and is read no further than needed.

Invariant: reading writes nothing, runs nothing and makes only plain data and the values of appl;
any file gives a ``Trace`` or a ``TraceError``, which may come where a value is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Self

from appl.errors import TraceCorrupt, TraceError, TraceTooNew
from appl.tracing.format import codec, record, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance
from appl.tracing.format.record import checked, optional, word
from appl.tracing.format.table import REDACTED, SEALED, as_record, chosen, tag_of
from appl.tracing.format.trace_scan import TraceScan
from appl.tracing.reading.process_records import ProcessRecords
from appl.tracing.reading.stored_calls import StoredCall, StoredToolUse
from appl.tracing.reading.stored_records import (
    AROUND,
    BAD,
    BlockSource,
    Source,
    StoredRecords,
)
from appl.tracing.reading.trace import (
    Attempt,
    Home,
    Incarnation,
    Observation,
    Returned,
    Scope,
    Trace,
)

_MANY = 1 << 31
_EDGE = 128
_RECENT = 64  # attempts of one call that may be under way at once
_CALL = 2 * RECORD + 512  # bytes of a call, besides its address
_CLOSE, _END = tag_of(table.CloseRecord), tag_of(table.EndRecord)
_OUTCOMES = {record.FAILED: "failed", record.CANCELLED: "cancelled"}
_SIMPLE = (type(None), bool, int, float)


class StoredObservation(Observation):
    """An observation whose value is read when somebody asks for it."""

    __slots__ = ("place", "process")
    place: int
    process: ProcessRecords

    def __getattr__(self, name: str) -> Any:
        if name == "value":
            return self.process.observed(self.place)
        raise AttributeError(f"an observation has no {name!r}", name=name, obj=self)


class Reader:
    """Puts the records of *source* together into *trace*, in the order of the file.

    What is made of them is taken from *allowance*. ``process`` holds the records of the process
    that is read, and ``incarnation`` is its index. A reader that ``checks`` reads at once what else
    is read when somebody asks for it.
    """

    checks = False

    def __init__(
        self, trace: Trace, source: Source, allowance: DecodingAllowance, home: Home = None
    ) -> None:
        self._trace, self._allowance, self._home = trace, allowance, home
        self.stored = StoredRecords(source, allowance)
        self._scopes: list[Scope] = checked(list, trace.scopes)
        self._observations: list[Observation] = checked(list, trace.observations)
        self._warnings: list[tuple[str, str]] = checked(list, trace.warnings)
        self._earlier: list[StoredCall] = checked(list, trace.earlier)
        self._by_address: dict[str, StoredCall] = checked(dict, trace.by_address)
        self._tools: dict[str, StoredToolUse] = checked(dict, trace.tools)
        self.closed = False
        self.deliveries = self._positions = self._ends = self.incarnation = self._place = 0
        self._masks: tuple[str, ...] = ()
        self.process = ProcessRecords(self.stored)
        self._calls: dict[int, StoredCall] = {}
        self._uses: dict[int, StoredToolUse] = {}

    @classmethod
    def of_blocks(cls, trace: Trace, scan: TraceScan, home: Home = None) -> Self:
        """A reader that takes in each ``block`` that *scan* finds."""
        return cls(trace, BlockSource(scan), scan.allowance, home)

    def block(self, raw: bytes, number: int) -> None:
        """Take in the records of the block that was found last. Raises ``TraceCorrupt``."""
        trace, place = self._trace, checked(BlockSource, self.stored.source).add()
        try:
            for fields in self._unpacked(raw):
                self._place = place
                self.take(fields)
                place += 1
                trace.records += 1
        except TraceError:
            raise
        except BAD as error:
            at = trace.records
            raise TraceCorrupt(f"record {at} (block {number}) is not valid: {error!r}") from None

    def finish(self, scan: TraceScan) -> None:
        """Note in the trace what *scan* has come to so far."""
        trace, allowance = self._trace, self._allowance
        trace.moments, trace.calls = self.deliveries, list(self._by_address.values())
        trace.torn, trace.state = scan.torn, scan.state(self.closed)
        trace.read_to = scan.position
        self.stored.set_limit(allowance.used, allowance.most - allowance.used)

    def _unpacked(self, raw: bytes) -> Iterator[Any]:
        """The records of a block, of which one at a time is held: what is kept is counted later."""
        if len(raw) <= codec.UNCOUNTED:
            yield from codec.unpack_uncounted(raw)
            return
        allowance = self._allowance
        scratch = DecodingAllowance(max(allowance.most - allowance.used, 0))
        for fields in codec.unpack(raw, scratch):
            yield fields
            scratch.used = 0

    def take(self, fields: Any) -> None:
        """Take in one record."""
        self._masks = ()
        if fields[0] in AROUND:
            fields = self._unwrapped(fields)
        tag = fields[0]
        self.closed = tag == _CLOSE
        handler = _BY_TAG.get(tag)
        if handler is not None:
            self._allowance.spend(RECORD)
            record = as_record(fields)
            getattr(self, handler)(record)
            if self.checks:
                from appl.tracing.reading import stored_messages  # a replay reads no prompt

                with self.stored.reading(self._place):
                    stored_messages.check_message(self.process, self._place + 1, record)
            # Of a short run all answers stay at hand, so that it is read once.
            if self.checks or (tag == _END and self.stored.recent.has_room):
                with self.stored.reading(self._place):
                    self._check(record)

    def _unwrapped(self, fields: Any) -> Any:
        """The record that was sealed or masked; notes what was taken out of it."""
        if fields[0] == SEALED:
            for header in chosen([fields[-1]], table.HeaderRecord):
                self._header(header)  # which tells the key that the record is opened with
        fields, masks = self.stored.unwrapped(fields)
        if masks is not None:
            self._masks = masks
            self._trace.masked += 1
        return fields

    def _check(self, record: Any) -> None:
        """Read what is else read when somebody asks for it, of the record that was taken in."""
        if isinstance(record, table.EndRecord):
            self.process.answer_of(self._place, record)
            call = self._call(record.call)
            self.process.checked_cuts(call.end, None if call.lost else call.sample)
        elif isinstance(record, table.ObservationRecord):
            self.process.observed_at(self._place)

    def _count(self, value: object) -> None:
        """Count what *value*, which is kept, takes as objects."""
        for _ in codec.unpack(codec.pack(value), self._allowance):
            pass

    # -- the run and its processes

    def _header(self, header: table.HeaderRecord) -> None:
        self._count(header.facts)
        self._trace.header = checked(dict, codec.revive(header.facts, self.process.long))
        written = checked(int, self._trace.header.get("format"))
        if written > record.FORMAT:
            raise TraceTooNew(
                f"the trace has format {written}; this version of appl reads up to {record.FORMAT}"
            )
        trace, stored = self._trace, self.stored
        stored.private = trace.private
        if self._home is None or stored.sealer is not None or not trace.private:
            return
        from appl.tracing.format import keys  # most runs are not private
        from appl.tracing.format.sealing import Sealer

        name = keys.identity_in(trace.header)
        if name is None:
            return
        trace.key = keys.find(self._home() if callable(self._home) else self._home, name)
        if trace.key is not None and trace.header["privacy"].get("mode") == REDACTED:
            stored.sealer = Sealer(trace.key)

    def _process(self, process: table.ProcessRecord) -> None:
        """Begin a new space of numbers: each process that writes counts from 1."""
        trace = self._trace
        self.process, self._calls, self._uses = ProcessRecords(self.stored), {}, {}
        trace.reason, trace.error = "", None  # how an earlier process ended is past
        trace.incarnations.append(
            Incarnation(
                checked(int, process.number),
                checked(int, process.pid),
                checked(str, process.host),
                checked(str, process.reason),
                checked(int, process.wall_ns),
                checked(int, process.monotonic_ns),
            )
        )
        self.incarnation = len(trace.incarnations) - 1

    def _close(self, close: table.CloseRecord) -> None:
        self._trace.reason = checked(str, close.reason)
        self._trace.error = None if close.error is None else self._error(close.error)

    def _warning(self, warning: table.WarningRecord) -> None:
        message = checked(str, warning.message)
        self._warnings.append((checked(str, warning.address), message))

    def _failure(self, failed: table.FailureRecord) -> None:
        address, of = checked(str, failed.address), checked(str, failed.of)
        self._allowance.spend(RECORD + 4 * (len(address) + len(of)))
        items, at = checked(int, failed.items), checked(int, failed.at)
        if not 0 <= items < _MANY:
            raise ValueError(f"a map has {items} items")
        error = self._error(failed.error)
        from appl.tracing.format.failures import Failure, error_key  # in few runs something fails

        key = error_key(type(error).__name__, str(error))
        failure = Failure(address, word(failed.kind), of, items, at, error, key)
        self._trace.failures[address] = failure

    def _error(self, data: object) -> BaseException:
        self._count(data)
        return self.process.error(data)

    def _batch(self, changed: table.BatchRecord) -> None:
        from appl.tracing.reading.batches import note_change  # few runs have batches

        self._count(changed.facts)
        self._allowance.spend(RECORD + _EDGE * len(changed.calls))
        calls = tuple(map(self._address, changed.calls))
        note_change(self._trace.batches, changed, calls, self.incarnation)

    # -- functions and source lines

    def _source_file(self, file: table.FileRecord) -> None:
        self.process.files[checked(int, file.id)] = checked(str, file.name)

    def _line(self, line: table.LineRecord) -> None:
        site = self.process.files[line.file], checked(int, line.line)
        self.process.lines[checked(int, line.id)] = site

    def _file(self, number: Any) -> str | None:
        return None if number is None else self.process.files[number]

    def _scope(self, scope: table.ScopeRecord) -> None:
        above, leaf = self._scope_of(scope.parent), checked(str, scope.leaf)
        address = f"{above}/{leaf}" if scope.parent != "" else leaf
        self._allowance.spend(RECORD + 4 * len(address))
        self.process.scopes[checked(int, scope.id)] = address
        if scope.metadata is not None:
            self._count(scope.metadata)
        self._scopes.append(
            Scope(
                address,
                above,
                checked(str, scope.name),
                self._file(scope.file),
                optional(int, scope.line),
                checked(int, scope.at),
                codec.revive(scope.metadata, self.process.long) or None,
                self.incarnation,
                self._short(scope.arguments),
            )
        )

    def _short(self, text: Any) -> str | None:
        """A text that stays in memory."""
        if text is not None:
            self._allowance.spend(RECORD + 4 * len(checked(str, text)))
        return optional(str, text)

    def _return(self, left: table.ReturnRecord) -> None:
        address = self._scope_of(left.scope)
        call = None if left.call is None else self._address(left.call)
        value = self._short(left.value)
        self._allowance.spend(RECORD + 4 * len(address))
        error = None if left.error is None else self._error(left.error)
        made = Returned(address, call, value, error, checked(int, left.at), self.incarnation)
        self._trace.returns[address] = made

    def _scope_of(self, reference: object) -> str:
        if isinstance(reference, int):
            return self.process.scopes[reference]
        return str(checked(str, reference))

    # -- what prompts are made of: only places are noted

    def _piece(self, piece: table.PieceRecord) -> None:
        places = self.process.pieces.setdefault(checked(int, piece.id), [])
        if piece.place != len(places):
            raise ValueError(f"piece {piece.place} of a long text follows piece {len(places) - 1}")
        checked(bytes, piece.data)
        places.append(self._place)

    def _medium(self, medium: table.MediumRecord) -> None:
        self.process.media.add(medium.id, self._place)
        self.stored.mask(self._place, self._masks)

    def _message(self, message: table.MessageRecord) -> None:
        process = self.process
        process.messages.add(message.id, self._place)
        masks = self._masks
        if type(message.content) is int:
            masks += self._calls[message.content].lost
        self.stored.mask(self._place, masks + self._masks_of_media(message.more))

    def _masks_of_media(self, more: Any) -> tuple[str, ...]:
        placed = () if more is None else more.get("media", ())
        return self.stored.marks(*(self.process.media.before(self._place, at) for _, at in placed))

    def _longer(self, longer: table.LongerRecord) -> None:
        process, place = self.process, self._place
        on = process.longer if longer.message in process.longer else process.messages
        masks = self.stored.marks(on.before(place, longer.message))
        process.longer.add(longer.id, place)
        self.stored.mask(place, masks + self._masks + self._masks_of_media(longer.more))

    def _prompt(self, prompt: table.PromptRecord) -> None:
        process, place = self.process, self._place
        on = process.longer if prompt.message in process.longer else process.messages
        places = [on.before(place, prompt.message)]
        if prompt.parent is not None:
            places.insert(0, process.prompts.before(place, prompt.parent))
        process.prompts.add(prompt.id, place)
        self.stored.mask(place, self.stored.marks(*places))

    def _parameters(self, parameters: table.ParametersRecord) -> None:
        text = checked(str, self.process.long(parameters.options))
        if not self._masks:
            checked(dict, json.loads(text))
        model = checked(str, parameters.model)
        self.process.parameters[checked(int, parameters.id)] = model, text, self._masks

    # -- calls

    def _start(self, start: table.StartRecord) -> None:
        process = self.process
        model, sampling, more = process.parameters[start.parameters]
        masks: tuple[str, ...] = ()
        if start.prompt is not None:
            masks = self.stored.marks(process.prompts.before(self._place, start.prompt))
        address = f"{self._scope_of(start.scope)}/{checked(str, start.leaf)}"
        self._allowance.spend(_CALL + 4 * len(address) + _EDGE * len(start.edges))
        call = StoredCall(
            address=address,
            ordinal=checked(int, start.ordinal),
            kind=word(start.kind),
            model=model,
            sampling=sampling,
            n=checked(int, start.n),
            sample=checked(int, start.sample),
            content=checked(bytes, start.content),
            edges=tuple(map(self._address, start.edges)),
            file=self._file(start.file),
            line=optional(int, start.line),
            timeout=optional(float, start.timeout),
            position=self._positions,
            started=checked(int, start.at),
            masked=masks + more + self._masks,
            incarnation=self.incarnation,
        )
        number = checked(int, start.id)
        call.stored_in(process, number, start.prompt)
        self._positions += 1
        self._calls[number], process.callers[number] = call, address
        self._add(call)

    def _add(self, call: StoredCall) -> None:
        """A call that was begun again by a later process takes the place of its first record."""
        before = self._by_address.pop(call.address, None)
        if before is not None:
            self._earlier.append(before)
            if self._trace.failures:
                from appl.tracing.format.failures import forget_retried  # few runs are resumed

                forget_retried(self._trace.failures, call.address)
        self._by_address[call.address] = call

    def _address(self, reference: object) -> str:
        if isinstance(reference, int):
            return self._calls[reference].address
        return str(reference)

    def _call(self, reference: object) -> StoredCall:
        """The call of *reference*; one that ended without having started begins to exist here."""
        if isinstance(reference, int):
            return self._calls[reference]
        address = checked(str, reference)
        call = self._by_address.get(address)
        if call is None:
            self._allowance.spend(_CALL + 4 * len(address))
            call = StoredCall(address)
            call.stored_in(self.process, 0, None)
            self._add(call)
        return call

    def _dispatch(self, dispatch: table.DispatchRecord) -> None:
        waits: dict[str, int] = {}
        if dispatch.waited is not None:
            self._count(dispatch.waited)
            waits = {checked(str, why): checked(int, it) for why, it in dispatch.waited.items()}
        number, at = checked(int, dispatch.attempt), checked(int, dispatch.at)
        self._call(dispatch.call).attempts.append(Attempt(number, at, waited=waits))

    def _retry(self, retry: table.RetryRecord) -> None:
        attempts, number = self._call(retry.call).attempts, retry.attempt
        recent = reversed(attempts[-_RECENT:])
        attempt_now = next((attempt for attempt in recent if attempt.number == number), None)
        if attempt_now is None:
            self._allowance.spend(RECORD)
            attempt_now = Attempt(checked(int, number), checked(int, retry.at))
            attempts.append(attempt_now)
        attempt_now.error, attempt_now.wait = self._error(retry.error), checked(int, retry.wait)

    def _chunks(self, delivered: table.ChunksRecord) -> None:
        count = checked(int, delivered.chunks)
        if not 0 < count < _MANY:
            raise ValueError(f"{count} chunks were delivered")
        self._call(delivered.call).shown.append((self.deliveries, count))
        self.deliveries += 1

    def _end(self, end: table.EndRecord) -> None:
        call = self._call(end.call)
        if end.status == record.ANSWERED:
            call.outcome = "answered"
        else:
            call.outcome = self._outcome(end.status)
            call.error = self._error(end.value)
        call.end, call.ended_in = self._place, self.process
        if call.number and call.process is self.process:  # later messages may be its answer again
            self.process.ends[call.number] = self._place
        call.ended, call.end_position = checked(int, end.at), self._ends
        call.masked += self._masks
        call.lost += self._masks
        self._ends += 1
        if end.about is not None:
            call.first = optional(int, end.about.get("first"))
            call.source = optional(str, end.about.get("source"))
            call.of = optional(str, end.about.get("of"))

    def _outcome(self, status: int) -> Any:
        if status not in _OUTCOMES:
            raise ValueError(f"unknown outcome {status!r}")
        return _OUTCOMES[status]

    def _delivery(self, delivery: table.DeliveryRecord) -> None:
        call = self._use(delivery.call) or self._call(delivery.call)
        if call.delivered is None:
            call.delivered = self.deliveries
            call.delivered_at = self._by_clock_of(call, checked(int, delivery.at))
        self.deliveries += 1

    def _by_clock_of(self, call: StoredCall | StoredToolUse, at: int) -> int:
        """The time *at* of this process by the clock of the one in which *call* began."""
        trace, now = self._trace, self.incarnation
        if call.incarnation == now:
            return at
        return (trace.wall(at, now) - trace.wall(0, call.incarnation)) // 1000

    # -- tools and observations

    def _tool(self, tool: table.ToolStartRecord) -> None:
        address = f"{self._scope_of(tool.scope)}/{checked(str, tool.leaf)}"
        arguments = checked(str, self.process.long(tool.arguments))
        self._allowance.spend(_CALL + 4 * len(address))
        used = StoredToolUse(
            address=address,
            name=checked(str, tool.name),
            arguments=arguments,
            effect=checked(str, tool.effect),
            file=self._file(tool.file),
            line=optional(int, tool.line),
            position=self._positions,
            started=checked(int, tool.at),
            masked=self._masks,
            incarnation=self.incarnation,
        )
        used.stored_in(self.process)
        self._positions += 1
        self._uses[checked(int, tool.id)] = used
        self._tools.pop(address, None)
        self._tools[address] = used

    def _use(self, reference: object) -> StoredToolUse | None:
        if isinstance(reference, int):
            return self._uses.get(reference)
        return self._tools.get(checked(str, reference))

    def _result(self, result: table.ToolEndRecord) -> None:
        used = self._use(result.call)
        if used is None:
            raise ValueError(f"a result is that of no tool call: {result.call!r}")
        if result.status == record.ANSWERED:
            used.message_number = self.process.messages.before(self._place, result.value)
            used.process = self.process
            used.outcome, used.lost = "answered", self.stored.marks(used.message_number)
        else:
            used.outcome = self._outcome(result.status)
            used.error = self._error(result.value)
        used.ended, used.end_position = checked(int, result.at), self._ends
        used.lost += self._masks
        used.masked += used.lost
        self._ends += 1

    def _observation(self, record: table.ObservationRecord) -> None:
        observation = StoredObservation(
            checked(str, record.address),
            checked(int, record.ordinal),
            checked(str, record.kind),
            record.value,
            checked(int, record.at),
            self.deliveries,
            self._masks,
            self.incarnation,
        )
        if type(record.value) not in _SIMPLE:
            # Not as an attribute is deleted otherwise: an observation cannot be changed.
            object.__delattr__(observation, "value")
            object.__setattr__(observation, "place", self._place)
            object.__setattr__(observation, "process", self.process)
        self._observations.append(observation)
        self.deliveries += 1


HANDLERS: dict[table.Kind, str] = {
    table.HeaderRecord: "_header",
    table.ProcessRecord: "_process",
    table.FileRecord: "_source_file",
    table.LineRecord: "_line",
    table.ScopeRecord: "_scope",
    table.ReturnRecord: "_return",
    table.PieceRecord: "_piece",
    table.MediumRecord: "_medium",
    table.MessageRecord: "_message",
    table.LongerRecord: "_longer",
    table.PromptRecord: "_prompt",
    table.ParametersRecord: "_parameters",
    table.StartRecord: "_start",
    table.DispatchRecord: "_dispatch",
    table.RetryRecord: "_retry",
    table.ChunksRecord: "_chunks",
    table.EndRecord: "_end",
    table.DeliveryRecord: "_delivery",
    table.ToolStartRecord: "_tool",
    table.ToolEndRecord: "_result",
    table.FailureRecord: "_failure",
    table.ObservationRecord: "_observation",
    table.BatchRecord: "_batch",
    table.WarningRecord: "_warning",
    table.CloseRecord: "_close",
}
"""The methods of ``Reader`` that read each kind of record."""
_BY_TAG = {tag_of(kind): name for kind, name in HANDLERS.items()}
