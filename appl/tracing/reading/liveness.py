"""The first pass over a run: which record uses each number, and speaks of each call, for the last
time.

Invariant: what is kept is a few bytes for each record, and the addresses of scopes and calls.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from appl.tracing.format import codec, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance, of_file
from appl.tracing.format.record import ANSWERED, checked
from appl.tracing.reading.trace import Builder, Trace

_AHEAD = 4096  # numbers that a process may have given before the records were written
_RECENT = 8


class Entries:
    """Calls, or tool calls, by the order in which they began: the record that speaks of each for
    the last time. ``again`` marks those that were begun again later.
    """

    def __init__(self) -> None:
        self.last = array("q")
        self.again = bytearray()
        self._at: dict[str, int] = {}

    def begin(self, address: str) -> int:
        before = self._at.get(address)
        if before is not None:
            self.again[before] = 1
        index = self._at[address] = len(self.last)
        self.last.append(-1)
        self.again.append(0)
        return index

    def at(self, address: str) -> int | None:
        return self._at.get(address)

    def close(self) -> None:
        """None begins any more."""
        self._at = {}


class Liveness:
    """The result of the first pass: the last record that uses each number of a process.

    ``tool_deliveries`` are records of deliveries of tools' results. ``kinds`` says whether there
    are calls of tools, observations and warnings. ``quoted`` are the calls, by their order, whose
    answers are said again in a prompt.
    """

    def __init__(self) -> None:
        self.calls, self.tools, self.tool_deliveries = Entries(), Entries(), set[int]()
        self.quoted = bytearray()
        self.kinds = set[table.Kind]()
        self._of = [array("q")]
        self._since = 0

    def begin(self, record: int) -> None:
        """A process begins to write, which counts anew."""
        self._of.append(array("q"))
        self._since = record

    def define(self, number: object, record: int) -> None:
        """Note that *record* defines *number*; one that no process would give is kept for good."""
        last, most = self._of[-1], 2 * (record - self._since) + _AHEAD
        if type(number) is int and 0 <= number < most:
            if number >= len(last):
                last.extend([-1] * (number + 1 - len(last)))
            last[number] = record

    def quote(self, call: int) -> None:
        """The answer of the *call*, by its order, is said again."""
        self.quoted.extend(bytes(max(0, call + 1 - len(self.quoted))))
        self.quoted[call] = 1

    def use(self, number: object, record: int) -> None:
        """Note that *record* uses *number*."""
        last = self._of[-1]
        if type(number) is int and 0 <= number < len(last):
            last[number] = record

    def is_last_use(self, process: int, number: object, record: int) -> bool:
        """True if nothing after *record* uses *number*."""
        last = self._of[process]
        return type(number) is int and 0 <= number < len(last) and -1 < last[number] <= record


class ReferencedTexts(DecodingAllowance):
    """Notes which long texts a record refers to, as it is made."""

    __slots__ = ("texts",)

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.texts: list[Any] = []

    def map_hook(self, made: dict[object, object]) -> dict[object, object]:
        text = made.get("$blob")
        if isinstance(text, list) and text:
            self.texts.append(text[0])
        return super().map_hook(made)


class Pass(Builder):
    """Reads the records of some kinds; what one is made of is let go of with it."""

    wants: frozenset[table.Kind]
    """The kinds of records that are read."""
    needs: frozenset[table.Kind] = frozenset()
    """The kinds without which there is nothing to read."""

    def __init__(
        self, trace: Trace, allowance: DecodingAllowance | None, liveness: Liveness
    ) -> None:
        self._liveness, self._processes = liveness, 0
        super().__init__(trace, allowance)
        self._scratch = ReferencedTexts(of_file(0))
        self._handlers = {tag: self._handlers[tag] for tag in table.tags(self.wants)}
        self._count_kept()

    def _take_in(self, raw: bytes) -> None:
        scratch = self._scratch
        for fields in codec.unpack(raw, scratch):
            self._record(fields)
            for text in scratch.texts:
                self._text_used(text)
            scratch.texts.clear()
            scratch.taken = 0
            self._trace.records += 1

    def _process(self, process: table.ProcessRecord) -> None:
        super()._process(process)
        self._processes += 1

    def _text_used(self, number: object) -> None:
        if number in self._numbered.pieces and self._is_last_use(number):
            del self._numbered.pieces[number]

    def _is_last_use(self, number: object) -> bool:
        """True if nothing after this record uses *number*."""
        return self._liveness.is_last_use(self._processes, number, self._trace.records)


class LivenessPass(Pass):
    """The first pass: what is used when, and what is true of the whole run."""

    wants = table.EVERY - {table.FileRecord, table.LineRecord, table.ParametersRecord}

    def _process(self, process: table.ProcessRecord) -> None:
        self._liveness.begin(self._trace.records)
        super()._process(process)

    def _define(self, number: object) -> None:
        self._liveness.define(number, self._trace.records)

    def _note_use(self, *numbers: object) -> None:
        for number in numbers:
            self._liveness.use(number, self._trace.records)

    def _text_used(self, number: object) -> None:
        self._note_use(number)

    def _piece(self, piece: table.PieceRecord) -> None:
        """Only the last ones are kept: the error that ended the run may be long."""
        if piece.place == 0:
            self._define(piece.id)
            while len(self._numbered.pieces) > _RECENT:
                del self._numbered.pieces[next(iter(self._numbered.pieces))]
        super()._piece(piece)

    def _long(self, value: object) -> object:
        return super()._long(value) if not isinstance(value, dict) or self._has(value) else ""

    def _has(self, value: dict[str, Any]) -> bool:
        return value["$blob"][0] in self._numbered.pieces

    def _scope(self, scope: table.ScopeRecord) -> None:
        above, parent, leaf = self._scope_of(scope.parent), scope.parent, scope.leaf
        self._numbered.scopes[scope.id] = self._counted(f"{above}/{leaf}" if parent != "" else leaf)
        self._note_use(parent)
        self._define(scope.id)

    def _counted(self, address: str) -> str:
        self._allowance.spend(RECORD + 4 * len(address))
        return address

    def _medium(self, medium: table.MediumRecord) -> None:
        self._define(medium.id)

    def _message(self, message: table.MessageRecord) -> None:
        self._define(message.id)
        self._note_use(*parts(message.more))
        content = message.content
        if type(content) is int and message.role == "assistant":
            self._note_use(content)
            self._liveness.quote(self._numbered.calls[content])  # type: ignore[arg-type]

    def _longer(self, longer: table.LongerRecord) -> None:
        self._define(longer.id)
        self._note_use(longer.message, *parts(longer.more))

    def _prompt(self, prompt: table.PromptRecord) -> None:
        self._define(prompt.id)
        self._note_use(prompt.parent, prompt.message, *origins(prompt.origins))

    def _start(self, start: table.StartRecord) -> None:
        self._note_use(start.scope, start.prompt, *start.edges)
        self._define(start.id)
        address = f"{self._scope_of(start.scope)}/{start.leaf}"
        index = self._liveness.calls.begin(self._counted(address))
        self._numbered.calls[start.id] = index  # type: ignore[assignment]
        self._spoken(index)

    def _spoken(self, index: Any) -> None:
        self._liveness.calls.last[index] = self._trace.records

    def _call(self, reference: object) -> Any:
        """The index of a call, as ``_start`` keeps it."""
        self._note_use(reference)
        if isinstance(reference, int):
            return self._numbered.calls[reference]
        calls, address = self._liveness.calls, checked(str, reference)
        index = calls.at(address)
        return calls.begin(self._counted(address)) if index is None else index

    def _dispatch(self, dispatch: table.DispatchRecord) -> None:
        self._spoken(self._call(dispatch.call))

    def _retry(self, retry: table.RetryRecord) -> None:
        self._spoken(self._call(retry.call))

    def _chunks(self, delivered: table.ChunksRecord) -> None:
        self._spoken(self._call(delivered.call))

    def _end(self, end: table.EndRecord) -> None:
        self._spoken(self._call(end.call))

    def _delivery(self, delivery: table.DeliveryRecord) -> None:
        if self._use(delivery.call) is None:
            self._spoken(self._call(delivery.call))
        else:
            self._liveness.tool_deliveries.add(self._trace.records)

    def _use(self, reference: Any) -> Any:
        """The index of a tool's call, as ``_tool`` keeps it."""
        known = isinstance(reference, int)
        return self._numbered.used.get(reference) if known else self._liveness.tools.at(reference)

    def _tool(self, tool: table.ToolStartRecord) -> None:
        self._liveness.kinds.add(table.ToolStartRecord)
        self._note_use(tool.scope)
        tools = self._liveness.tools
        index = tools.begin(self._counted(f"{self._scope_of(tool.scope)}/{tool.leaf}"))
        self._numbered.used[tool.id] = index  # type: ignore[assignment]
        tools.last[index] = self._trace.records

    def _result(self, result: table.ToolEndRecord) -> None:
        index = self._use(result.call)
        if index is None:
            raise ValueError(f"a result is that of no tool call: {result.call!r}")
        self._liveness.tools.last[index] = self._trace.records
        if result.status == ANSWERED:
            self._note_use(result.value)

    def _observation(self, seen: table.ObservationRecord) -> None:
        self._liveness.kinds.add(table.ObservationRecord)

    def _warning(self, warning: table.WarningRecord) -> None:
        self._liveness.kinds.add(table.WarningRecord)


def bare(scope: table.ScopeRecord) -> table.ScopeRecord:
    """*scope* without its metadata, which most readers do not need."""
    return scope if scope.metadata is None else scope._replace(metadata=None)


def parts(more: Any) -> Iterator[object]:
    """The numbers of images and sounds, and of origins, in what is told of a message besides."""
    for _, medium in (more or {}).get("media", ()):
        yield medium
    yield from origins((more or {}).get("from"))


def origins(spans: object) -> Sequence[Any]:
    return spans[1::2] if isinstance(spans, list) else ()
