"""The lines of a tape as a trace.

Invariant: any file gives a trace or a ``TraceError`` that names the line; reading takes memory in
proportion to the file, makes only plain data and the values of appl, and runs nothing.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from appl.errors import NotATrace, TraceCorrupt, TraceError, TraceTooNew
from appl.prompt import digest_of
from appl.prompt.message import LONG
from appl.tracing.format import codec, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance, of_file
from appl.tracing.format.chunks import KINDS, Texts, texts_of
from appl.tracing.format.record import ANSWERED, checked, optional, response_from
from appl.tracing.format.store import regular_file
from appl.tracing.reading.reader import Reader, StoredCall
from appl.tracing.reading.stored_messages import check_message, rope_before
from appl.tracing.reading.stored_records import BAD
from appl.tracing.reading.trace import Scope, Trace
from appl.tracing.tape.lines import (
    BLOB,
    FORMAT,
    MAX_LINE,
    Line,
    canonical_text,
    loaded,
    record_of,
)

if TYPE_CHECKING:
    from appl.tracing.reading.further_records import StoredToolUse

_RECORD = 2 * RECORD  # bytes of what is made of a line, besides its texts


def read(path: str | os.PathLike[str], *, limit: int = 0) -> Trace:
    """The trace that the tape at *path* holds; it replays as the one that was written.

    *limit* is how many bytes of memory it may take, where that is not to be in proportion to the
    file. Raises ``TraceError``.
    """
    with regular_file(Path(path)) as file:
        return read_from(file, Path(path), limit)


def read_from(file: BinaryIO, path: Path, limit: int = 0) -> Trace:
    """As ``read``, of an open *file*."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    reader = _TapeReader(Trace(path), DecodingAllowance(limit or of_file(size)))
    try:
        return reader.read(file)
    except TraceError:
        raise
    except BAD as error:
        raise TraceCorrupt(f"{path}, line {reader.at}: {_said(error)}") from None


def _said(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r:.80}"
    return f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"


class _HeldRecords(list[Any]):
    """Records that are held in memory; their places are their indexes."""

    def fields(self, place: int, allowance: DecodingAllowance) -> Any:
        """The record at *place*."""
        return self[place]

    def name(self, place: int) -> str:
        """The record at *place* for an error."""
        return f"record {place}"


class _TapeReader(Reader):
    """Reads the records of a tape: names stand for numbers, calls go by their addresses, and
    digests are computed where they are not given. ``at`` is the line that is read.
    """

    def __init__(self, trace: Trace, allowance: DecodingAllowance) -> None:
        self._records = _HeldRecords()
        super().__init__(trace, self._records, allowance)
        self.stored.edited = True
        self._names: dict[str, int] = {}
        self._said = self.at = 0

    def read(self, file: BinaryIO) -> Trace:
        """The trace of *file*. Raises ``TraceError``, ``ValueError`` and others."""
        lines, trace = self._lines(file), self.trace
        _, head = next(lines, (0, dict[str, Any]()))
        if head.get("tape") != "appl":
            raise NotATrace(
                f'{trace.path} is no tape: it does not begin with {{"tape": "appl", …}}'
            )
        number = checked(int, head["format"])
        if number > FORMAT:
            raise TraceTooNew(
                f"{trace.path} is a tape of format {number}; this version of appl reads format "
                f"{FORMAT}"
            )
        if number < FORMAT:
            raise TraceCorrupt(
                f"{trace.path} is a tape of format {number}, which no release has written; record "
                "it again"
            )
        for self.at, line, below in _with_texts(lines):
            self._take(line, below)
        self.at = 0
        trace.moments, trace.calls = self.deliveries, list(trace.by_address.values())
        trace.state = "finished" if self.closed else "crashed"
        addresses = [*trace.by_address, *trace.tools]
        trace.scopes = trace.scopes or list(_scopes_of(addresses, self.allowance))
        return trace

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, Line]]:
        number = 0
        while line := file.readline(MAX_LINE + 2):
            self.at = number = number + 1
            if line.strip():
                yield number, loaded(line, self.allowance)

    def _take(self, line: Line, below: dict[object, list[str]]) -> None:
        """Take in the record of *line*, whose long texts stand *below*."""
        self.allowance.spend(_RECORD)
        self.masks = tuple(checked(str, name) for name in line.pop("masked", ()))
        self.incarnation = checked(int, line.pop("incarnation", 0))
        record = self._whole(_with_long(record_of(line, self._number), below))
        if below:
            raise ValueError("no text of the record above goes on here")
        self.place = len(self._records)
        self._records.append(record)
        self.read_record(record)
        # Here, so that an error names the line.
        check_message(self.process, self.place + 1, record)
        self._check(record)
        self.closed = isinstance(record, table.CloseRecord)
        self.trace.records += 1
        self.trace.masked += bool(self.masks)

    def _number(self, name: Any, defined: bool = False) -> int:
        """The number of what *name* stands for, which may be *defined* here."""
        return self._names.setdefault(name, len(self._names) + 1) if defined else self._names[name]

    def _whole(self, record: Any) -> Any:
        """The *record* with what a tape leaves out, as far as it can be computed."""
        kind = type(record)
        if kind in (table.MessageRecord, table.LongerRecord):
            self._said = record.id
            more = record.more or {}
            if more.get("media"):
                media = [[at, self._number(name)] for at, name in more["media"]]
                record = record._replace(more={**more, "media": media})
        elif kind is table.PromptRecord:  # it has the name of its message, the one above
            message = record.message or self._said
            digest = None if record.digest is None else _digest(record.digest)
            record = record._replace(message=message, id=record.id or message, digest=digest)
        elif kind is table.ParametersRecord:
            record = record._replace(options=canonical_text(record.options))
        elif kind is table.StartRecord:
            record = record._replace(content=self._content(record))
        elif kind is table.ToolEndRecord and record.status == ANSWERED:
            record = record._replace(value=self._number(record.value))
        elif kind is table.EndRecord and record.lengths is not None:
            record = record._replace(lengths=self._fitted(record))
        return record

    def _content(self, start: table.StartRecord) -> bytes:
        content: Any = start.content
        if content is not None:
            return _digest(content)
        process, prompt = self.process, start.prompt
        prompt_digest = process.prompt(prompt).digest if prompt is not None else b""
        return digest_of(prompt_digest, *process.parameters[start.parameters][:2])

    def _fitted(self, end: table.EndRecord) -> list[object]:
        """The lengths of chunks, of texts that may have been edited since."""
        call = self._by_address.get(checked(str, end.call))
        whole: Texts = {}
        if end.texts is not None:
            texts: Any = end.texts
            whole = {(sample, kind): checked(str, text) for sample, kind, text in texts}
        elif end.status == ANSWERED:
            whole = texts_of(response_from(end.value), call.sample if call else 0)
        return _fitted(checked(list, end.lengths), whole)

    def _check(self, record: Any) -> None:
        super()._check(record)
        if isinstance(record, table.PromptRecord) and record.digest is None:
            rope = rope_before(self.process, self.place, record.message)
            if rope is not None and rope[1].size > LONG:
                raise ValueError("a long message that goes on needs its digest")

    # -- what is otherwise than in a trace

    def _process(self, process: table.ProcessRecord) -> None:
        """Names are those of the whole tape, whichever process wrote them."""
        state_before = self.process, self._calls, self.uses, self.incarnation
        super()._process(process)
        self.process, self._calls, self.uses, self.incarnation = state_before

    def _by_clock_of(self, call: object, at: int) -> int:
        return at

    def file_of(self, number: Any) -> str | None:
        return optional(str, number)

    def error_of(self, data: Any) -> BaseException:
        checked(list, data[3])
        return super().error_of(data)

    def _header(self, header: table.HeaderRecord) -> None:
        self.trace.header |= checked(dict, codec.revive(header.facts, self.process.long))

    def _add(self, call: StoredCall) -> None:
        if call.address in self._by_address:
            raise ValueError(f"{call.address:.200} stands here twice")
        super()._add(call)

    def call_of(self, reference: object) -> StoredCall:
        return self._by_address[checked(str, reference)]

    def _end(self, end: table.EndRecord) -> None:
        if end.call not in self._by_address:  # it ended before it was asked
            super().call_of(end.call)
        super()._end(end)

    def add_tool(self, used: StoredToolUse) -> None:
        if used.address in self.tools:
            scope, _, leaf = used.address.rpartition("/")
            raise ValueError(f"{scope:.200}/{leaf:.200} stands here twice")
        super().add_tool(used)


