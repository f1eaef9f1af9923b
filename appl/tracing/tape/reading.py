"""The lines of a tape as a trace.

Invariant: any file gives a trace or a ``TraceError`` that names the line; reading takes memory in
proportion to the file, makes only plain data and the values of appl, and runs nothing.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from appl.backend import Response, Sample, TokenLogprob, Usage
from appl.errors import NotATrace, TraceCorrupt, TraceError, TraceTooNew
from appl.prompt import ROLES, Audio, Image, Media, Message, Messages, Rope, ToolCall, digest_of
from appl.prompt.messages import LONG
from appl.tracing import record as records
from appl.tracing.allowance import RECORD, Allowance, of_file
from appl.tracing.chunks import KINDS, Texts
from appl.tracing.record import checked, optional
from appl.tracing.store import regular_file
from appl.tracing.tape.lines import FORMAT, MAX_LINE, Record, canonical_text, loaded, revived
from appl.tracing.tape.places import after_their_needs
from appl.tracing.tooluse import ToolUse
from appl.tracing.trace import Attempt, Call, Incarnation, Observation, Scope, Trace

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
    allowance = Allowance(limit or of_file(size))
    reader = _Reader(Trace(path), allowance)
    number = 0
    try:
        for number, record in _numbered(file, allowance):
            reader.take(record, number)
        return reader.trace()
    except TraceError:
        raise
    except _BAD as error:
        number = reader.at or number
        raise TraceCorrupt(f"{path}, line {number}: {_said(error)}") from None


def _said(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r:.80}"
    return f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"


def _numbered(file: BinaryIO, allowance: Allowance) -> Iterator[tuple[int, Record]]:
    number = 0
    while line := file.readline(MAX_LINE + 2):
        number += 1
        if line.strip():
            yield number, loaded(line, allowance)


class _Text:
    """A text that may go on in the lines below."""

    def __init__(self, first: str) -> None:
        self.pieces = [first]

    def __str__(self) -> str:
        return "".join(self.pieces)


class _Said:
    """A message as it stands in the tape, until its last line is read."""

    def __init__(self, record: Record, text: _Text) -> None:
        self.record, self.text, self.calls = record, text, list[ToolCall]()


class _Sampled:
    """A sample of an answer, until its last line is read."""

    def __init__(self, reason: str, text: _Text) -> None:
        self.reason, self.text, self.calls = reason, text, list[ToolCall]()
        self.reasoning: _Text | None = None
        self.tokens: tuple[TokenLogprob, ...] | None = None


class _Asked:
    """A call, or a tool's, with the lines that belong to it."""

    def __init__(self, record: Record, line: int) -> None:
        self.record, self.line = record, line
        self.said: list[_Said] = []
        self.samples: list[_Sampled] = []
        self.begun: list[tuple[tuple[int, int], _Text]] = []
        self.usage: Record | None = None
        self.error: Record | None = None


