"""A run read call by call: a first pass finds when each thing is spoken of for the last time, and
the next ones let go of it then.

Invariant: what comes out is what ``Trace.open`` makes of the file as it was in the first pass;
memory is that of the calls that are under way, of those that wait for an earlier one, and of the
prompts that are still to be used, but for a few bytes a record and the addresses of the first pass.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from appl.tracing.format import table
from appl.tracing.format.allowance import RECORD, DecodingAllowance
from appl.tracing.format.record import ANSWERED
from appl.tracing.format.store import TraceScan, is_tape, regular_file
from appl.tracing.reading.liveness import Liveness, LivenessPass, Pass, bare, origins, parts
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import (
    NoPrompts,
    Observation,
    RecordedCall,
    Scope,
    Trace,
)


class StreamingReader:
    """The trace at *path*, opened for reading it several times; a context manager.

    ``trace`` holds what is true of the whole run, and none of its calls, scopes and observations.
    Raises ``TraceError`` as ``Trace.open`` does, from each of the iterators too: that a record is
    not valid is found where it is read.
    """

    def __init__(self, path: str | os.PathLike[str], *, salvage: bool = False) -> None:
        self._file = regular_file(Path(path))
        self._whole: Trace | None = None
        try:
            if is_tape(self._file):
                self.trace = self._whole = Trace.open(path)
            else:
                self.trace, self._liveness = Trace(Path(path)), Liveness()
                self._salvage = salvage
                self._find()
        except BaseException:
            self._file.close()
            raise

    def _find(self) -> None:
        scan, trace = TraceScan(self._file, salvage=self._salvage), self.trace
        first = LivenessPass(trace, scan.allowance, self._liveness)
        scan.read(first.block)
        self._blocks = scan.blocks
        self._liveness.calls.close()
        self._liveness.tools.close()
        trace.torn, trace.state = scan.torn, scan.state(first.closed)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> StreamingReader:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def calls(self, *, prompts: bool = True) -> Iterator[RecordedCall]:
        """The calls in the order of ``Trace.calls``; without *prompts* these, and what answers were
        streamed in, are left out."""
        return (call for call, earlier in self.records(prompts=prompts) if not earlier)

    def records(self, *, prompts: bool = True) -> Iterator[tuple[RecordedCall, bool]]:
        """Every record of a call, and whether a later process began that call again."""
        return self._values(_every_call, _Calls if prompts else _Answers)

    def chosen(self, keep: Callable[[str], bool]) -> Iterator[RecordedCall]:
        """The calls of the addresses that *keep* is true of, for somebody who holds them all."""
        found = self._values(_every_call, _Chosen, keep)
        return (call for call, earlier in found if not earlier and keep(call.address))

    def tools(self) -> Iterator[ToolUse]:
        """The calls of tools, in the order of ``Trace.tools``."""
        return self._values(lambda whole: whole.tools.values(), _Tools)

    def scopes(self) -> Iterator[Scope]:
        """The functions and tasks that got an address."""
        return self._values(lambda whole: whole.scopes, _Scopes)

    def observations(self) -> Iterator[Observation]:
        """The observations of the program."""
        return self._values(lambda whole: whole.observations, _Observations)

    def warnings(self) -> Iterator[tuple[str, str]]:
        """The warnings of the run: addresses and texts."""
        return self._values(lambda whole: whole.warnings, _Warnings)

    def _values(
        self, of_whole: Callable[[Trace], Iterable[Any]], kind: Any, *options: object
    ) -> Iterator[Any]:
        """The values of a tape, which is in memory, or those that a pass of *kind* finds."""
        if self._whole is not None:
            yield from of_whole(self._whole)
        elif kind.needs <= self._liveness.kinds:
            yield from self._pass(kind, *options)

    def _pass(self, kind: Any, *options: object) -> Iterator[object]:
        """Read the blocks of the first pass again; what is ready after each of them."""
        scan = TraceScan(self._file, salvage=self._salvage)
        builder = kind(Trace(self.trace.path), scan.allowance, self._liveness, *options)
        for _ in scan.blocks_to(builder.block):
            yield from builder.ready()
            if scan.blocks == self._blocks:  # a run that goes on may have written more
                return


def _every_call(whole: Trace) -> Iterator[tuple[RecordedCall, bool]]:
    yield from ((call, True) for call in whole.earlier)
    yield from ((call, False) for call in whole.calls)


class _Held:
    """A call that waits for its turn; ``taken`` is what it takes of the allowance."""

    __slots__ = ("call", "index", "number", "taken")

    def __init__(self, index: int, call: RecordedCall) -> None:
        self.index, self.call = index, call
        self.number: int | None = None
        self.taken = 0


class _Named:
    """A call that is over: others may still refer to it by its number, or say its answer again.

    ``taken`` is what that answer takes of the allowance.
    """

    __slots__ = ("address", "response", "taken")

    def __init__(self, call: RecordedCall, quoted: bool) -> None:
        self.address = call.address
        self.response = call.response if quoted else None
        self.taken = 0


class _Calls(Pass):
    """The calls with their prompts."""

    wants = table.EVERY - {table.WarningRecord}

    def __init__(self, trace: Trace, allowance: DecodingAllowance, liveness: Liveness) -> None:
        self._waiting = deque[_Held]()
        self._held: dict[int, _Held] = {}
        self._about: RecordedCall | None = None
        self._takes: dict[int, int] = {}
        self._begun = self._lasting = 0
        super().__init__(trace, allowance, liveness)

    def ready(self) -> Iterator[tuple[RecordedCall, bool]]:
        """The calls of which nothing more is told, in their order."""
        calls, done = self._liveness.calls, self._trace.records
        while self._waiting and calls.last[self._waiting[0].index] < done:
            held = self._waiting.popleft()
            self._let_go(held)
            yield held.call, bool(calls.again[held.index])

    def _let_go(self, held: _Held) -> None:
        call, trace = held.call, self._trace
        del self._held[id(call)]
        self._allowance.taken -= held.taken
        if trace.by_address.get(call.address) is call:
            del trace.by_address[call.address]
        if held.number is not None and self._numbered.calls.get(held.number) is call:
            if self._liveness.is_last_use(self._processes, held.number, trace.records - 1):
                del self._numbered.calls[held.number]
            else:
                named = _Named(call, self._quotes(held.index))
                if named.response is not None:  # what the call takes is taken for a while longer
                    named.taken = held.taken
                    self._allowance.taken += held.taken
                self._numbered.calls[held.number] = named  # type: ignore[assignment]

    def _quotes(self, index: int) -> bool:
        quoted = self._liveness.quoted
        return index < len(quoted) and bool(quoted[index])

    def _forget(self) -> None:
        super()._forget()
        self._takes = {}
        for held in self._waiting:
            held.number = None

    def _record(self, fields: object) -> None:
        """Read a record; its memory is counted while its call, or its number, is kept."""
        before, self._about = self._spent, None
        super()._record(fields)
        if self._about is not None:
            self._allowance.spend(RECORD + self._scratch.taken)
            self._held[id(self._about)].taken += self._spent - before

    @property
    def _spent(self) -> int:
        """The part of the allowance that was taken and may be given back."""
        return self._allowance.taken - self._lasting

    def _long(self, value: object) -> object:
        """Texts that are put together are counted for good, however short they live: many small
        records may refer to a long one."""
        before = self._allowance.taken
        found = super()._long(value)
        self._lasting += self._allowance.taken - before
        return found

    def _marks(self, *masks: tuple[str, ...]) -> tuple[str, ...]:
        before = self._allowance.taken
        found = super()._marks(*masks)
        self._lasting += self._allowance.taken - before
        return found

    def _keeps(self, number: int, table: dict[int, Any], before: int) -> None:
        """*number* was made, and since *before* what it takes was spent."""
        self._allowance.spend(RECORD + self._scratch.taken)
        self._takes[number] = self._spent - before
        self._release(table, number)

    def _release(self, table: dict[int, Any], number: object) -> None:
        """Let go of *number*, unless it is used after this record."""
        if number in table and self._is_last_use(number):
            del table[number]
            self._allowance.taken -= self._takes.pop(number, 0)

    def _release_call(self, number: Any) -> None:
        known: object = self._numbered.calls.get(number) if isinstance(number, int) else None
        if isinstance(known, _Named) and self._is_last_use(number):
            self._allowance.taken -= known.taken
            del self._numbered.calls[number]

    def _scope(self, scope: table.ScopeRecord) -> None:
        before = self._spent
        super()._scope(bare(scope))
        self._trace.scopes.pop()
        self._keeps(scope.id, self._numbered.scopes, before)
        self._release(self._numbered.scopes, scope.parent)

    def _medium(self, medium: table.MediumRecord) -> None:
        before = self._spent
        super()._medium(medium)
        self._keeps(medium.id, self._numbered.media, before)

    def _message(self, message: table.MessageRecord) -> None:
        before = self._spent
        super()._message(message)
        self._keeps(message.id, self._numbered.messages, before)
        self._parts_used(message.more)
        self._release_call(message.content)

    def _longer(self, longer: table.LongerRecord) -> None:
        before = self._spent
        super()._longer(longer)
        self._keeps(longer.id, self._numbered.ropes, before)
        self._message_used(longer.message)
        self._parts_used(longer.more)

    def _parts_used(self, more: object) -> None:
        for number in parts(more):
            self._release(self._numbered.media, number)
            self._release_call(number)

    def _message_used(self, number: object) -> None:
        numbered = self._numbered
        self._release(
            numbered.ropes if number in numbered.ropes else numbered.messages,
            number,
        )

    def _prompt(self, prompt: table.PromptRecord) -> None:
        before = self._spent
        super()._prompt(prompt)
        self._keeps(prompt.id, self._numbered.nodes, before)
        self._release(self._numbered.nodes, prompt.parent)
        self._message_used(prompt.message)
        for origin in origins(prompt.origins):
            self._release_call(origin)

    def _start(self, start: table.StartRecord) -> None:
        super()._start(start)
        self._waiting[-1].number = start.id
        self._release(self._numbered.nodes, start.prompt)
        self._release(self._numbered.scopes, start.scope)
        for edge in start.edges:
            self._release_call(edge)

    def _add(self, call: RecordedCall) -> None:
        held = self._held[id(call)] = _Held(self._begun, call)
        self._begun += 1
        self._waiting.append(held)
        self._about = self._trace.by_address[call.address] = call

    def _call(self, reference: object) -> RecordedCall:
        self._about = super()._call(reference)
        return self._about

    def _delivery(self, delivery: table.DeliveryRecord) -> None:
        if self._trace.records in self._liveness.tool_deliveries:
            self.deliveries += 1
        else:
            super()._delivery(delivery)

    def _use(self, reference: object) -> None:
        return None

    def _tool(self, tool: table.ToolStartRecord) -> None:
        self._positions += 1

    def _result(self, result: table.ToolEndRecord) -> None:
        self._ends += 1
        if result.status == ANSWERED:  # else the value is an error
            self._release(self._numbered.messages, result.value)

    def _observation(self, seen: table.ObservationRecord) -> None:
        self.deliveries += 1


class _Answers(_Calls):
    """The calls without what they were asked, and what they were streamed in."""

    wants = _Calls.wants - {
        table.MediumRecord,
        table.MessageRecord,
        table.LongerRecord,
        table.PromptRecord,
        table.LineRecord,
    }

    def _forget(self) -> None:
        super()._forget()
        self._numbered.nodes = NoPrompts()

    def _stream(self, call: RecordedCall, lengths: object, texts: object) -> None:
        pass

    def _quotes(self, index: int) -> bool:
        return False


class _Chosen(_Calls):
    """Some of the calls, with their prompts; these, and all prompts, go on being counted."""

    def __init__(
        self,
        trace: Trace,
        allowance: DecodingAllowance,
        liveness: Liveness,
        keep: Callable[[str], bool],
    ) -> None:
        self._keep = keep
        super().__init__(trace, allowance, liveness)

    def _let_go(self, held: _Held) -> None:
        if self._keep(held.call.address):
            held.taken = 0
        super()._let_go(held)

    def _keeps(self, number: int, table: dict[int, Any], before: int) -> None:
        self._allowance.spend(RECORD + self._scratch.taken)
        self._release(table, number)


class _Tools(Pass):
    """The calls of tools."""

    needs: frozenset[table.Kind] = frozenset({table.ToolStartRecord})
    wants = frozenset(
        {
            table.HeaderRecord,
            table.ProcessRecord,
            table.FileRecord,
            table.ScopeRecord,
            table.PieceRecord,
            table.MediumRecord,
            table.MessageRecord,
            table.StartRecord,
            table.EndRecord,
            table.ToolStartRecord,
            table.ToolEndRecord,
            table.CloseRecord,
        }
    )

    def __init__(self, trace: Trace, allowance: DecodingAllowance, liveness: Liveness) -> None:
        self._waiting = deque[tuple[int, ToolUse]]()
        self._begun = 0
        super().__init__(trace, allowance, liveness)

    def ready(self) -> Iterator[ToolUse]:
        """The calls of which nothing more is told, in their order."""
        tools, done = self._liveness.tools, self._trace.records
        while self._waiting and tools.last[self._waiting[0][0]] < done:
            index, used = self._waiting.popleft()
            if not tools.again[index]:
                self._trace.tools.pop(used.address, None)
                yield used

    def _scope(self, scope: table.ScopeRecord) -> None:
        super()._scope(bare(scope))
        self._trace.scopes.pop()

    def _message(self, message: table.MessageRecord) -> None:
        """Keep the results of tools; other messages are not needed."""
        if message.role == "tool":
            super()._message(message)
            if self._is_last_use(message.id):
                del self._numbered.messages[message.id]

    def _start(self, start: table.StartRecord) -> None:
        self._positions += 1

    def _end(self, end: table.EndRecord) -> None:
        self._ends += 1

    def _tool(self, tool: table.ToolStartRecord) -> None:
        super()._tool(tool)
        used = self._trace.tools[next(reversed(self._trace.tools))]
        self._allowance.spend(2 * RECORD + self._scratch.taken)
        self._waiting.append((self._begun, used))
        self._begun += 1

    def _result(self, result: table.ToolEndRecord) -> None:
        super()._result(result)
        if result.status == ANSWERED and self._is_last_use(result.value):
            del self._numbered.messages[result.value]


_COMMON: frozenset[table.Kind] = frozenset(
    {table.HeaderRecord, table.ProcessRecord, table.CloseRecord}
)


class _Listed(Pass):
    """A pass for objects that have one record each."""

    listed: str

    def _record(self, fields: object) -> None:
        before = len(getattr(self._trace, self.listed))
        super()._record(fields)
        if len(getattr(self._trace, self.listed)) > before:
            self._allowance.spend(RECORD + self._scratch.taken)

    def ready(self) -> Iterator[object]:
        """The objects of the last block."""
        found: list[object] = getattr(self._trace, self.listed)
        setattr(self._trace, self.listed, [])
        return iter(found)


class _Scopes(_Listed):
    """The functions and tasks."""

    wants, listed = _COMMON | {table.FileRecord, table.ScopeRecord, table.PieceRecord}, "scopes"


class _Observations(_Listed):
    """The pass for observations."""

    needs: frozenset[table.Kind] = frozenset({table.ObservationRecord})
    wants, listed = _COMMON | needs | {table.PieceRecord}, "observations"


class _Warnings(_Listed):
    """The pass for warnings."""

    needs: frozenset[table.Kind] = frozenset({table.WarningRecord})
    wants, listed = _COMMON | needs, "warnings"
