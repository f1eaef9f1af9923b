"""One scan over a file, which notes where each record stands.

Invariant: nothing is made of the records but addresses; what is noted is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appl.tracing.format import codec, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance
from appl.tracing.format.record import checked
from appl.tracing.format.store import TraceScan
from appl.tracing.format.table import as_record, tag_of
from appl.tracing.reading.places import WITHIN, Entries, Places, StoredBlocks
from appl.tracing.reading.trace import AROUND, CLOSE, Builder, Trace


class _ReferredTexts(DecodingAllowance):
    """Adds up the long texts to which records refer, as they are made."""

    __slots__ = ("texts",)

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.texts = 0

    def map_hook(self, made: dict[object, object]) -> dict[object, object]:
        text = made.get("$blob")
        if isinstance(text, list) and len(text) > 1 and type(text[1]) is int:
            self.texts += max(text[1], 0)
        return super().map_hook(made)


class _ByNumber:
    """The calls, tools and scopes of the process whose records are scanned."""

    def __init__(self) -> None:
        self.calls: dict[int, int] = {}
        self.tools: dict[int, int] = {}
        self.scopes: dict[int, str] = {}


class PlacesScan(Builder):
    """Notes the places of the records in *places*, and what is true of the whole run in *trace*."""

    def __init__(self, trace: Trace, scan: TraceScan, places: Places, stored: StoredBlocks) -> None:
        super().__init__(trace, scan.allowance)
        self._places, self._stored = places, stored
        notes: dict[table.Kind, Callable[[list[Any], int], None]] = {
            table.HeaderRecord: lambda fields, _: self._header(as_record(fields)),
            table.ProcessRecord: self._note_process,
            table.ScopeRecord: self._note_scope,
            table.StartRecord: self._note_start,
            table.DispatchRecord: self._note_attempt,
            table.RetryRecord: self._note_attempt,
            table.ChunksRecord: self._note_chunks,
            table.EndRecord: self._note_end,
            table.DeliveryRecord: self._note_delivery,
            table.ToolStartRecord: self._note_tool,
            table.ToolEndRecord: self._note_result,
            table.FailureRecord: lambda fields, _: self._failure(as_record(fields)),
            table.ObservationRecord: self._note_observation,
            table.WarningRecord: lambda _, place: places.warnings.append(place),
            table.CloseRecord: self._note_close,
        }
        self._notes = {tag_of(kind): note for kind, note in notes.items()}

    def _take_in(self, raw: bytes) -> None:
        """Note the records of one block."""
        first = place = self._stored.add() << WITHIN
        allowance, trace = self._allowance, self._trace
        fields: Any = None
        tag: Any = None
        scratch = _ReferredTexts(max(allowance.most - allowance.taken, 0))
        notes, of = self._notes, self._places.of
        small = len(raw) <= codec.UNCOUNTED and b"$blob" not in raw
        for fields in codec.unpack_uncounted(raw) if small else codec.unpack(raw, scratch):
            scratch.taken, tag = 0, fields[0]
            if tag in AROUND:
                fields = self._unwrapped(fields)
                tag = fields[0]
            note = notes.get(tag)
            if note is not None:
                note(fields, place)
            elif tag in of:
                of[tag].add(fields[1], place)
            place += 1
            trace.records += 1
        allowance.spend(2 * scratch.texts + RECORD * (place - first))
        if tag is not None:
            self.closed = tag == CLOSE

    def _forget(self) -> None:
        super()._forget()
        self._known = _ByNumber()

    def _note_process(self, fields: list[Any], place: int) -> None:
        self._process(as_record(fields))
        self._places.process(place)

    def _note_close(self, _: object, place: int) -> None:
        self._places.close = place  # an error's text may be long: it is read when all is noted

    def _address_of(self, above: Any, leaf: object) -> str:
        """The address of *leaf* in the scope *above*, which is counted."""
        known = isinstance(above, int)
        scope = self._known.scopes[above] if known else checked(str, above)
        address = f"{scope}/{checked(str, leaf)}"
        self._allowance.spend(RECORD + 4 * len(address))
        return address

    def _note_scope(self, fields: list[Any], place: int) -> None:
        tag, number, parent, leaf, *_ = fields
        address = self._address_of(parent, leaf)
        self._places.of[tag].add(number, place)
        address = self._known.scopes[number] = address if parent != "" else leaf
        self._places.scope(address, place)

    def _note_start(self, fields: list[Any], place: int) -> None:
        tag, number, scope, leaf, *_ = fields
        self._places.of[tag].add(number, place)
        self._known.calls[number] = self._began(self._places.calls, scope, leaf, place)

    def _began(self, entries: Entries, scope: object, leaf: object, place: int) -> int:
        address = self._address_of(scope, leaf)
        if self._trace.failures and address in entries.now:
            self._trace.failures.begun_again(address)
        entry = entries.begin(address, place)
        entries.speak(entry, place, self._positions)
        self._positions += 1
        return entry

    def _spoken_of(self, reference: Any, place: int) -> int:
        """The call of *reference*; one that is spoken of without having started begins here."""
        if isinstance(reference, int):
            return self._known.calls[reference]
        calls, address = self._places.calls, checked(str, reference)
        entry = calls.now.get(address)
        if entry is None:
            self._allowance.spend(RECORD + 4 * len(address))
            entry = calls.begin(address, place)
        return entry

    def _note_attempt(self, fields: list[Any], place: int) -> None:
        self._places.calls.speak(self._spoken_of(fields[1], place), place, 0)

    def _note_chunks(self, fields: list[Any], place: int) -> None:
        self._places.calls.speak(self._spoken_of(fields[1], place), place, self.deliveries)
        self.deliveries += 1

    def _note_end(self, fields: list[Any], place: int) -> None:
        entry = self._spoken_of(fields[1], place)
        self._places.calls.speak(entry, place, self._ends)
        self._places.calls.end(entry, place)
        self._ends += 1

    def _note_delivery(self, fields: list[Any], place: int) -> None:
        tool = self._tool_of(fields[1])
        if tool is not None:
            self._places.tools.speak(tool, place, self.deliveries)
        else:
            self._places.calls.speak(self._spoken_of(fields[1], place), place, self.deliveries)
        self.deliveries += 1

    def _tool_of(self, reference: Any) -> int | None:
        known = isinstance(reference, int)
        return (self._known.tools if known else self._places.tools.now).get(reference)

    def _note_tool(self, fields: list[Any], place: int) -> None:
        _, number, scope, leaf, *_ = fields
        entry = self._began(self._places.tools, scope, leaf, place)
        self._known.tools[checked(int, number)] = entry

    def _note_result(self, fields: list[Any], place: int) -> None:
        tool = self._tool_of(fields[1])
        if tool is None:
            raise ValueError(f"a result is that of no tool call: {fields[1]!r}")
        self._places.tools.speak(tool, place, self._ends)
        self._ends += 1

    def _note_observation(self, _: object, place: int) -> None:
        self._places.observations.append(place)
        self._places.seen.append(self.deliveries)
        self.deliveries += 1
