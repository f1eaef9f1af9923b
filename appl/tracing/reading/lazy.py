"""A trace whose records are read when somebody asks for them.

A scan has noted where each record stands. A call, or a prompt, is then made of its own records and
of those that they refer to, by the same ``Builder`` that reads a trace as a whole.

Invariant: what is read is what ``Trace.open`` makes of the file as it was at the scan; memory is
that of the places and addresses, and of caches that grow only while the same is read again and
again.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

from appl.errors import TraceCorrupt
from appl.prompt import Messages
from appl.tracing.format import codec, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance
from appl.tracing.format.record import checked
from appl.tracing.format.store import TraceScan, is_tape, regular_file
from appl.tracing.format.table import as_record, tag_of, unwrapped
from appl.tracing.reading.places import WITHIN, Entries, Places, RecentlyRead, StoredBlocks
from appl.tracing.reading.scanning import PlacesScan
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import (
    BAD,
    Builder,
    NumberedRecords,
    Observation,
    RecordedCall,
    Scope,
    Trace,
)

T = TypeVar("T")

_PROCESSES = 8  # processes whose numbers are at hand
_LATE = ("messages", "masked", "cuts", "begun")
_CHAINED = (table.PromptRecord, table.LongerRecord)  # whose third field is the one before


@contextlib.contextmanager
def opened_lazily(path: str | os.PathLike[str], *, salvage: bool = False) -> Iterator[Trace]:
    """The trace at *path* for a block: its calls, tools and so on are read when they are asked for.

    Its sequences make a new value each time; what they made may be used until the block ends. That
    a record is not valid is found where it is read. A tape is read whole. Raises ``TraceError``.
    """
    with regular_file(Path(path)) as file:
        if is_tape(file):
            yield Trace.open(path)
        else:
            yield _scanned(Trace(Path(path)), TraceScan(file, salvage=salvage))


def _scanned(trace: Trace, scan: TraceScan) -> Trace:
    """The *trace* that *scan* finds. Raises ``TraceError``."""
    places, stored = Places(), StoredBlocks(scan)
    found = PlacesScan(trace, scan, places, stored)
    scan.read(found.block)
    reader = _LazyReader(trace, scan.allowance, places, stored)
    if places.close >= 0:
        reader.handle(places.close)
    return replace(
        trace,
        scopes=_Listed(places.scopes, reader.scope),
        calls=LazyCalls(places.calls, reader),
        by_address=_Addressed(places.calls, reader.call),
        earlier=_Listed(places.calls.again, reader.call),
        tools=_Addressed(places.tools, reader.tool),
        observations=_Listed(range(len(places.observations)), reader.observation),
        warnings=_Listed(places.warnings, reader.warning),
        moments=found.deliveries,
        torn=scan.torn,
        state=scan.state(found.closed),
    )


class _LateCall(RecordedCall):
    """A call whose prompt, and what its answer was streamed in, are made when they are wanted.

    ``asked`` are the place of its first record and the number of its prompt, ``told`` the place of
    its last one and what that says of a stream.
    """

    __slots__ = ("asked", "masked_besides", "reader", "told")
    reader: _LazyReader
    asked: tuple[int, int] | None
    told: tuple[int, object, Any] | None
    masked_besides: tuple[str, ...]

    def __getattr__(self, name: str) -> Any:
        if name not in _LATE:
            raise AttributeError(f"a call has no {name!r}", name=name, obj=self)
        self.reader.complete(self)
        return getattr(self, name)

    def leave_out(self, reader: _LazyReader) -> None:
        """Let *reader* make the prompt and the stream when they are wanted."""
        self.reader, self.masked_besides = reader, self.masked
        for name in _LATE:
            delattr(self, name)


class _Listed(Sequence[T]):
    """Values of which each is read when it is asked for, by its key."""

    def __init__(self, keys: Sequence[int], read: Callable[[int], T]) -> None:
        self._keys, self._read = keys, read

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[T]:
        return map(self._read, self._keys)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        if isinstance(at, slice):
            return [self._read(key) for key in self._keys[at]]
        return self._read(self._keys[at])


class _Addressed(Mapping[str, T]):
    """Values by their addresses, each read when it is asked for."""

    def __init__(self, entries: Entries, read: Callable[[int], T]) -> None:
        self._entries, self._read = entries, read

    def __len__(self) -> int:
        return len(self._entries.now)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries.now)

    def __contains__(self, address: object) -> bool:
        return address in self._entries.now

    def __getitem__(self, address: str) -> T:
        return self._read(self._entries.now[address])


class LazyCalls(_Listed[RecordedCall]):
    """The calls of a trace that is read lazily."""

    def __init__(self, entries: Entries, reader: _LazyReader) -> None:
        super().__init__(array("q", entries.now.values()), reader.call)
        self._entries, self._reader = entries, reader

    def chosen(self, keep: Callable[[str], bool]) -> list[RecordedCall]:
        """Those whose addresses *keep* is true of, for somebody who holds them all."""
        found = [entry for address, entry in self._entries.now.items() if keep(address)]
        return self._reader.held(found) if found else []


class _Values:
    """The values that records of one kind define, by their numbers, in one process."""

    def __init__(self, reader: _LazyReader, kind: table.Kind, since: int) -> None:
        self.kind, self.since, self.numbers = kind, since, reader.places.of[tag_of(kind)]
        self.known: dict[int, tuple[int, Any]] = {}
        self._reader = reader

    def place(self, number: Any, before: int) -> int:
        """The place, *before* another one, of the record that defines *number*, or -1."""
        return self.numbers.last(number, self.since, before)

    def __contains__(self, number: object) -> bool:
        return self.place(number, self._reader.here) >= 0

    def get(self, number: Any) -> Any:
        found = self.place(number, self._reader.here)
        return self[number] if found >= 0 else None

    def __getitem__(self, number: Any) -> Any:
        here = self._reader.here
        found = self.known.get(number)
        if found is not None and found[0] < here and self.numbers.unique:
            return found[1]
        place = self.place(number, here)
        if place < 0:
            raise KeyError(number)
        if found is None or found[0] != place:
            self._reader.define(self, number, place)
        return self.known[number][1]

    def __setitem__(self, number: int, value: object) -> None:
        self._reader.keep(self, number, value)


class _NoValues(dict[int, Any]):
    """Values that nobody looks up."""

    def __setitem__(self, number: int, value: object) -> None:
        pass


class _LazyReader(Builder):
    """Reads the records that are asked for.

    ``here`` is the place of the record that is read: the numbers in it are those of its process
    that were defined before. ``_about`` is the call that is put together.
    """

    _call_kind = _LateCall

    def __init__(
        self, trace: Trace, allowance: DecodingAllowance, places: Places, stored: StoredBlocks
    ) -> None:
        super().__init__(trace, allowance)
        self.places, self.here, self._stored = places, 0, stored
        self._recent = RecentlyRead[tuple[int, Any]]()
        self._base = allowance.taken
        for recent in (self._recent, stored.recent):
            recent.set_limit(self._base, allowance.most - self._base)
        self._processes: dict[int, NumberedRecords] = {}
        self._since = self._until = self._before = 0
        self._holds, self._address_now = False, ""
        self._about: Any = None
        self._wanted: tuple[int, int] | None = None

    # -- what is asked for

    def call(self, entry: int) -> RecordedCall:
        """The call *entry*; its prompt is read when somebody wants it. Raises ``TraceError``."""
        call: _LateCall = self._put_together(self.places.calls, entry)
        if call.asked or call.told:
            call.leave_out(self)
        return call

    def complete(self, call: _LateCall) -> None:
        """Make what was left out of *call*. Raises ``TraceError``."""
        self._begin()
        call.messages, call.masked, call.cuts, call.begun = None, call.masked_besides, (), None
        if call.asked is not None:
            place, prompt = call.asked
            call.messages, masks = self._at(place, super()._asked, prompt)
            call.masked = self._marks(masks, call.masked) if masks else call.masked
        if call.told is not None:
            place, *told = call.told
            self._at(place, super()._stream, call, *told)

    def held(self, entries: list[int]) -> list[RecordedCall]:
        """These calls, whole, for somebody who holds them all: what is made is counted for good."""
        self._begin()
        self._holds, self._recent.most = True, self._recent.limit
        try:
            calls = [self.call(entry) for entry in entries]
            for call in calls:
                _ = call.messages
            return calls
        finally:
            self._holds = False

    def tool(self, entry: int) -> ToolUse:
        """The tool call *entry*. Raises ``TraceError``."""
        found: ToolUse = self._put_together(self.places.tools, entry)
        return found

    def scope(self, place: int) -> Scope:
        """The scope at *place*. Raises ``TraceError``."""
        self.handle(place)
        return self._scopes.pop()

    def observation(self, number: int) -> Observation:
        """The observation of that *number*. Raises ``TraceError``."""
        self.deliveries = self.places.seen[number]
        self.handle(self.places.observations[number])
        return self._observations.pop()

    def warning(self, place: int) -> tuple[str, str]:
        """The warning at *place*. Raises ``TraceError``."""
        self.handle(place)
        return self._warnings.pop()

    def handle(self, place: int) -> None:
        """Read the record at *place*, for somebody who asks for it. Raises ``TraceError``."""
        self._begin()
        self._at(place, self._take_in_at, place)

    def _begin(self) -> None:
        """Begin to count what is made for somebody, who lets go of it before more is read."""
        if not self._holds:
            self._allowance.taken = self._base

    # -- the records

    def _put_together(self, entries: Entries, entry: int) -> Any:
        """The call that the records of *entry* make."""
        self._begin()
        self._about, self._address_now = None, entries.addresses[entry]
        for place, count in entries.records(entry):
            self._positions = self._ends = self.deliveries = count
            self._at(place, self._take_in_at, place)
        return self._about

    def _take_in_at(self, place: int) -> None:
        self._record(self._fields(place))

    def _fields(self, place: int) -> Any:
        self._allowance.spend(RECORD)
        return codec.unpack_one(self._stored.record(place), self._allowance)

    def _at(self, place: int, act: Callable[..., T], *given: object) -> T:
        """Call *act* with what was *given*, as the record at *place* is read.

        Raises ``TraceCorrupt``.
        """
        outer, taken = (self.here, self._masks, self._before), self._allowance.taken
        self.here, self._before = place, taken
        try:
            if not self._since <= place < self._until:
                self._enter(place)
            return act(*given)
        except BAD as error:
            at = f"record {place & ((1 << WITHIN) - 1)} of block {(place >> WITHIN) + 1}"
            raise TraceCorrupt(f"{at} is not valid: {error!r}") from None
        finally:
            self.here, self._masks, before = outer
            self._before = before + self._allowance.taken - taken  # what was made is not its own

    def _enter(self, place: int) -> None:
        """Take the numbers of the process whose record stands at *place*."""
        since, self._until = self.places.process_around(place)
        if since not in self._processes:
            while len(self._processes) >= _PROCESSES:
                del self._processes[next(iter(self._processes))]
            self._processes[since] = NumberedRecords(lambda kind: self._values(kind, since))
        self._since, self._numbered = since, self._processes[since]

    def _values(self, kind: table.Kind, since: int) -> object:
        looked_up = kind not in (table.ScopeRecord, table.StartRecord)
        return _Values(self, kind, since) if looked_up else _NoValues()

    def define(self, values: _Values, number: int, place: int) -> None:
        """Read the record at *place*, which gives one of *values* its *number*.

        The records that it goes on from are read before it, the first one first.
        """
        if values.kind is table.PieceRecord:
            self._gather(values, number, place)
            return
        todo, first = [place], self._fields(place)
        fields = first
        while values.kind in _CHAINED:
            before = unwrapped(fields)[2]
            above = values.place(before, todo[-1]) if type(before) is int else -1
            known = values.known.get(before) if above >= 0 else (above, None)
            if known is not None and known[0] == above:
                break
            todo.append(above)
            fields = self._fields(above)
        while len(todo) > 1:
            at = todo.pop()
            self._at(at, self._take_in_at, at)
        self._at(place, self._record, first)

    def _gather(self, values: _Values, number: int, last: int) -> None:
        """Read the pieces of a long text up to the *last*."""
        pieces: list[bytes] = []
        for place in values.numbers.all(number, values.since, last + 1):
            piece = as_record(unwrapped(self._fields(place)))
            if piece.place != len(pieces):
                raise ValueError(f"piece {piece.place} of a long text is not the next one")
            pieces.append(checked(bytes, piece.data))
        size = sum(map(len, pieces)) + RECORD * len(pieces)
        self._recent.put(values.known, number, (last, pieces), size)

    def keep(self, values: _Values, number: int, value: object) -> None:
        """Keep the *value* that the record read now defines, for a while."""
        size = RECORD + self._allowance.taken - self._before
        self._recent.put(values.known, number, (self.here, value), size)

    # -- what is otherwise than in a trace that is read whole

    @property
    def _incarnations(self) -> int:
        return self.places.incarnation(self.here)

    def _defined(self, kind: table.Kind, number: int) -> int:
        """The place of the record of *kind* that defines *number*. Raises ``KeyError``."""
        place = self.places.of[tag_of(kind)].last(number, self._since, self.here)
        if place < 0:
            raise KeyError(number)
        return place

    def _scope_of(self, reference: object) -> str:
        if isinstance(reference, int):
            return self.places.scope_address(self._defined(table.ScopeRecord, reference))
        return super()._scope_of(reference)

    def _address_below(self, scope: object, leaf: object) -> str:
        return self._address_now

    def _address(self, reference: object) -> str:
        if isinstance(reference, int):
            return self.places.calls.addresses[self._entry(reference)]
        return super()._address(reference)

    def _entry(self, number: int) -> int:
        return self.places.calls.begun_at(self._defined(table.StartRecord, number))

    def _answered(self, call: int) -> RecordedCall:
        """The call that has this number, with its answer if that stands before here."""
        self._numbered.answer_masks.clear()
        entry, calls = self._entry(call), self.places.calls
        outer, end = (self._about, self._ends), calls.ended_at(entry)
        self._about = found = RecordedCall(calls.addresses[entry])
        if 0 <= end < self.here:
            self._at(end, self._take_in_at, end)
        self._about, self._ends = outer
        return found

    def _asked(self, prompt: int) -> tuple[Messages | None, tuple[str, ...]]:
        self._wanted = self.here, prompt
        return None, ()

    def _stream(self, call: RecordedCall, lengths: object, texts: Any) -> None:
        if isinstance(call, _LateCall):
            call.told = self.here, lengths, texts

    def _add(self, call: RecordedCall) -> None:
        assert isinstance(call, _LateCall)
        call.asked, call.told, self._wanted, self._about = self._wanted, None, None, call

    def _call(self, reference: object) -> RecordedCall:
        if self._about is None:
            self._add(self._call_kind(self._address_now))
        found: RecordedCall = self._about
        return found

    def _tool(self, tool: table.ToolStartRecord) -> None:
        super()._tool(tool)
        _, self._about = self._tools.popitem()

    def _use(self, reference: object) -> ToolUse | None:
        return self._about if isinstance(self._about, ToolUse) else None
