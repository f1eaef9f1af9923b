"""A summary of a run, read once from a stream: sums, and the first of its calls.

Invariant: memory does not grow with the length of the run, but for the addresses of its functions
and calls, and how these ended: a call is let go when it has ended, and no prompt is kept. What is
kept is counted, as far as ``Trace.open`` counts it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from appl.errors import TraceCorrupt
from appl.tracing.explaining import costs
from appl.tracing.format import codec, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance
from appl.tracing.format.record import checked
from appl.tracing.format.store import TraceScan, is_tape, regular_file
from appl.tracing.format.table import as_record
from appl.tracing.format.totals import Totals
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import (
    BAD,
    Builder,
    RecordedCall,
    Scope,
    Trace,
)

_OCCURRENCE = re.compile(r"\.\d+(?=/|\Z)")
_FUNCTIONS, _WARNINGS = 10_000, 100
_RESULTS, _SHOWN = 4096, 400
_TOLD = ("of", "name", "error")  # of the result of a tool, besides its text
_UNREAD = table.tags(
    [
        table.PieceRecord,
        table.MediumRecord,
        table.LongerRecord,
        table.PromptRecord,
        table.LineRecord,
        table.ChunksRecord,
    ]
)  # what only prompts need
_MESSAGE, _ROLE = table.tag_of(table.MessageRecord), table.MessageRecord._fields.index("role")
_WIDEST = 4  # bytes of a character
_PLAIN = table.tags(
    [
        table.StartRecord,
        table.DispatchRecord,
        table.EndRecord,
        table.DeliveryRecord,
        table.ScopeRecord,
    ]
)
_CALL = 4 * RECORD  # bytes of a call that is under way, besides its address


class _PastCall(NamedTuple):
    """The memory of a call, or a call of a tool, should a later process begin it again."""

    ended_as: str | None
    attempts: Sequence[None]
    model: str = ""
    response: None = None
    source: None = None
    of_a_tool: bool = False


_PAST_TOOL = _PastCall(None, (), of_a_tool=True)
_PAST = {
    (ended_as, sent): _PastCall(ended_as, (None,) * sent)
    for ended_as in (None, "answered", "failed", "cancelled")
    for sent in (False, True)
}


@dataclass(slots=True)
class Sum:
    """Calls of one function, or of one activation: what they took together.

    Times are microseconds; ``busy`` is the sum of the calls' times, which may have overlapped.
    Tokens and ``cost`` count what is known; ``unknown`` are the calls that do not say what they
    cost.
    """

    calls: int = 0
    failed: int = 0
    open: int = 0
    tools: int = 0
    prompt: int = 0
    answer: int = 0
    cached: int = 0
    cost: int = 0
    unknown: int = 0
    busy: int = 0
    begin: int | None = None
    end: int | None = None

    def add(self, call: RecordedCall | ToolUse) -> None:
        """Count one more."""
        self._time(call)
        if isinstance(call, ToolUse):
            self.tools += 1
            return
        self.calls += 1
        self.failed += call.ended_as == "failed"
        self.open += call.outcome is None
        response = call.response
        if response is None or call.source is not None:
            return
        self.prompt += response.usage.prompt_tokens or 0
        self.answer += response.usage.completion_tokens or 0
        self.cached += response.usage.cached_tokens or 0
        self.cost += response.cost or 0
        self.unknown += response.cost is None

    def _time(self, call: RecordedCall | ToolUse) -> None:
        if call.started is None:
            return
        end = call.started if call.ended is None else call.ended
        self.busy += end - call.started
        self.begin = call.started if self.begin is None else min(self.begin, call.started)
        self.end = end if self.end is None else max(self.end, end)

    def forget(self, call: _PastCall) -> None:
        """Note that *call* is begun again: what it took stays."""
        if call.of_a_tool:
            self.tools -= 1
            return
        self.calls -= 1
        self.failed -= call.ended_as == "failed"
        self.open -= call.ended_as is None

    def as_data(self) -> dict[str, object]:
        """The sums as JSON-ready data; a cost that no call says is null, not 0."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return data if self.cost or not self.unknown else {**data, "cost": None}


