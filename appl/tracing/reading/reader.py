"""The one reader of records: it scans a run once, and makes what is short of each record.

Prompts, answers, results and observed values stay in the file until somebody asks for them
(``process_records``), so that a long run takes little memory, and is read no further than needed.

Invariant: reading writes nothing, runs nothing and makes only plain data and the values of appl;
any file gives a ``Trace`` or a ``TraceError``, which may come where a value is asked for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from appl.errors import TraceCorrupt, TraceError, TraceTooNew
from appl.tracing.format import codec, record, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance
from appl.tracing.format.record import checked, optional, word
from appl.tracing.format.table import REDACTED, SEALED, as_record, chosen, tag_of
from appl.tracing.format.trace_scan import TraceScan
from appl.tracing.reading.process_records import Answer, ProcessRecords
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
    RecordedCall,
    Returned,
    Scope,
    Trace,
)

if TYPE_CHECKING:
    from appl.tracing.format.failures import Failure
    from appl.tracing.reading.further_records import StoredToolUse
    from appl.tracing.reading.trace import Observation

_EDGE = 128
_CALL = 2 * RECORD + 512  # bytes of a call, besides its address
_CLOSE, _END = tag_of(table.CloseRecord), tag_of(table.EndRecord)


_NO_ANSWER: Answer = (None, (), None)


class StoredCall(RecordedCall):
    """A call whose prompt and answer are read when somebody asks for them.

    ``number`` and ``prompt`` are its numbers in the *process* that asked it, the first 0 if it was
    never started. ``end`` is the place of the record that ends the call, or -1, and ``ended_in``
    the process that wrote it.
    """

    __slots__ = ("end", "ended_in", "number", "process", "prompt")
    number: int
    prompt: int | None
    process: ProcessRecords
    end: int
    ended_in: ProcessRecords

    def __getattr__(self, name: str) -> Any:
        # Only of fields that have no value: these are always asked for in the file.
        if name == "messages":
            return None if self.prompt is None else self.process.prompt(self.prompt)
        if name == "cuts":
            sample = None if self.lost else self.sample
            return self.ended_in.cuts(self.end, sample) if self.end >= 0 else ()
        if name in ("response", "begun"):
            response, _, begun = self.ended_in.answer(self.end) if self.end >= 0 else _NO_ANSWER
            return response if name == "response" else begun
        raise AttributeError(f"a call has no {name!r}", name=name, obj=self)

    def stored_in(self, process: ProcessRecords, number: int, prompt: int | None) -> None:
        """Leave the texts in the records of *process*."""
        self.process, self.number, self.prompt, self.end = process, number, prompt, -1
        del self.messages, self.response, self.cuts, self.begun


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
        self.trace, self.allowance, self._home = trace, allowance, home
        self.stored = StoredRecords(source, allowance)
        self._scopes: list[Scope] = checked(list, trace.scopes)
        self.observations: list[Observation] = checked(list, trace.observations)
        self.warnings: list[tuple[str, str]] = checked(list, trace.warnings)
        self._earlier: list[StoredCall] = checked(list, trace.earlier)
        self._by_address: dict[str, StoredCall] = checked(dict, trace.by_address)
        self.tools: dict[str, StoredToolUse] = checked(dict, trace.tools)
        self.closed = False
        self.deliveries = self.positions = self.ends = self.incarnation = self.place = 0
        self.masks: tuple[str, ...] = ()
        self.process = ProcessRecords(self.stored)
        self._calls: dict[int, StoredCall] = {}
        self.uses: dict[int, StoredToolUse] = {}

    @classmethod
    def of_blocks(cls, trace: Trace, scan: TraceScan, home: Home = None) -> Self:
        """A reader that takes in each ``block`` that *scan* finds."""
        return cls(trace, BlockSource(scan), scan.allowance, home)

    def block(self, raw: bytes, number: int) -> None:
        """Take in the records of the block that was found last. Raises ``TraceCorrupt``."""
        trace, place = self.trace, checked(BlockSource, self.stored.source).add()
        try:
            for fields in codec.unpack_singly(raw, self.allowance):
                self.place = place
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
        trace, allowance = self.trace, self.allowance
        trace.moments, trace.calls = self.deliveries, list(self._by_address.values())
        trace.torn, trace.state = scan.torn, scan.state(self.closed)
        trace.read_to = scan.position
        self.stored.set_limit(allowance.used, allowance.most - allowance.used)

    def take(self, fields: Any) -> None:
        """Take in one record."""
        self.masks = ()
        if fields[0] in AROUND:
            fields = self._unwrapped(fields)
        tag = fields[0]
        self.closed = tag == _CLOSE
        if tag in table.KINDS:
            self.allowance.spend(RECORD)
            record = as_record(fields)
            self.read_record(record)
            if self.checks:
                from appl.tracing.reading import stored_messages  # a replay reads no prompt

                with self.stored.reading(self.place):
                    stored_messages.check_message(self.process, self.place + 1, record)
            # Of a short run all answers stay at hand, so that it is read once.
            if self.checks or (tag == _END and self.stored.recent.has_room):
                with self.stored.reading(self.place):
                    self._check(record)

    def read_record(self, record: Any) -> None:
        """Take in *record*, of a kind that this version knows."""
        handler = HANDLERS.get(type(record))
        if handler is not None:
            getattr(self, handler)(record)
        else:
            from appl.tracing.reading import further_records  # many runs hold none of these

            further_records.HANDLERS[type(record)](self, record)

    def _unwrapped(self, fields: Any) -> Any:
        """The record that was sealed or masked; notes what was taken out of it."""
        if fields[0] == SEALED:
            for header in chosen([fields[-1]], table.HeaderRecord):
                self._header(header)  # which tells the key that the record is opened with
        fields, masks = self.stored.unwrapped(fields)
        if masks is not None:
            self.masks = masks
            self.trace.masked += 1
        return fields

    def _check(self, record: Any) -> None:
        """Read what is else read when somebody asks for it, of the record that was taken in."""
        if isinstance(record, table.EndRecord):
            self.process.answer_of(self.place, record)
            call = self.call_of(record.call)
            self.process.checked_cuts(call.end, None if call.lost else call.sample)
        elif isinstance(record, table.ObservationRecord):
            self.process.observed_at(self.place)

    def count(self, value: object) -> None:
        """Count what *value*, which is kept, takes as objects."""
        for _ in codec.unpack(codec.pack(value), self.allowance):
            pass

    # -- the run and its processes

    def _header(self, header: table.HeaderRecord) -> None:
        self.count(header.facts)
        self.trace.header = checked(dict, codec.revive(header.facts, self.process.long))
        written = checked(int, self.trace.header.get("format"))
        if written > record.FORMAT:
            raise TraceTooNew(
                f"the trace has format {written}; this version of appl reads up to {record.FORMAT}"
            )
        trace, stored = self.trace, self.stored
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
        trace = self.trace
        self.process, self._calls, self.uses = ProcessRecords(self.stored), {}, {}
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
        self.trace.reason = checked(str, close.reason)
        self.trace.error = None if close.error is None else self.error_of(close.error)

    def error_of(self, data: object) -> BaseException:
        self.count(data)
        return self.process.error(data)

    # -- functions and source lines

    def _source_file(self, file: table.FileRecord) -> None:
        self.process.files[checked(int, file.id)] = checked(str, file.name)

    def _line(self, line: table.LineRecord) -> None:
        site = self.process.files[line.file], checked(int, line.line)
        self.process.lines[checked(int, line.id)] = site

    def file_of(self, number: Any) -> str | None:
        return None if number is None else self.process.files[number]

    def _scope(self, scope: table.ScopeRecord) -> None:
        above, leaf = self.scope_of(scope.parent), checked(str, scope.leaf)
        address = f"{above}/{leaf}" if scope.parent != "" else leaf
        self.allowance.spend(RECORD + 4 * len(address))
        self.process.scopes[checked(int, scope.id)] = address
        if scope.metadata is not None:
            self.count(scope.metadata)
        self._scopes.append(
            Scope(
                address,
                above,
                checked(str, scope.name),
                self.file_of(scope.file),
                optional(int, scope.line),
                checked(int, scope.at),
                codec.revive(scope.metadata, self.process.long) or None,
                self.incarnation,
                self.short(scope.arguments),
            )
        )

    def _return(self, record: table.ReturnRecord) -> None:
        address = self.scope_of(record.scope)
        call = None if record.call is None else self.address_of(record.call)
        value = self.short(record.value)
        self.allowance.spend(RECORD + 4 * len(address))
        error = None if record.error is None else self.error_of(record.error)
        at = checked(int, record.at)
        self.trace.returns[address] = Returned(address, call, value, error, at, self.incarnation)

    def short(self, text: Any) -> str | None:
        """A text that stays in memory."""
        if text is not None:
            self.allowance.spend(RECORD + 4 * len(checked(str, text)))
        return optional(str, text)

    def scope_of(self, reference: object) -> str:
        if isinstance(reference, int):
            return self.process.scopes[reference]
        return str(checked(str, reference))

    # -- what prompts are made of: only places are noted

    def _message(self, message: table.MessageRecord) -> None:
        process = self.process
        process.messages.add(message.id, self.place)
        masks = self.masks
        if type(message.content) is int:
            masks += self._calls[message.content].lost
        if message.more is not None:
            from appl.tracing.reading.further_records import masks_of_media

            masks += masks_of_media(self, message.more)
        self.stored.mask(self.place, masks)

    def _prompt(self, prompt: table.PromptRecord) -> None:
        process, place = self.process, self.place
        on = process.longer if prompt.message in process.longer else process.messages
        places = [on.before(place, prompt.message)]
        if prompt.parent is not None:
            places.insert(0, process.prompts.before(place, prompt.parent))
        process.prompts.add(prompt.id, place)
        self.stored.mask(place, self.stored.marks(*places))

    def _parameters(self, parameters: table.ParametersRecord) -> None:
        text = checked(str, self.process.long(parameters.options))
        if not self.masks:
            checked(dict, json.loads(text))
        model = checked(str, parameters.model)
        self.process.parameters[checked(int, parameters.id)] = model, text, self.masks

    # -- calls

    def _start(self, start: table.StartRecord) -> None:
        process = self.process
        model, sampling, more = process.parameters[start.parameters]
        masks: tuple[str, ...] = ()
        if start.prompt is not None:
            masks = self.stored.marks(process.prompts.before(self.place, start.prompt))
        address = f"{self.scope_of(start.scope)}/{checked(str, start.leaf)}"
        self.allowance.spend(_CALL + 4 * len(address) + _EDGE * len(start.edges))
        call = StoredCall(
            address=address,
            ordinal=checked(int, start.ordinal),
            kind=word(start.kind),
            model=model,
            sampling=sampling,
            n=checked(int, start.n),
            sample=checked(int, start.sample),
            content=checked(bytes, start.content),
            edges=tuple(map(self.address_of, start.edges)),
            file=self.file_of(start.file),
            line=optional(int, start.line),
            timeout=optional(float, start.timeout),
            position=self.positions,
            started=checked(int, start.at),
            masked=masks + more + self.masks,
            incarnation=self.incarnation,
        )
        number = checked(int, start.id)
        call.stored_in(process, number, start.prompt)
        self.positions += 1
        self._calls[number], process.callers[number] = call, address
        self._add(call)

    def _add(self, call: StoredCall) -> None:
        """A call that was begun again by a later process takes the place of its first record."""
        before = self._by_address.pop(call.address, None)
        if before is not None:
            self._earlier.append(before)
            if self.trace.failures:
                from appl.tracing.format.failures import forget_retried  # few runs are resumed

                forget_retried(self.trace.failures, call.address)
        self._by_address[call.address] = call

    def add_tool(self, used: StoredToolUse) -> None:
        """A call of a tool, which takes the place of one that an earlier process began."""
        self.tools.pop(used.address, None)
        self.tools[used.address] = used

    def add_failure(self, failure: Failure) -> None:
        """A failure besides those of calls."""
        self.trace.failures[failure.address] = failure

    def address_of(self, reference: object) -> str:
        if isinstance(reference, int):
            return self._calls[reference].address
        return str(reference)

    def call_of(self, reference: object) -> StoredCall:
        """The call of *reference*; one that ended without having started begins to exist here."""
        if isinstance(reference, int):
            return self._calls[reference]
        address = checked(str, reference)
        call = self._by_address.get(address)
        if call is None:
            self.allowance.spend(_CALL + 4 * len(address))
            call = StoredCall(address)
            call.stored_in(self.process, 0, None)
            self._add(call)
        return call

    def _dispatch(self, dispatch: table.DispatchRecord) -> None:
        waits: dict[str, int] = {}
        if dispatch.waited is not None:
            self.count(dispatch.waited)
            waits = {checked(str, why): checked(int, it) for why, it in dispatch.waited.items()}
        number, at = checked(int, dispatch.attempt), checked(int, dispatch.at)
        self.call_of(dispatch.call).attempts.append(Attempt(number, at, waited=waits))

    def _end(self, end: table.EndRecord) -> None:
        call = self.call_of(end.call)
        if end.status == record.ANSWERED:
            call.outcome = "answered"
        else:
            from appl.tracing.reading.further_records import outcome_of  # most calls are answered

            call.outcome = outcome_of(end.status)
            call.error = self.error_of(end.value)
        call.end, call.ended_in = self.place, self.process
        if call.number and call.process is self.process:  # later messages may be its answer again
            self.process.ends[call.number] = self.place
        call.ended, call.end_position = checked(int, end.at), self.ends
        call.masked += self.masks
        call.lost += self.masks
        self.ends += 1
        if end.about is not None:
            call.first = optional(int, end.about.get("first"))
            call.source = optional(str, end.about.get("source"))
            call.of = optional(str, end.about.get("of"))

    def _delivery(self, delivery: table.DeliveryRecord) -> None:
        call = self.use_of(delivery.call) or self.call_of(delivery.call)
        if call.delivered is None:
            call.delivered = self.deliveries
            call.delivered_at = self._by_clock_of(call, checked(int, delivery.at))
        self.deliveries += 1

    def _by_clock_of(self, call: StoredCall | StoredToolUse, at: int) -> int:
        """The time *at* of this process by the clock of the one in which *call* began."""
        trace, now = self.trace, self.incarnation
        if call.incarnation == now:
            return at
        return (trace.wall(at, now) - trace.wall(0, call.incarnation)) // 1000

    # -- tools and observations

    def use_of(self, reference: object) -> StoredToolUse | None:
        if isinstance(reference, int):
            return self.uses.get(reference)
        return self.tools.get(checked(str, reference))


HANDLERS: dict[table.Kind, str] = {
    table.HeaderRecord: "_header",
    table.ProcessRecord: "_process",
    table.FileRecord: "_source_file",
    table.LineRecord: "_line",
    table.ScopeRecord: "_scope",
    table.ReturnRecord: "_return",
    table.MessageRecord: "_message",
    table.PromptRecord: "_prompt",
    table.ParametersRecord: "_parameters",
    table.StartRecord: "_start",
    table.DispatchRecord: "_dispatch",
    table.EndRecord: "_end",
    table.DeliveryRecord: "_delivery",
    table.CloseRecord: "_close",
}
"""The methods of ``Reader`` for the kinds of records that every run holds."""
