"""The lines of a tape as a trace.

Invariant: any file gives a trace or a ``TraceError`` that names the line; reading takes memory in
proportion to the file, makes only plain data and the values of appl, and runs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from appl.backend import TokenLogprob
from appl.errors import NotATrace, TraceCorrupt, TraceError, TraceTooNew
from appl.prompt import ToolCall
from appl.tracing.format.allowance import DecodingAllowance, of_file
from appl.tracing.format.chunks import KINDS
from appl.tracing.format.record import checked, optional
from appl.tracing.format.store import regular_file
from appl.tracing.reading.trace import Incarnation, Scope, Trace
from appl.tracing.tape.decode import Assembler, error_from
from appl.tracing.tape.lines import FORMAT, MAX_LINE, Record, loaded, revived
from appl.tracing.tape.raw_records import RawRecords, TapeCall, TapeMessage, TapeSample, TapeText

_ASKED = 2000  # bytes of a call or a tool, besides its texts
_BAD = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
_OUTCOMES = ("failed", "cancelled")


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
    allowance = DecodingAllowance(limit or of_file(size))
    trace, number = Trace(path), 0
    reader, assembler = _Reader(trace, allowance), None
    try:
        while line := file.readline(MAX_LINE + 2):
            number += 1
            if line.strip():
                reader.take(loaded(line, allowance), number)
        assembler = Assembler(trace, reader.lines(), allowance)
        return assembler.trace()
    except TraceError:
        raise
    except _BAD as error:
        at = assembler.at if assembler is not None else number
        raise TraceCorrupt(f"{path}, line {at}: {_said(error)}") from None


def _said(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r:.80}"
    return f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"


class _Reader:
    """Takes the records in their order."""

    def __init__(self, trace: Trace, allowance: DecodingAllowance) -> None:
        self._trace, self._allowance = trace, allowance
        self._lines = RawRecords()
        self._open: TapeCall | None = None
        self._calls: list[ToolCall] | None = None
        self._text: TapeText | None = None
        self._began = False
        self._handlers: dict[str, Callable[[Record], None]] = {
            "tape": self._tape, "header": self._header, "call": self._call,
            "message": self._message, "calls": self._called, "answer": self._answer,
            "reasoning": self._reasoning, "tokens": self._tokens, "usage": self._usage,
            "begun": self._begun, "error": self._error, "tool": self._tool, "saw": self._saw,
            "medium": self._medium, "then": self._then, "ended": self._then,
            "closed": self._closed, "began": self._process, "scope": self._scope,
            "went": self._how, "warning": self._warning,
        }  # fmt: skip

    def take(self, record: Record, line: int) -> None:
        """Take the record of the next line. Raises ``TraceError``, ``ValueError`` and others."""
        self._line = line
        found = [key for key in record if key in self._handlers]
        if not self._began and found != ["tape"]:
            raise NotATrace(f'{self._trace.path} is no tape: it does not begin with {{"tape": …}}')
        self._trace.records += 1
        if not found and set(record) == {"text"} and self._text is not None:
            self._text.pieces.append(checked(str, record["text"]))
            return
        if len(found) != 1:
            known = ", ".join(self._handlers)
            raise ValueError(f"a line holds one of {known}, found {', '.join(record) or 'nothing'}")
        self._text = None
        if found[0] not in _INSIDE:
            self._open = self._calls = None
        self._handlers[found[0]](record)

    def lines(self) -> RawRecords:
        """All that was taken. Raises ``NotATrace`` for an empty file."""
        if not self._began:
            raise NotATrace(f"{self._trace.path} is empty")
        return self._lines

    # -- what each line may hold

    def _tape(self, record: Record) -> None:
        if self._began or record["tape"] != "appl":
            raise NotATrace(f"{self._trace.path} is no tape of appl")
        if checked(int, record["format"]) > FORMAT:
            raise TraceTooNew(
                f"{self._trace.path} is a tape of format {record['format']}; this version of appl "
                f"reads up to {FORMAT}"
            )
        self._began = True

    def _header(self, record: Record) -> None:
        self._trace.header[checked(str, record["header"])] = revived(record["value"])

    def _call(self, record: Record) -> None:
        self._opened(record, self._lines.asked, checked(str, record["call"]))

    def _tool(self, record: Record) -> None:
        self._opened(record, self._lines.used, checked(str, record["tool"]))

    def _opened(self, record: Record, among: dict[str, TapeCall], address: str) -> None:
        if address in among:
            raise ValueError(f"{address:.200} stands here twice")
        self._allowance.spend(_ASKED)
        self._open = among[address] = TapeCall(record, self._line)

    def _inside(self) -> TapeCall:
        if self._open is None:
            raise ValueError("this line belongs below one with a call or a tool")
        return self._open

    def _textual(self, record: Record) -> TapeText:
        self._text = TapeText(checked(str, record["text"]))
        return self._text

    def _message(self, record: Record) -> None:
        said = TapeMessage(record, self._textual(record))
        self._calls = said.calls
        self._inside().said.append(said)

    def _called(self, record: Record) -> None:
        if self._calls is None:
            raise ValueError("a tool is called by a message or an answer, which stands before")
        self._calls.append(
            ToolCall(
                checked(str, record["id"]),
                checked(str, record["calls"]),
                checked(str, record["arguments"]),
            )
        )

    def _answer(self, record: Record) -> None:
        sample = TapeSample(checked(str, record["answer"]), self._textual(record))
        self._calls = sample.calls
        self._inside().samples.append(sample)

    def _sample(self) -> TapeSample:
        samples = self._inside().samples
        if not samples:
            raise ValueError("this line belongs below one with an answer")
        return samples[-1]

    def _reasoning(self, record: Record) -> None:
        self._sample().reasoning = self._textual(record)

    def _tokens(self, record: Record) -> None:
        self._sample().tokens = tuple(
            TokenLogprob(
                checked(str, token),
                checked(float, value),
                tuple((checked(str, text), checked(float, logprob)) for text, logprob in top),
            )
            for token, value, top in revived(record["tokens"])
        )

    def _usage(self, record: Record) -> None:
        self._inside().usage = record

    def _begun(self, record: Record) -> None:
        sample, kind = record["begun"]
        if kind not in range(len(KINDS)):
            raise ValueError(f"an answer has no part {kind!r:.80}")
        self._inside().begun.append(((checked(int, sample), kind), self._textual(record)))

    def _error(self, record: Record) -> None:
        if record["outcome"] not in _OUTCOMES:
            raise ValueError(f"unknown outcome {record['outcome']!r:.80}")
        self._inside().error = record

    def _saw(self, record: Record) -> None:
        place = checked(str, record["saw"]), checked(int, record["ordinal"])
        self._lines.seen[*place, checked(str, record["kind"])] = record

    def _medium(self, record: Record) -> None:
        self._lines.media[checked(str, record["medium"])] = record

    def _then(self, record: Record) -> None:
        self._lines.order.append((self._line, record))

    def _closed(self, record: Record) -> None:
        self._trace.state, self._trace.reason = "finished", checked(str, record["closed"])
        if "because" in record:
            self._trace.error = error_from(record["because"])

    def _process(self, record: Record) -> None:
        numbers = (checked(int, record[name]) for name in ("wall", "monotonic"))
        self._trace.incarnations.append(
            Incarnation(
                checked(int, record["began"]),
                checked(int, record["pid"]),
                checked(str, record["host"]),
                checked(str, record["reason"]),
                *numbers,
            )
        )

    def _scope(self, record: Record) -> None:
        address, parent, name = (checked(str, record[key]) for key in ("scope", "parent", "name"))
        self._lines.scopes.append(
            Scope(
                address,
                parent,
                name,
                optional(str, record["file"]),
                optional(int, record["line"]),
                checked(int, record["at"]),
                revived(record.get("metadata")),
                checked(int, record.get("incarnation", 0)),
            )
        )

    def _how(self, record: Record) -> None:
        self._lines.went[checked(str, record["went"])] = record

    def _warning(self, record: Record) -> None:
        pair = checked(str, record["address"]), checked(str, record["warning"])
        self._trace.warnings.append(pair)


_INSIDE = frozenset(
    ["message", "calls", "answer", "reasoning", "tokens", "usage", "begun", "error"]
)
