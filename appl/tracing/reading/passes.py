"""A run read call by call: a first pass finds when each thing is spoken of for the last time, and
the next ones let go of it then.

Invariant: what comes out is what ``Trace.open`` makes of the file as it was in the first pass;
memory is that of the calls that are under way, of those that wait for an earlier one, and of the
prompts that are still to be used, but for a few bytes a record and the addresses of the first pass.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from appl.tracing.format import block, store
from appl.tracing.format.allowance import RECORD, Allowance
from appl.tracing.format.record import ANSWERED
from appl.tracing.format.store import regular_file
from appl.tracing.reading.lastuse import First, Pass, Uses, origins, parts
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import (
    Call,
    NoPrompts,
    Observation,
    Scope,
    Totals,
    Trace,
    add_earlier,
    add_to,
    no_totals,
)


class Passes:
    """The trace at *path*, opened for reading it several times; a context manager.

    ``trace`` holds what is true of the whole run, and none of its calls, scopes and observations.
    Raises ``TraceError`` as ``Trace.open`` does, from each of the iterators too: that a record is
    not valid is found where it is read.
    """

    def __init__(self, path: str | os.PathLike[str], *, salvage: bool = False) -> None:
        self._file = regular_file(Path(path))
        self._whole: Trace | None = None
        try:
            if self._file.read(1) == b"{":
                self.trace = self._whole = Trace.open(path)
            else:
                self.trace, self._uses = Trace(Path(path)), Uses()
                self._salvage = salvage
                self._find()
        except BaseException:
            self._file.close()
            raise

    def _find(self) -> None:
        found, trace = block.Scan(), self.trace
        running = store.locked(self._file)
        first = First(trace, found.allowance, self._uses)
        for raw in block.scan(self._file, found, salvage=self._salvage):
            first.block(raw, found.blocks)
        self._blocks = found.blocks
        self._uses.calls.close()
        self._uses.tools.close()
        trace.torn = 0 if running else found.torn
        trace.state = "running" if running else "finished" if first.closed else "crashed"

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> Passes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._file.close()

    def calls(self, *, prompts: bool = True) -> Iterator[Call]:
        """The calls in the order of ``Trace.calls``; without *prompts* these, and what answers were
        streamed in, are left out."""
        return (call for call, earlier in self.records(prompts=prompts) if not earlier)

    def records(self, *, prompts: bool = True) -> Iterator[tuple[Call, bool]]:
        """Every record of a call, and whether a later process began that call again."""
        if self._whole is not None:
            yield from ((call, True) for call in self._whole.earlier)
            yield from ((call, False) for call in self._whole.calls)
        else:
            yield from self._pass(_Calls if prompts else _Answers)

    def chosen(self, keep: Callable[[str], bool]) -> Iterator[Call]:
        """The calls of the addresses that *keep* is true of, for somebody who holds them all."""
        if self._whole is not None:
            yield from (call for call in self._whole.calls if keep(call.address))
        else:
            yield from (call for call, earlier in self._pass(_Chosen, keep) if not earlier)

    def tools(self) -> Iterator[ToolUse]:
        """The calls of tools, in the order of ``Trace.tools``."""
        if self._whole is not None:
            yield from self._whole.tools.values()
        elif self._uses.tools.last:
            yield from self._pass(_Tools)

    def scopes(self) -> Iterator[Scope]:
        """The functions and tasks that got an address."""
        if self._whole is not None:
            yield from self._whole.scopes
        else:
            yield from self._pass(_Scopes)

    def observations(self) -> Iterator[Observation]:
        """What the program saw of the outside world."""
        if self._whole is not None:
            yield from self._whole.observations
        elif "O" in self._uses.kinds:
            yield from self._pass(_Observations)

    def warnings(self) -> Iterator[tuple[str, str]]:
        """What the run warned of: addresses and texts."""
        if self._whole is not None:
            yield from self._whole.warnings
        elif "W" in self._uses.kinds:
            yield from self._pass(_Warnings)

    def _pass(self, kind: Any, *given: Any) -> Iterator[Any]:
        """Read the blocks of the first pass again; what is ready after each of them."""
        found = block.Scan()
        builder = kind(Trace(self.trace.path), found.allowance, self._uses, *given)
        for raw in block.scan(self._file, found, salvage=self._salvage):
            builder.block(raw, found.blocks)
            yield from builder.ready()
            if found.blocks == self._blocks:  # a run that goes on may have written more
                return


class Sums:
    """The totals of the calls that were added, and how long they took together."""

    def __init__(self) -> None:
        self.totals: Totals = no_totals()
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}

    def add(self, call: Call, earlier: bool = False) -> None:
        """Count one more, perhaps one that a later process began again."""
        if earlier:
            add_earlier(self.totals, call)
        else:
            self.totals.calls += 1
            add_to(self.totals, call)
        number = call.incarnation
        if call.started is not None:
            self._first[number] = min(self._first.get(number, call.started), call.started)
        if call.ended is not None:
            self._last[number] = max(self._last.get(number, call.ended), call.ended)

    @property
    def seconds(self) -> float:
        """As ``Trace.seconds``."""
        both = self._first.keys() & self._last.keys()
        return sum(self._last[number] - self._first[number] for number in both) / 1e6


class _Held:
    """A call that waits for its turn; ``taken`` is what it takes of the allowance."""

    __slots__ = ("call", "index", "number", "taken")

    def __init__(self, index: int, call: Call) -> None:
        self.index, self.call = index, call
        self.number: int | None = None
        self.taken = 0


class _Named:
    """A call that is over: others may still refer to it by its number, or say its answer again.

    ``taken`` is what that answer takes of the allowance.
    """

    __slots__ = ("address", "response", "taken")

    def __init__(self, call: Call, quoted: bool) -> None:
        self.address = call.address
        self.response = call.response if quoted else None
        self.taken = 0


class _Calls(Pass):
    """The calls with their prompts."""

    kinds = frozenset("HITXUBGMLNPSDACEVFROZ")

    def __init__(self, trace: Trace, allowance: Allowance, uses: Uses) -> None:
        self._waiting = deque[_Held]()
        self._held: dict[int, _Held] = {}
        self._about: Call | None = None
        self._takes: dict[int, int] = {}
        self._begun = self._lasting = 0
        super().__init__(trace, allowance, uses)

    def ready(self) -> Iterator[tuple[Call, bool]]:
        """The calls of which nothing more is told, in their order."""
        calls, done = self._uses.calls, self._trace.records
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
        if held.number is not None and self._calls.get(held.number) is call:
            if self._uses.over(self._process, held.number, trace.records - 1):
                del self._calls[held.number]
            else:
                named = _Named(call, self._quotes(held.index))
                if named.response is not None:  # what the call takes is taken for a while longer
                    named.taken = held.taken
                    self._allowance.taken += held.taken
                self._calls[held.number] = named  # type: ignore[assignment]

    def _quotes(self, index: int) -> bool:
        quoted = self._uses.quoted
        return index < len(quoted) and bool(quoted[index])

    def _forget(self) -> None:
        super()._forget()
        self._takes = {}
        for held in self._waiting:
            held.number = None

    def _record(self, fields: Any) -> None:
        """What a record takes is counted for as long as its call, or its number, is kept."""
        before, self._about = self._spent, None
        super()._record(fields)
        if self._about is not None:
            self._allowance.spend(RECORD + self._scratch.taken)
            self._held[id(self._about)].taken += self._spent - before

    @property
    def _spent(self) -> int:
        """What was taken of the allowance and may be given back."""
        return self._allowance.taken - self._lasting

    def _long(self, value: Any) -> Any:
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

    def _release(self, table: dict[int, Any], number: Any) -> None:
        """Let go of *number*, unless it is used after this record."""
        if number in table and self._over(number):
            del table[number]
            self._allowance.taken -= self._takes.pop(number, 0)

    def _release_call(self, number: Any) -> None:
        known: object = self._calls.get(number) if isinstance(number, int) else None
        if isinstance(known, _Named) and self._over(number):
            self._allowance.taken -= known.taken
            del self._calls[number]

    def _scope(
        self, number: Any, parent: Any, leaf: Any, name: Any, file: Any, line: Any, at: Any,
        about: Any = None,
    ) -> None:  # fmt: skip
        before = self._spent
        super()._scope(number, parent, leaf, name, file, line, at)
        self._trace.scopes.pop()
        self._keeps(number, self._scopes, before)
        self._release(self._scopes, parent)

    def _medium(self, number: Any, *fields: Any) -> None:
        before = self._spent
        super()._medium(number, *fields)
        self._keeps(number, self._media, before)

    def _message(self, number: Any, role: Any, content: Any, more: Any = None) -> None:
        before = self._spent
        super()._message(number, role, content, more)
        self._keeps(number, self._messages, before)
        self._parts_used(more)
        self._release_call(content)

    def _longer(self, number: Any, base: Any, added: Any, more: Any = None) -> None:
        before = self._spent
        super()._longer(number, base, added, more)
        self._keeps(number, self._ropes, before)
        self._message_used(base)
        self._parts_used(more)

    def _parts_used(self, more: Any) -> None:
        for number in parts(more):
            self._release(self._media, number)
            self._release_call(number)

    def _message_used(self, number: Any) -> None:
        self._release(self._ropes if number in self._ropes else self._messages, number)

    def _node(
        self, number: Any, parent: Any, message: Any, digest: Any, told: Any = None
    ) -> None:  # fmt: skip
        before = self._spent
        super()._node(number, parent, message, digest, told)
        self._keeps(number, self._nodes, before)
        self._release(self._nodes, parent)
        self._message_used(message)
        for origin in origins(told):
            self._release_call(origin)

    def _start(self, number: Any, scope: Any, name: Any, *more: Any) -> None:
        super()._start(number, scope, name, *more)
        self._waiting[-1].number = number
        _, _, prompt, _, _, _, _, edges, *_ = more
        self._release(self._nodes, prompt)
        self._release(self._scopes, scope)
        for edge in edges:
            self._release_call(edge)

    def _add(self, call: Call) -> None:
        held = self._held[id(call)] = _Held(self._begun, call)
        self._begun += 1
        self._waiting.append(held)
        self._about = self._trace.by_address[call.address] = call

    def _call(self, reference: Any) -> Call:
        self._about = super()._call(reference)
        return self._about

    def _delivery(self, reference: Any, at: Any) -> None:
        if self._trace.records in self._uses.told:
            self.deliveries += 1
        else:
            super()._delivery(reference, at)

    def _use(self, reference: Any) -> None:
        return None

    def _tool(self, *fields: Any) -> None:
        self._positions += 1

    def _result(self, reference: Any, status: Any, value: Any, at: Any) -> None:
        self._ends += 1
        if status == ANSWERED:  # else *value* is an error
            self._release(self._messages, value)

    def _observation(self, *fields: Any) -> None:
        self.deliveries += 1


class _Answers(_Calls):
    """The calls without what they were asked, and what they were streamed in."""

    kinds = _Calls.kinds - frozenset("GMLNU")

    def _forget(self) -> None:
        super()._forget()
        self._nodes = NoPrompts()

    def _stream(self, call: Call, cuts: Any, said: Any = None, *later: Any) -> None:
        pass

    def _quotes(self, index: int) -> bool:
        return False


class _Chosen(_Calls):
    """Some of the calls, with their prompts; these, and all prompts, go on being counted."""

    def __init__(
        self, trace: Trace, allowance: Allowance, uses: Uses, keep: Callable[[str], bool]
    ) -> None:
        self._keep = keep
        super().__init__(trace, allowance, uses)

    def ready(self) -> Iterator[tuple[Call, bool]]:
        return ((call, earlier) for call, earlier in super().ready() if self._keep(call.address))

    def _let_go(self, held: _Held) -> None:
        if self._keep(held.call.address):
            held.taken = 0
        super()._let_go(held)

    def _keeps(self, number: int, table: dict[int, Any], before: int) -> None:
        self._allowance.spend(RECORD + self._scratch.taken)
        self._release(table, number)


class _Tools(Pass):
    """The calls of tools."""

    kinds = frozenset("HITXBGMSEFRZ")

    def __init__(self, trace: Trace, allowance: Allowance, uses: Uses) -> None:
        self._waiting = deque[tuple[int, ToolUse]]()
        self._begun = 0
        super().__init__(trace, allowance, uses)

    def ready(self) -> Iterator[ToolUse]:
        """The calls of which nothing more is told, in their order."""
        tools, done = self._uses.tools, self._trace.records
        while self._waiting and tools.last[self._waiting[0][0]] < done:
            index, used = self._waiting.popleft()
            if not tools.again[index]:
                self._trace.tools.pop(used.address, None)
                yield used

    def _scope(self, *fields: Any) -> None:
        super()._scope(*fields[:7])
        self._trace.scopes.pop()

    def _message(self, number: Any, role: Any, content: Any, more: Any = None) -> None:
        """Of the messages, only what tools gave is needed."""
        if role == "tool":
            super()._message(number, role, content, more)
            if self._over(number):
                del self._messages[number]

    def _start(self, *fields: Any) -> None:
        self._positions += 1

    def _end(self, *fields: Any) -> None:
        self._ends += 1

    def _tool(self, *fields: Any) -> None:
        super()._tool(*fields)
        used = self._trace.tools[next(reversed(self._trace.tools))]
        self._allowance.spend(2 * RECORD + self._scratch.taken)
        self._waiting.append((self._begun, used))
        self._begun += 1

    def _result(self, reference: Any, status: Any, value: Any, at: Any) -> None:
        super()._result(reference, status, value, at)
        if status == ANSWERED and self._over(value):
            del self._messages[value]


class _Listed(Pass):
    """What is told in one record each."""

    listed: str

    def _record(self, fields: Any) -> None:
        before = len(getattr(self._trace, self.listed))
        super()._record(fields)
        if len(getattr(self._trace, self.listed)) > before:
            self._allowance.spend(RECORD + self._scratch.taken)

    def ready(self) -> Iterator[Any]:
        """What the last block told."""
        found: list[Any] = getattr(self._trace, self.listed)
        setattr(self._trace, self.listed, [])
        return iter(found)


class _Scopes(_Listed):
    """The functions and tasks."""

    kinds, listed = frozenset("HITXBZ"), "scopes"


class _Observations(_Listed):
    """What the program saw."""

    kinds, listed = frozenset("HIBOZ"), "observations"


class _Warnings(_Listed):
    """What the run warned of."""

    kinds, listed = frozenset("HIWZ"), "warnings"