class _Reader:
    """Takes the records in their order, then puts them together."""

    def __init__(self, trace: Trace, allowance: Allowance) -> None:
        self._trace, self._allowance = trace, allowance
        self._asked: dict[str, _Asked] = {}
        self._used: dict[str, _Asked] = {}
        self._seen: dict[tuple[str, int, str], Record] = {}
        self._media: dict[str, Record] = {}
        self._made: dict[str, Media] = {}
        self._order: list[tuple[int, Record]] = []
        self._went: dict[str, Record] = {}
        self._scopes: list[Scope] = []
        self._own: dict[str, tuple[int, list[Messages]]] = {}
        self._options: dict[str, str] = {}
        self._open: _Asked | None = None
        self._calls: list[ToolCall] | None = None
        self._text: _Text | None = None
        self._began = False
        self.at = 0
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

    # -- line by line

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
        self._opened(record, self._asked, checked(str, record["call"]))

    def _tool(self, record: Record) -> None:
        self._opened(record, self._used, checked(str, record["tool"]))

    def _opened(self, record: Record, among: dict[str, _Asked], address: str) -> None:
        if address in among:
            raise ValueError(f"{address:.200} stands here twice")
        self._allowance.spend(_ASKED)
        self._open = among[address] = _Asked(record, self._line)

    def _inside(self) -> _Asked:
        if self._open is None:
            raise ValueError("this line belongs below one with a call or a tool")
        return self._open

    def _textual(self, record: Record) -> _Text:
        self._text = _Text(checked(str, record["text"]))
        return self._text

    def _message(self, record: Record) -> None:
        said = _Said(record, self._textual(record))
        self._calls = said.calls
        self._inside().said.append(said)

    def _called(self, record: Record) -> None:
        if self._calls is None:
            raise ValueError("a tool is called by a message or an answer, which stands before")
        self._calls.append(
            ToolCall(
                checked(str, record["id"]), checked(str, record["calls"]),
                checked(str, record["arguments"]),
            )
        )  # fmt: skip

    def _answer(self, record: Record) -> None:
        sample = _Sampled(checked(str, record["answer"]), self._textual(record))
        self._calls = sample.calls
        self._inside().samples.append(sample)

    def _sample(self) -> _Sampled:
        samples = self._inside().samples
        if not samples:
            raise ValueError("this line belongs below one with an answer")
        return samples[-1]

    def _reasoning(self, record: Record) -> None:
        self._sample().reasoning = self._textual(record)

    def _tokens(self, record: Record) -> None:
        self._sample().tokens = tuple(
            TokenLogprob(
                checked(str, token), checked(float, value),
                tuple((checked(str, text), checked(float, each)) for text, each in top),
            )
            for token, value, top in revived(record["tokens"])
        )  # fmt: skip

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
        self._seen[*place, checked(str, record["kind"])] = record

    def _medium(self, record: Record) -> None:
        self._media[checked(str, record["medium"])] = record

    def _then(self, record: Record) -> None:
        self._order.append((self._line, record))

    def _closed(self, record: Record) -> None:
        self._trace.state, self._trace.reason = "finished", checked(str, record["closed"])
        if "because" in record:
            self._trace.error = _error_from(record["because"])

    def _process(self, record: Record) -> None:
        numbers = (checked(int, record[name]) for name in ("wall", "monotonic"))
        self._trace.incarnations.append(
            Incarnation(
                checked(int, record["began"]), checked(int, record["pid"]),
                checked(str, record["host"]), checked(str, record["reason"]), *numbers,
            )
        )  # fmt: skip

    def _scope(self, record: Record) -> None:
        address, parent, name = (checked(str, record[key]) for key in ("scope", "parent", "name"))
        self._scopes.append(
            Scope(
                address, parent, name, optional(str, record["file"]), optional(int, record["line"]),
                checked(int, record["at"]), revived(record.get("metadata")),
                checked(int, record.get("incarnation", 0)),
            )
        )  # fmt: skip

    def _how(self, record: Record) -> None:
        self._went[checked(str, record["went"])] = record

    def _warning(self, record: Record) -> None:
        pair = checked(str, record["address"]), checked(str, record["warning"])
        self._trace.warnings.append(pair)

    # -- what the lines make together

    def trace(self) -> Trace:
        """The trace. Raises as ``take`` does; ``at`` is then the line that is wrong."""
        if not self._began:
            raise NotATrace(f"{self._trace.path} is empty")
        calls = {}
        for address, asked in self._asked.items():
            self.at = asked.line
            calls[address] = self._made_call(address, asked)
        for address, asked in self._used.items():
            self.at = asked.line
            self._trace.tools[address] = self._made_tool(address, asked)
        self._told(calls)
        self.at = 0
        trace = self._trace
        for address in self._started(calls):
            call = trace.by_address[address] = calls[address]
            call.position = len(trace.by_address) - 1
        for used in trace.tools.values():
            used.position += len(trace.by_address) + 1
        trace.calls = list(trace.by_address.values())
        every: list[Call | ToolUse] = [*trace.calls, *trace.tools.values()]
        trace.masked = sum(bool(each.masked) for each in every)
        trace.scopes = self._scopes or list(
            _scopes_of([*trace.by_address, *trace.tools], self._allowance)
        )
        return trace

    def _started(self, calls: dict[str, Call]) -> list[str]:
        """The calls as they started; where that is not said, in an order in which they could."""
        told = [address for address in self._went if address in calls]
        if len(told) == len(calls):
            return told
        return after_their_needs({each.address: each.edges for each in calls.values()})

    def _made_call(self, address: str, asked: _Asked) -> Call:
        record = asked.record
        call = Call(address, masked=_names(record))
        if not record.get("unstarted"):
            self._ask(call, asked)
        if asked.samples:
            call.outcome, call.response = "answered", _response(asked)
            call.cuts = _fitted(_cuts(asked.usage or {}), call._whole())
        elif asked.error is not None:
            call.outcome = asked.error["outcome"]
            call.error = _error_from(asked.error["error"])
            if asked.begun:
                call.begun = {key: str(text) for key, text in asked.begun}
                call.cuts = _fitted(_cuts(asked.error), call.begun)
        went = self._went.get(address, {})
        call.file, call.line = optional(str, went.get("file")), optional(int, went.get("line"))
        call.attempts = [_attempt(*each) for each in went.get("attempts", ())]
        call.source, call.of = optional(str, went.get("source")), optional(str, went.get("of"))
        if call.started is not None:
            call.started = optional(int, went.get("started_us", 0))
        if call.outcome is not None:
            call.ended = checked(int, went.get("ended_us", 0))
        call.first = optional(int, went.get("first_us"))
        _timed(call, went)
        return call

    def _ask(self, call: Call, asked: _Asked) -> None:
        record = asked.record
        call.kind, call.model = checked(str, record["kind"]), checked(str, record["model"])
        call.ordinal, call.started = checked(int, record["ordinal"]), 0
        call.n, call.sample = (
            checked(int, record.get("n", 1)),
            checked(int, record.get("sample", 0)),
        )
        call.edges = tuple(checked(str, each) for each in record.get("uses", ()))
        call.timeout = optional(float, revived(record.get("timeout")))
        call.sampling = self._sampling(call.address, record)
        call.messages = self._prompt(call.address, asked)
        said = call.messages.digest if call.messages else b""
        written = record.get("content")
        call.content = (
            _digest(written) if written is not None else digest_of(said, call.model, call.sampling)
        )

    def _sampling(self, address: str, record: Record) -> str:
        known = record.get("options_of")
        text = self._options[known] if known is not None else canonical_text(record["options"])
        self._options[address] = text
        return text

    def _prompt(self, address: str, asked: _Asked) -> Messages | None:
        chain: Messages | None = None
        after = asked.record.get("after")
        if after is not None:
            start, own = self._own[after]
            first = checked(int, asked.record.get("first", start + len(own)))
            if not start < first <= start + len(own):
                raise ValueError(f"{after:.200} does not say message {first} of its prompt itself")
            chain = own[first - start - 1]
        start, own = (chain.length if chain else 0), []
        for said in asked.said:
            chain = self._link(chain, said)
            own.append(chain)
        if own:
            self._own[address] = start, own
        return chain

    def _link(self, chain: Messages | None, said: _Said) -> Messages:
        record, message = said.record, self._said(said)
        base = record.get("goes_on")
        written = record.get("digest")
        if base is None:
            link = Messages(chain, message, message.whole)
        else:
            start, own = self._own[base]
            at = (chain.length if chain else 0) - start
            if not 0 <= at < len(own):
                raise ValueError(f"{base:.200} does not say such a message")
            rope = Rope(own[at].rope, message.content)
            if rope.size > LONG and written is None:
                raise ValueError("a long message that goes on needs its digest")
            link = Messages.roped(chain, replace(message, content=""), rope, closed=False)
        if written is not None:
            link.has_digest(_digest(written))
        return link

    def _said(self, said: _Said) -> Message:
        record = said.record
        role = record["message"]
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r:.80}")
        placed = record.get("media", ())
        return Message(
            role, str(said.text),
            tuple((checked(int, at), self._shown(checked(str, each))) for at, each in placed),
            tuple(said.calls), optional(str, record.get("reply_to")),
            optional(str, record.get("name")), checked(bool, record.get("failed", False)),
        )  # fmt: skip

    def _shown(self, digest: str) -> Media:
        """The medium of *digest*; made once."""
        made = self._made.get(digest)
        if made is None:
            record = self._media[digest]
            sort: type[Image | Audio] = {"image": Image, "audio": Audio}[record["sort"]]
            data = base64.b64decode(checked(str, record.get("base64", "")), validate=True)
            made = self._made[digest] = sort.restored(
                optional(str, record.get("url")), data, checked(str, record["mime"]),
                optional(str, record.get("detail")),
            )  # fmt: skip
        return made

    def _made_tool(self, address: str, asked: _Asked) -> ToolUse:
        record, went = asked.record, self._went.get(address, {})
        used = ToolUse(
            address, checked(str, record["name"]), checked(str, record["arguments"]),
            checked(str, record["effect"]), optional(str, went.get("file")),
            optional(int, went.get("line")), len(self._trace.tools),
            checked(int, went.get("started_us", 0)), masked=_names(record),
        )  # fmt: skip
        if asked.said:
            used.outcome, used.message = "answered", self._said(asked.said[0])
        elif asked.error is not None:
            used.outcome = asked.error["outcome"]
            used.error = _error_from(asked.error["error"])
        if used.outcome is not None:
            used.ended = checked(int, went.get("ended_us", 0))
        _timed(used, went)
        return used

    def _told(self, calls: dict[str, Call]) -> None:
        """Number what reached the program, and what ended, in the order of the lines."""
        trace, ends = self._trace, 0
        for line, record in self._order:
            self.at = line
            if "seen" in record:
                self._observed(record)
            else:
                address = checked(str, record.get("then", record.get("ended")))
                each = calls.get(address) or trace.tools[address]
                if "chunks" in record:
                    cast(Call, each).shown.append((trace.moments, checked(int, record["chunks"])))
                elif "then" in record:
                    each.delivered = trace.moments if each.delivered is None else each.delivered
                if "chunks" not in record:
                    each.end_position, ends = ends, ends + 1
            trace.moments += "then" in record
        for key in self._seen:
            raise ValueError(f"it is not said when {key[2]} at {key[0]:.200} was seen")

    def _observed(self, order: Record) -> None:
        key = order["then"], order["ordinal"], order["seen"]
        record = self._seen.pop(key)
        self._trace.observations.append(
            Observation(*key, revived(record["value"]), 0, self._trace.moments, _names(record))
        )