def _with_long(value: Any, below: dict[object, list[str]]) -> Any:
    """The *value* with its long texts, which stand *below* its line and are taken from there."""
    if isinstance(value, dict):
        if BLOB not in value:
            return {key: _with_long(item, below) for key, item in value.items()}
        if isinstance(value[BLOB], str):
            return base64.b64decode(value[BLOB], validate=True)
        return "".join(below.pop(value[BLOB]))
    if isinstance(value, list):
        return [_with_long(item, below) for item in value]
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)._make(_with_long(item, below) for item in value)
    return value


def _with_texts(
    lines: Iterator[tuple[int, Line]],
) -> Iterator[tuple[int, Line, dict[object, list[str]]]]:
    """Each of *lines* that holds a record, with the texts that stand below it, by their numbers."""
    head: tuple[int, Line, dict[object, list[str]]] | None = None
    for number, line in lines:
        if head is not None and "text" in line and line.keys() <= {"text", "of"}:
            head[2].setdefault(line.get("of", 0), []).append(checked(str, line["text"]))
            continue
        if head is not None:
            yield head
        head = number, line, {}
    if head is not None:
        yield head


def _digest(text: object) -> bytes:
    kind, _, digits = checked(str, text).partition(":")
    digest = bytes.fromhex(digits)
    if kind != "b2" or len(digest) != 16:
        raise ValueError(f"{text!r:.80} is no digest")
    return digest


def _fitted(cuts: list[Any], whole: Texts) -> list[object]:
    """*cuts*, of texts that may have been edited since: the last of each takes what is left."""
    every = [(0, 0, cut) if type(cut) is int else tuple(cut) for cut in cuts]
    remaining = {key: len(text) for key, text in whole.items()}
    last = {(sample, kind): at for at, (sample, kind, _) in enumerate(every)}
    fitted: list[object] = []
    for at, (sample, kind, length) in enumerate(every):
        if checked(int, length) < 1 or kind not in range(len(KINDS)):
            raise ValueError(f"{[sample, kind, length]!r:.80} is no chunk")
        key = checked(int, sample), kind
        length = remaining[key] if last[key] == at else min(length, remaining[key])
        remaining[key] -= length
        if length:
            fitted.append(length if key == (0, 0) else [sample, kind, length])
    return fitted if not any(remaining.values()) else []


def _scopes_of(addresses: list[str], allowance: DecodingAllowance) -> Iterator[Scope]:
    """The scopes that *addresses* lie in, as far as addresses tell."""
    addresses_read: set[str] = set()
    for address in addresses:
        missing = []
        above = address.rpartition("/")[0]
        while above and above not in addresses_read:
            allowance.spend(RECORD + 4 * len(above))
            addresses_read.add(above)
            missing.append(above)
            above = above.rpartition("/")[0]
        for path in reversed(missing):
            parent, _, leaf = path.rpartition("/")
            yield Scope(path, parent, leaf.rpartition(".")[0] or leaf, None, None, 0)