@dataclass(slots=True)
class Summary:
    """A run in short. ``trace`` holds its header and state, and none of its calls.

    ``rows``, in ``shown`` by address, are the first calls and tool calls, in the order in which
    they began, ``scopes`` the activations around them with their sums. ``functions`` are the sums
    by function: addresses without their numbers.
    """

    trace: Trace
    most: int
    totals: Totals = field(default_factory=Totals)
    shown: dict[str, RecordedCall | ToolUse] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    sums: dict[str, Sum] = field(default_factory=dict)
    functions: dict[str, Sum] = field(default_factory=dict)
    waiting: dict[str, RecordedCall | ToolUse] = field(default_factory=dict)
    undelivered: int = 0
    count: int = 0
    tools: int = 0
    tools_failed: int = 0
    last_us: int = 0
    _last: tuple[str, str, list[Sum]] = field(default=("", "", []), repr=False)
    costs: costs.Costs = field(default_factory=costs.Costs)

    def _sums(self, address: str) -> list[Sum]:
        """The sums that a call counts in; often those of the call before."""
        scope, _, leaf = address.rpartition("/")
        kind = leaf.rpartition(".")[0]
        if self._last[:2] == (scope, kind):
            return self._last[2]
        name = _OCCURRENCE.sub("", address)
        found: list[Sum] = []
        if name in self.functions or len(self.functions) < _FUNCTIONS:
            found.append(self.functions.setdefault(name, Sum()))
        above = scope
        while above:
            if above in self.scopes:
                found.append(self.sums.setdefault(above, Sum()))
            above = above.rpartition("/")[0]
        self._last = (scope, kind, found)
        return found

    @property
    def rows(self) -> list[RecordedCall | ToolUse]:
        """The first calls and tool calls."""
        return list(self.shown.values())

    @property
    def more(self) -> int:
        """The number of calls and tool calls that are not among the rows."""
        return self.count - len(self.shown)

    def began(self, call: RecordedCall | ToolUse) -> None:
        """A call has begun."""
        self.count += 1
        self.waiting[call.address] = call
        if len(self.shown) < self.most or call.address in self.shown:
            self.shown[call.address] = call

    def forget(self, address: str, past: _PastCall) -> None:
        """Note that the call at *address*, which is *past*, is begun again: its cost stays."""
        self.count -= 1
        if past.of_a_tool:
            self.tools -= 1
        else:
            self.totals.forget(past)
        for total in self._sums(address):
            total.forget(past)

    def over(self, call: RecordedCall | ToolUse) -> None:
        """A call has ended, or nothing more is known of it."""
        self.waiting.pop(call.address, None)
        for total in self._sums(call.address):
            total.add(call)
        if isinstance(call, ToolUse):
            self.tools += 1
            self.tools_failed += call.has_failed
        else:
            self.totals.add(call)
            self.costs.add(call)


def summary_of(path: str | os.PathLike[str], most: int, *, salvage: bool = False) -> Summary:
    """The run at *path* with its first *most* calls. Raises ``TraceError``."""
    trace = Trace(Path(path))
    with regular_file(trace.path) as file:
        if is_tape(file):
            return _of_trace(Trace.open(path), most)
        scan = TraceScan(file, salvage=salvage)
        builder = _SummaryBuilder(Summary(trace, most), scan.allowance)
        scan.read(builder.block)
    trace.torn, trace.state = scan.torn, scan.state(builder.closed)
    return builder.finish()


def _of_trace(trace: Trace, most: int) -> Summary:
    """The summary of a run that is in memory."""
    made = Summary(trace, most)
    made.costs.terms = costs.terms_of(trace.header)
    for scope in trace.scopes[: 4 * most]:
        made.scopes[scope.address] = scope
    every: list[RecordedCall | ToolUse] = [*trace.calls, *trace.tools.values()]
    for call in sorted(every, key=lambda call: call.position):
        made.began(call)
        if call.outcome is not None:
            made.over(call)
    return _closed(made)