_INSIDE = frozenset(
    ["message", "calls", "answer", "reasoning", "tokens", "usage", "begun", "error"]
)


def _names(record: Record) -> tuple[str, ...]:
    return tuple(checked(str, name) for name in record.get("masked", ()))


def _digest(text: Any) -> bytes:
    kind, _, digits = checked(str, text).partition(":")
    found = bytes.fromhex(digits)
    if kind != "b2" or len(found) != 16:
        raise ValueError(f"{text!r:.80} is no digest")
    return found


def _error_from(data: Any) -> BaseException:
    checked(list, data[3])
    return records.error_from(data, revived)


def _response(asked: _Asked) -> Response:
    record = asked.usage or {}
    scores = revived(record.get("scores"))
    return Response(
        tuple(
            Sample(
                str(each.text), each.reason, each.tokens, tuple(each.calls),
                None if each.reasoning is None else str(each.reasoning),
            )
            for each in asked.samples
        ),
        Usage(*(optional(int, count) for count in record.get("usage", ()))),
        checked(str, record.get("by", "")),
        None if scores is None else tuple(checked(float, each) for each in scores),
        optional(str, record.get("choice_method")), optional(int, record.get("cost")),
        checked(int, record.get("reused", 0)),
    )  # fmt: skip


def _cuts(record: Record) -> list[tuple[int, int, int]]:
    """The lengths of chunks, each with sample and kind."""
    cuts = [(0, 0, each) if type(each) is int else tuple(each) for each in record.get("chunks", ())]
    for sample, kind, length in cuts:
        if checked(int, length) < 1 or kind not in range(len(KINDS)):
            raise ValueError(f"{[sample, kind, length]!r:.80} is no chunk")
    return cast("list[tuple[int, int, int]]", cuts)


