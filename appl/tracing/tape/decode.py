"""Makes calls, tools and observations of the lines of a tape, in their order.

Invariant: positions, digests and scopes, which a tape does not hold, are made from the rest, the
same each time; prompts share their common messages, however often these are referred to.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from appl.backend import Response, Sample, Usage
from appl.prompt import ROLES, Audio, Image, Media, Message, Messages, Rope, digest_of
from appl.prompt.messages import LONG
from appl.tracing.format import record as records
from appl.tracing.format.allowance import RECORD, DecodingAllowance
from appl.tracing.format.chunks import KINDS, Texts
from appl.tracing.format.record import checked, optional
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Attempt, Observation, RecordedCall, Scope, Trace
from appl.tracing.tape.lines import Record, canonical_text, revived
from appl.tracing.tape.places import after_their_needs
from appl.tracing.tape.raw_records import RawRecords, TapeCall, TapeMessage


class Assembler:
    """Puts *lines* together in *trace*; ``at`` is the line that it is at."""

    def __init__(self, trace: Trace, lines: RawRecords, allowance: DecodingAllowance) -> None:
        self._trace, self._lines, self._allowance = trace, lines, allowance
        self._made: dict[str, Media] = {}
        self._own: dict[str, tuple[int, list[Messages]]] = {}
        self._options: dict[str, str] = {}
        self.at = 0

    def trace(self) -> Trace:
        """The trace. Raises ``ValueError`` and others; ``at`` is then the line that is wrong."""
        calls = {}
        for address, asked in self._lines.asked.items():
            self.at = asked.line
            calls[address] = self._made_call(address, asked)
        for address, asked in self._lines.used.items():
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
        every: list[RecordedCall | ToolUse] = [*trace.calls, *trace.tools.values()]
        trace.masked = sum(bool(event.masked) for event in every)
        trace.scopes = self._lines.scopes or list(
            _scopes_of([*trace.by_address, *trace.tools], self._allowance)
        )
        return trace

    def _started(self, calls: dict[str, RecordedCall]) -> list[str]:
        """The calls as they started; where that is not said, in an order in which they could."""
        told = [address for address in self._lines.went if address in calls]
        if len(told) == len(calls):
            return told
        return after_their_needs({call.address: call.edges for call in calls.values()})

    def _made_call(self, address: str, asked: TapeCall) -> RecordedCall:
        record = asked.record
        call = RecordedCall(address, masked=_names(record), lost=_lost(record))
        if not record.get("unstarted"):
            self._ask(call, asked)
        if asked.samples:
            call.outcome, call.response = "answered", _response(asked)
            call.cuts = _fitted(_cuts(asked.usage or {}), call._whole())
        elif asked.error is not None:
            call.outcome = asked.error["outcome"]
            call.error = error_from(asked.error["error"])
            if asked.begun:
                call.begun = {key: str(text) for key, text in asked.begun}
                call.cuts = _fitted(_cuts(asked.error), call.begun)
        went = self._lines.went.get(address, {})
        call.file, call.line = optional(str, went.get("file")), optional(int, went.get("line"))
        call.attempts = [_attempt(*fields) for fields in went.get("attempts", ())]
        call.source, call.of = optional(str, went.get("source")), optional(str, went.get("of"))
        if call.started is not None:
            call.started = optional(int, went.get("started_us", 0))
        if call.outcome is not None:
            call.ended = checked(int, went.get("ended_us", 0))
        call.first = optional(int, went.get("first_us"))
        _timed(call, went)
        return call

    def _ask(self, call: RecordedCall, asked: TapeCall) -> None:
        record = asked.record
        call.kind, call.model = checked(str, record["kind"]), checked(str, record["model"])
        call.ordinal, call.started = checked(int, record["ordinal"]), 0
        call.n, call.sample = (
            checked(int, record.get("n", 1)),
            checked(int, record.get("sample", 0)),
        )
        call.edges = tuple(checked(str, used) for used in record.get("uses", ()))
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

    def _prompt(self, address: str, asked: TapeCall) -> Messages | None:
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

    def _link(self, chain: Messages | None, said: TapeMessage) -> Messages:
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

    def _said(self, said: TapeMessage) -> Message:
        record = said.record
        role = record["message"]
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r:.80}")
        placed = record.get("media", ())
        return Message(
            role,
            str(said.text),
            tuple((checked(int, at), self._shown(checked(str, medium))) for at, medium in placed),
            tuple(said.calls),
            optional(str, record.get("reply_to")),
            optional(str, record.get("name")),
            checked(bool, record.get("failed", False)),
        )

    def _shown(self, digest: str) -> Media:
        """The medium of *digest*; made once."""
        made = self._made.get(digest)
        if made is None:
            record = self._lines.media[digest]
            sort: type[Image | Audio] = {"image": Image, "audio": Audio}[record["sort"]]
            data = base64.b64decode(checked(str, record.get("base64", "")), validate=True)
            made = self._made[digest] = sort.restored(
                optional(str, record.get("url")),
                data,
                checked(str, record["mime"]),
                optional(str, record.get("detail")),
            )
        return made

    def _made_tool(self, address: str, asked: TapeCall) -> ToolUse:
        record, went = asked.record, self._lines.went.get(address, {})
        used = ToolUse(
            address,
            checked(str, record["name"]),
            checked(str, record["arguments"]),
            checked(str, record["effect"]),
            optional(str, went.get("file")),
            optional(int, went.get("line")),
            len(self._trace.tools),
            checked(int, went.get("started_us", 0)),
            masked=_names(record),
            lost=_lost(record),
        )
        if asked.said:
            used.outcome, used.message = "answered", self._said(asked.said[0])
        elif asked.error is not None:
            used.outcome = asked.error["outcome"]
            used.error = error_from(asked.error["error"])
        if used.outcome is not None:
            used.ended = checked(int, went.get("ended_us", 0))
        _timed(used, went)
        return used

    def _told(self, calls: dict[str, RecordedCall]) -> None:
        """Number what reached the program, and what ended, in the order of the lines."""
        trace, ends = self._trace, 0
        for line, record in self._lines.order:
            self.at = line
            if "seen" in record:
                self._observed(record)
            else:
                address = checked(str, record.get("then", record.get("ended")))
                each = calls.get(address) or trace.tools[address]
                if "chunks" in record:
                    cast(RecordedCall, each).shown.append(
                        (trace.moments, checked(int, record["chunks"]))
                    )
                elif "then" in record:
                    each.delivered = trace.moments if each.delivered is None else each.delivered
                if "chunks" not in record:
                    each.end_position, ends = ends, ends + 1
            trace.moments += "then" in record
        for key in self._lines.seen:
            raise ValueError(f"it is not said when {key[2]} at {key[0]:.200} was seen")

    def _observed(self, order: Record) -> None:
        key = order["then"], order["ordinal"], order["seen"]
        record = self._lines.seen.pop(key)
        self._trace.observations.append(
            Observation(*key, revived(record["value"]), 0, self._trace.moments, _names(record))
        )


def _lost(record: Record) -> tuple[str, ...]:
    """The secrets that were taken out of what came of it."""
    return () if record.get("outcome_whole") else _names(record)


def _names(record: Record) -> tuple[str, ...]:
    return tuple(checked(str, name) for name in record.get("masked", ()))


def _digest(text: object) -> bytes:
    kind, _, digits = checked(str, text).partition(":")
    found = bytes.fromhex(digits)
    if kind != "b2" or len(found) != 16:
        raise ValueError(f"{text!r:.80} is no digest")
    return found


def error_from(data: Any) -> BaseException:
    checked(list, data[3])
    return records.error_from(data, revived)


def _response(asked: TapeCall) -> Response:
    record = asked.usage or {}
    scores = revived(record.get("scores"))
    return Response(
        tuple(
            Sample(
                str(sample.text),
                sample.reason,
                sample.tokens,
                tuple(sample.calls),
                None if sample.reasoning is None else str(sample.reasoning),
            )
            for sample in asked.samples
        ),
        Usage(*(optional(int, count) for count in record.get("usage", ()))),
        checked(str, record.get("by", "")),
        None if scores is None else tuple(checked(float, score) for score in scores),
        optional(str, record.get("choice_method")),
        optional(int, record.get("cost")),
        checked(int, record.get("reused", 0)),
    )


def _cuts(record: Record) -> list[tuple[int, int, int]]:
    """The lengths of chunks, each with sample and kind."""
    cuts = [(0, 0, cut) if type(cut) is int else tuple(cut) for cut in record.get("chunks", ())]
    for sample, kind, length in cuts:
        if checked(int, length) < 1 or kind not in range(len(KINDS)):
            raise ValueError(f"{[sample, kind, length]!r:.80} is no chunk")
    return cast("list[tuple[int, int, int]]", cuts)


def _fitted(cuts: list[tuple[int, int, int]], whole: Texts) -> list[object]:
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


def _attempt(
    number: object, at: object, error: object, wait: object, waited: Any = None
) -> Attempt:
    failed = None if error is None else error_from(error)
    waits = {checked(str, name): checked(int, spent) for name, spent in (waited or {}).items()}
    return Attempt(checked(int, number), optional(int, at), failed, optional(int, wait), waits)


def _timed(each: RecordedCall | ToolUse, went: Record) -> None:
    each.incarnation = checked(int, went.get("incarnation", 0))
    each.delivered_at = optional(int, went.get("told_us"))


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