def _closed(made: Summary) -> Summary:
    """Count also what has not ended; it goes on waiting."""
    waiting = dict(made.waiting)
    for call in waiting.values():
        made.over(call)
    made.waiting = waiting
    return made


class _SummaryBuilder(Builder):
    """Reads records for a summary, and keeps no more of them than it needs."""

    def __init__(self, made: Summary, allowance: DecodingAllowance) -> None:
        self._summary = made
        self._takes: dict[Any, int] = {}
        self._past: dict[str, _PastCall] = {}
        super().__init__(made.trace, allowance)
        for tag in _UNREAD:  # a masked one is inside another
            del self._handlers[tag]
        self._count_kept()

    def _take_in(self, raw: bytes) -> None:
        """Take in the records of one block; those that only prompts need are passed over."""
        trace, known = self._trace, self._handlers
        for fields in self._unpacked(raw):
            tag = fields[0]
            if tag in _UNREAD or (tag == _MESSAGE and fields[_ROLE] != "tool"):
                self.closed = False
            elif tag in _PLAIN:
                self._masks, self.closed = (), False
                known[tag](as_record(fields))
            else:
                self._record(fields)
            trace.records += 1

    def _unpacked(self, raw: bytes) -> Iterator[Any]:
        """The records of a block, one at a time: what each takes is counted while it is read."""
        if len(raw) <= codec.UNCOUNTED:
            yield from codec.unpack_uncounted(raw)
            return
        scratch = DecodingAllowance(max(self._allowance.most - self._allowance.taken, 0))
        for fields in codec.unpack(raw, scratch):
            yield fields
            scratch.taken = 0

    def _counted(self, value: object) -> None:
        """Take what *value*, a part of a record, takes: small blocks are read without counting."""
        for _ in codec.unpack(codec.pack(value), self._allowance):
            pass

    def _let_go(self, key: object, end: object) -> None:
        """Give back the memory of *key* after its *end*; one that is shown keeps its memory."""
        takes = self._takes.pop(key, None)
        if takes is None:
            self._counted(end)
        else:
            self._allowance.taken -= takes

    def _over(self, call: RecordedCall | ToolUse) -> None:
        before = len(self._summary.functions)
        self._summary.over(call)
        if isinstance(call, RecordedCall):
            self._allowance.spend(RECORD + _WIDEST * len(call.address))
            self._past[call.address] = _PAST[call.ended_as, bool(call.attempts)]
        elif call.outcome is None:
            self._allowance.spend(RECORD + _WIDEST * len(call.address))
            self._past[call.address] = _PAST_TOOL
        if len(self._summary.functions) > before:
            self._allowance.spend(RECORD + _WIDEST * len(call.address))

    def _begun(self, call: RecordedCall | ToolUse) -> None:
        self._allowance.spend(_CALL + _WIDEST * len(call.address))
        past = self._past.pop(call.address, None)
        if past is not None:
            self._summary.forget(call.address, past)
            self._trace.failures.begun_again(call.address)
        self._summary.began(call)

    def _message(self, message: table.MessageRecord) -> None:
        """Keep the beginning of a tool's message, which its result refers to soon after."""
        if message.role == "tool":
            more = message.more
            kept = {name: more[name] for name in _TOLD if name in more} if more else None
            content = str(self._long(message.content))[:_SHOWN]
            super()._message(message._replace(content=content, more=kept))
            while len(self._numbered.messages) > _RESULTS:
                del self._numbered.messages[next(iter(self._numbered.messages))]

    def _forget(self) -> None:
        super()._forget()
        for call in list(self._summary.waiting.values()):
            if call.outcome is None:
                self._over(call)
        self._summary.waiting.clear()
        self._allowance.taken -= sum(self._takes.values())
        self._takes = {}

    def _header(self, header: table.HeaderRecord) -> None:
        super()._header(header)
        self._counted(header.facts)
        self._summary.costs.terms = costs.terms_of(self._trace.header)

    def _long(self, value: object) -> object:
        if not isinstance(value, dict):
            return value
        _, length, is_text = value["$blob"]
        return f"(a text of {length} bytes)" if is_text else b""

    def _scope(self, scope: table.ScopeRecord) -> None:
        super()._scope(scope if scope.metadata is None else scope._replace(metadata=None))
        made = self._scopes.pop()
        self._allowance.spend(RECORD)
        if len(self._summary.scopes) < 4 * self._summary.most:
            self._summary.scopes[made.address] = made

    def _add(self, call: RecordedCall) -> None:
        self._by_address[call.address] = call
        self._begun(call)

    def _asked(self, prompt: int) -> tuple[None, tuple[()]]:
        return None, ()

    def _start(self, start: table.StartRecord) -> None:
        before, rows = self._allowance.taken, len(self._summary.shown)
        super()._start(start)
        if len(self._summary.shown) == rows:  # else it is shown, and so is never let go of
            self._takes[start.id] = self._allowance.taken - before

    def _address(self, reference: object) -> str:
        if not isinstance(reference, int):
            return str(checked(str, reference))
        known = self._numbered.calls.get(reference)
        return known.address if known is not None else str(reference)

    def _dispatch(self, dispatch: table.DispatchRecord) -> None:
        self._allowance.spend(RECORD)
        super()._dispatch(dispatch if dispatch.waited is None else dispatch._replace(waited=None))

    def _retry(self, retry: table.RetryRecord) -> None:
        self._allowance.spend(2 * RECORD)
        self._counted(retry.error)
        super()._retry(retry)

    def _end(self, end: table.EndRecord) -> None:
        reference = end.call
        self._let_go(reference, end.value)
        super()._end(end)
        call = self._call(reference)
        self._over(call)
        self._summary.last_us = max(self._summary.last_us, end.at)
        if call.response is not None and self._summary.undelivered >= 0:
            self._summary.undelivered += 1
        del self._by_address[call.address]
        if isinstance(reference, int):
            del self._numbered.calls[reference]

    def _stream(self, call: RecordedCall, lengths: object, texts: object) -> None:
        """Ignore the pieces of a streamed answer, which are not shown."""

    def _delivery(self, delivery: table.DeliveryRecord) -> None:
        self.deliveries += 1
        self._summary.last_us = max(self._summary.last_us, delivery.at)
        self._summary.undelivered = max(self._summary.undelivered - 1, 0)

    def _tool(self, tool: table.ToolStartRecord) -> None:
        before, rows = self._allowance.taken, len(self._summary.shown)
        super()._tool(tool)
        _, used = self._tools.popitem()
        self._begun(used)
        if len(self._summary.shown) == rows:
            self._takes[table.ToolStartRecord, tool.id] = self._allowance.taken - before

    def _result(self, result: table.ToolEndRecord) -> None:
        _, reference, status, value, at = result
        used = self._numbered.used.pop(reference, None)
        if used is None:
            return
        self._let_go((table.ToolStartRecord, reference), value)
        used.outcome = ("answered", "failed", "cancelled")[status]
        if status:
            used.error = self._error(value)
        else:
            used.message, _ = self._numbered.messages.get(value, (None, ()))
        used.ended = at
        self._over(used)

    def _observation(self, seen: table.ObservationRecord) -> None:
        super()._observation(seen)
        self._summary.last_us = max(self._summary.last_us, self._observations.pop().at)

    def _failure(self, failed: table.FailureRecord) -> None:
        super()._failure(failed)
        self._summary.last_us = max(self._summary.last_us, failed.at)

    def _warning(self, warning: table.WarningRecord) -> None:
        if len(self._trace.warnings) < _WARNINGS:
            super()._warning(warning)

    def finish(self) -> Summary:
        """The summary, when all is read. Raises ``TraceCorrupt``."""
        self._by_address.clear()
        try:
            return _closed(self._summary)
        except BAD as error:
            raise TraceCorrupt(f"a call that was under way is not valid: {error!r}") from None
