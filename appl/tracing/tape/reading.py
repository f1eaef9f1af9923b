"""The lines of a tape as a trace.

Invariant: any file gives a trace or a ``TraceError`` that names the line; reading takes memory in
proportion to the file, makes only plain data and the values of appl, and runs nothing.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from appl.errors import NotATrace, TraceCorrupt, TraceError, TraceTooNew
from appl.prompt import Messages, digest_of
from appl.prompt.message import LONG
from appl.tracing.format import codec, table
from appl.tracing.format.allowance import RECORD, DecodingAllowance, of_file
from appl.tracing.format.chunks import KINDS, Texts
from appl.tracing.format.record import ANSWERED, checked, optional
from appl.tracing.format.store import regular_file
from appl.tracing.reading.trace import BAD, Builder, RecordedCall, Scope, Trace
from appl.tracing.tape import first_format
from appl.tracing.tape.lines import (
    BLOB,
    FORMAT,
    MAX_LINE,
    Line,
    canonical_text,
    loaded,
    record_of,
)

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
    builder = _TapeBuilder(Trace(path), DecodingAllowance(limit or of_file(size)))
    try:
        return builder.read(file)
    except TraceError:
        raise
    except BAD as error:
        raise TraceCorrupt(f"{path}, line {builder.at}: {_said(error)}") from None


def _said(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r:.80}"
    return f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"


class _TapeBuilder(Builder):
    """Puts the records of a tape together: names stand for numbers, calls go by their addresses,
    and digests are computed where they are not given; ``at`` is the line that is read.
    """

    def __init__(self, trace: Trace, allowance: DecodingAllowance) -> None:
        super().__init__(trace, allowance)
        self._names: dict[str, int] = {}
        self._below: dict[object, list[str]] = {}
        self._incarnation = self._message_above = self.at = 0

    def read(self, file: BinaryIO) -> Trace:
        """The trace of *file*. Raises ``TraceError``, ``ValueError`` and others."""
        lines, trace = self._lines(file), self._trace
        if self._format(next(lines, None)) == 1:
            lines = first_format.converted(lines)
        for self.at, line, self._below in _with_texts(lines):
            self._take(line)
        self.at = 0
        trace.moments, trace.calls = self.deliveries, list(trace.by_address.values())
        trace.state = "finished" if self.closed else "crashed"
        addresses = [*trace.by_address, *trace.tools]
        trace.scopes = trace.scopes or list(_scopes_of(addresses, self._allowance))
        return trace

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, Line]]:
        number = 0
        while line := file.readline(MAX_LINE + 2):
            self.at = number = number + 1
            if line.strip():
                yield number, loaded(line, self._allowance)

    def _format(self, first: tuple[int, Line] | None) -> int:
        path, line = self._trace.path, first[1] if first else {}
        if line.get("tape") != "appl":
            raise NotATrace(f'{path} is no tape: it does not begin with {{"tape": "appl", …}}')
        found = checked(int, line["format"])
        if found > FORMAT:
            raise TraceTooNew(
                f"{path} is a tape of format {found}; this version of appl reads up to {FORMAT}"
            )
        return found

    def _take(self, line: Line) -> None:
        """Take in the record of *line*."""
        self._allowance.spend(_RECORD)
        self._masks = tuple(checked(str, name) for name in line.pop("masked", ()))
        self._incarnation = checked(int, line.pop("incarnation", 0))
        record = record_of(line, self._number)
        self._handlers[record.tag](record)
        if self._below:
            raise ValueError("no text of the record above goes on here")
        self.closed = isinstance(record, table.CloseRecord)
        self._trace.records += 1
        self._trace.masked += bool(self._masks)

    def _number(self, name: Any, defined: bool = False) -> int:
        """The number of what *name* stands for, which may be *defined* here."""
        return self._names.setdefault(name, len(self._names) + 1) if defined else self._names[name]

    # -- what is otherwise than in a trace

    @property
    def _incarnations(self) -> int:
        return self._incarnation

    def _by_clock_of(self, call: object, at: int) -> int:
        return at

    def _file(self, number: Any) -> str | None:
        return optional(str, number)

    def _long(self, value: object) -> Any:
        """The text that *value* is, or that stands below its line; bytes are base64."""
        if not isinstance(value, dict):
            return value
        if isinstance(value[BLOB], str):
            return base64.b64decode(value[BLOB], validate=True)
        return "".join(self._below.pop(value[BLOB]))

    def _error(self, data: Any) -> BaseException:
        checked(list, data[3])
        return super()._error(data)

    def _header(self, header: table.HeaderRecord) -> None:
        self._trace.header |= checked(dict, codec.revive(header.facts, self._long))

    def _made(self, role: Any, text: str, more: Any) -> Any:
        media = [[at, self._number(name)] for at, name in (more or {}).get("media", ())]
        return super()._made(role, text, {**more, "media": media} if media else more)

    def _prompt(self, prompt: table.PromptRecord) -> None:
        """A prompt has the name of its message, which is the one above, if none is given."""
        message = prompt.message or self._message_above
        rope = self._numbered.ropes.get(message)
        if prompt.digest is None and rope is not None and rope[1].size > LONG:
            raise ValueError("a long message that goes on needs its digest")
        super()._prompt(prompt._replace(message=message, id=prompt.id or message))

    def _message(self, message: table.MessageRecord) -> None:
        super()._message(message)
        self._message_above = message.id

    def _longer(self, longer: table.LongerRecord) -> None:
        super()._longer(longer)
        self._message_above = longer.id

    def _check_digest(self, link: Messages, digest: Any, known: bool) -> None:
        if digest is not None:
            link.has_digest(_digest(digest))

    def _params(self, params: table.ParametersRecord) -> None:
        model, options = checked(str, params.model), canonical_text(params.options)
        self._numbered.parameters[params.id] = model, options, self._masks

    def _start(self, start: table.StartRecord) -> None:
        content: Any = start.content
        if content is None:
            prompt, parameters = start.prompt, self._numbered.parameters[start.parameters]
            said = self._numbered.nodes[prompt][0].digest if prompt is not None else b""
            content = digest_of(said, *parameters[:2])
        else:
            content = _digest(content)
        super()._start(start._replace(content=content))

    def _add(self, call: RecordedCall) -> None:
        if call.address in self._trace.by_address:
            raise ValueError(f"{call.address:.200} stands here twice")
        super()._add(call)

    def _call(self, reference: object) -> RecordedCall:
        return self._trace.by_address[checked(str, reference)]

    def _end(self, end: table.EndRecord) -> None:
        if end.call not in self._trace.by_address:  # it ended before it was asked
            self._add(RecordedCall(checked(str, end.call)))
        super()._end(end)

    def _cuts(self, call: RecordedCall, lengths: list[Any]) -> list[object]:
        return _fitted(lengths, call._whole())

    def _tool(self, tool: table.ToolStartRecord) -> None:
        if f"{tool.scope}/{tool.leaf}" in self._trace.tools:
            raise ValueError(f"{tool.scope:.200}/{tool.leaf:.200} stands here twice")
        super()._tool(tool)

    def _result(self, result: table.ToolEndRecord) -> None:
        if result.status == ANSWERED:
            result = result._replace(value=self._number(result.value))
        super()._result(result)


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
    found = bytes.fromhex(digits)
    if kind != "b2" or len(found) != 16:
        raise ValueError(f"{text!r:.80} is no digest")
    return found


def _fitted(cuts: list[Any], whole: Texts) -> list[object]:
    """*cuts*, of texts that may have been edited since: the last of each takes what is left."""
    every = [(0, 0, cut) if type(cut) is int else tuple(cut) for cut in cuts]
    left = {key: len(text) for key, text in whole.items()}
    last = {(sample, kind): at for at, (sample, kind, _) in enumerate(every)}
    found: list[object] = []
    for at, (sample, kind, length) in enumerate(every):
        if checked(int, length) < 1 or kind not in range(len(KINDS)):
            raise ValueError(f"{[sample, kind, length]!r:.80} is no chunk")
        key = checked(int, sample), kind
        length = left[key] if last[key] == at else min(length, left[key])
        left[key] -= length
        if length:
            found.append(length if key == (0, 0) else (sample, kind, length))
    return found if not any(left.values()) else []


def _scopes_of(addresses: list[str], allowance: DecodingAllowance) -> Iterator[Scope]:
    """The scopes that *addresses* lie in, as far as addresses tell."""
    known: set[str] = set()
    for address in addresses:
        missing = []
        above = address.rpartition("/")[0]
        while above and above not in known:
            allowance.spend(RECORD + 4 * len(above))
            known.add(above)
            missing.append(above)
            above = above.rpartition("/")[0]
        for path in reversed(missing):
            parent, _, leaf = path.rpartition("/")
            yield Scope(path, parent, leaf.rpartition(".")[0] or leaf, None, None, 0)