def _fitted(cuts: list[tuple[int, int, int]], whole: Texts) -> list[Any]:
    """*cuts*, of texts that may have been edited since: the last of each takes what is left."""
    left = {key: len(text) for key, text in whole.items()}
    last = {(sample, kind): at for at, (sample, kind, _) in enumerate(cuts)}
    found: list[Any] = []
    for at, (sample, kind, length) in enumerate(cuts):
        key = checked(int, sample), kind
        length = left[key] if last[key] == at else min(length, left[key])
        left[key] -= length
        if length:
            found.append(length if key == (0, 0) else (sample, kind, length))
    return found if not any(left.values()) else []


def _attempt(number: Any, at: Any, error: Any, wait: Any, waited: Any = None) -> Attempt:
    failed = None if error is None else _error_from(error)
    waits = {checked(str, name): checked(int, each) for name, each in (waited or {}).items()}
    return Attempt(checked(int, number), optional(int, at), failed, optional(int, wait), waits)


def _timed(each: Call | ToolUse, went: Record) -> None:
    each.incarnation = checked(int, went.get("incarnation", 0))
    each.delivered_at = optional(int, went.get("told_us"))


def _scopes_of(addresses: list[str], allowance: Allowance) -> Iterator[Scope]:
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
        for each in reversed(missing):
            parent, _, leaf = each.rpartition("/")
            yield Scope(each, parent, leaf.rpartition(".")[0] or leaf, None, None, 0)
