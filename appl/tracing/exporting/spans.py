"""A recorded run as spans: its scopes, tools and calls, linked by the flow of answers.

Invariant: the same trace gives the same spans with the same ids, every time. Without *content* no
text of a prompt, an answer, a tool or an error is in them. A call that another run answered for
says nothing of usage: its tokens were counted there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from appl.prompt import digest_of
from appl.tracing.explaining import costs
from appl.tracing.exporting import conventions as names, openinference
from appl.tracing.exporting.texts import output_data, said_data
from appl.tracing.format import sampling
from appl.tracing.keeping import side_files
from appl.tracing.reading.documents import jsonable
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Scope, Trace
from appl.tracing.recording.secret import Masker

Value = str | bool | int | float | Sequence[str]
Attributes = dict[str, Value]


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event within a span; ``at`` is in nanoseconds since 1970."""

    name: str
    at: int
    attributes: Attributes


@dataclass(slots=True)
class ExportSpan:
    """A piece of work, from ``start`` to ``end`` in nanoseconds since 1970.

    ``links`` are the ids of spans whose answers it used. ``whole`` says that nothing can be added.
    """

    identity: bytes
    parent: bytes | None
    name: str
    kind: Literal["internal", "client"]
    start: int
    end: int
    attributes: Attributes = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    links: list[bytes] = field(default_factory=list)
    error: str | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Spans:
    """All spans of a run, parents before children, and the id that they share."""

    trace_id: bytes
    spans: list[ExportSpan]
    service: str


def spans_of(trace: Trace, *, content: bool = False, inference: bool = False) -> Spans:
    """The spans of *trace*; with *content* also texts, with *inference* OpenInference's names."""
    return _Maker(trace, content, inference).all()


def trace_id(trace: Trace) -> bytes:
    """The run's id of 16 bytes, made from the time and place of its begin."""
    first = trace.incarnations[0] if trace.incarnations else None
    began = (first.wall, first.monotonic, first.host, first.pid) if first else (trace.path.stem,)
    return side_files.identity(trace.header.get("program"), *began)


class _Maker:
    def __init__(self, trace: Trace, content: bool, inference: bool) -> None:
        self._trace, self._content, self._inference = trace, content, inference
        self._id = trace_id(trace)
        self._terms = costs.terms_of(trace.header, opened=trace.opened)
        self._masker = Masker()
        self._known: dict[str, ExportSpan] = {}
        self._last = max(
            (trace.wall(c.ended, c.incarnation) for c in trace.calls if c.ended is not None),
            default=trace.wall(0),
        )

    def all(self) -> Spans:
        trace, began = self._trace, self._trace.wall(0)
        program = str(trace.header.get("program") or "run")
        about: Attributes = {
            names.OPERATION: names.INVOKE,
            names.RUN: trace.path.stem,
            names.STATE: trace.reason or trace.state,
            names.WORKFLOW: program,
        }
        if self._inference:
            about[names.KIND] = names.CHAIN
        identity, title = self._identity("run", ""), f"run {program}"
        root = ExportSpan(identity, None, title, "internal", began, began, about, whole=False)
        self._fail(root, trace.error)
        self._root = root
        spans = [root, *map(self._scope, trace.scopes)]
        every: list[RecordedCall | ToolUse] = [*trace.calls, *trace.tools.values()]
        for event in sorted(every, key=lambda event: event.position):
            spans.append(
                self._call(event) if isinstance(event, RecordedCall) else self._tool(event)
            )
        for call in trace.earlier:
            if call.attempts:  # a later process repeated it, and it may have been paid for
                span = self._call(call)
                span.identity = self._identity(f"call of process {call.incarnation}", call.address)
                span.attributes[names.SUPERSEDED], span.whole = True, True
                spans.append(span)
        by_id = {span.identity: span for span in spans}
        for span in reversed(spans):  # each lasts to the end of the last span inside it
            above = by_id.get(span.parent) if span.parent is not None else None
            if above is not None and above.kind == "internal":
                above.end, above.start = max(above.end, span.end), min(above.start, span.start)
        over = trace.state != "running"
        for span in spans:
            span.whole = over or span.whole
            span.attributes = {key: self._clean(value) for key, value in span.attributes.items()}
        return Spans(self._id, spans, str(trace.header.get("program") or "appl"))

    def _clean(self, value: Value) -> Value:
        """*value* without this environment's secrets; the recorder masked those of its own."""
        if isinstance(value, str):
            return self._masker.text(value, [])
        return [self._masker.text(v, []) for v in value] if isinstance(value, list) else value

    def _identity(self, sort: str, address: str) -> bytes:
        return digest_of(self._id, sort, address)[:8]

    def _above(self, address: str) -> bytes:
        """The id of the span of the nearest scope or tool around *address*."""
        while address:
            address = address.rpartition("/")[0]
            if address in self._known:
                return self._known[address].identity
        return self._root.identity

    def _scope(self, scope: Scope) -> ExportSpan:
        at = self._trace.wall(scope.at, scope.incarnation)
        about: Attributes = {names.ADDRESS: scope.address, names.FUNCTION: scope.name}
        about |= _place(scope.file, scope.line)
        if self._content and scope.metadata:
            about[names.METADATA] = json.dumps(jsonable(scope.metadata))
        end = self._trace.returns.get(scope.address)
        if self._content and scope.arguments:
            about[names.ARGUMENTS] = scope.arguments
        if self._content and end is not None and (shown := end.value or end.call):
            about[names.RESULT] = shown
        if self._inference:
            about[names.KIND] = names.CHAIN
        own, above = self._identity("scope", scope.address), self._above(scope.address)
        span = ExportSpan(own, above, scope.name, "internal", at, at, about, whole=False)
        if end is not None:
            span.end = max(at, self._trace.wall(end.at, end.incarnation))
            self._fail(span, end.error)
        self._known[scope.address] = span
        return span

    def _times(self, call: RecordedCall | ToolUse) -> tuple[int, int]:
        """Start and end; a call in flight ends at the last record of the run."""
        wall = self._trace.wall
        ended = None if call.ended is None else wall(call.ended, call.incarnation)
        started = ended if call.started is None else wall(call.started, call.incarnation)
        if started is None:
            started = self._last
        return started, max(started, self._last if ended is None else ended)

    def _tool(self, used: ToolUse) -> ExportSpan:
        start, end = self._times(used)
        about: Attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: used.name,
            names.TOOL_TYPE: "function",
            names.ADDRESS: used.address,
            names.OUTCOME: used.outcome or "in flight",
            **_place(used.file, used.line),
        }
        result = used.message.content if used.message is not None else None
        if self._content:
            about[names.TOOL_ARGUMENTS] = used.arguments
            if result is not None:
                about[names.TOOL_RESULT] = result
        if self._inference:
            about |= openinference.tool(used, self._content)
        own, above = self._identity("tool", used.address), self._above(used.address)
        name, whole = f"{names.EXECUTE_TOOL} {used.name}", used.outcome is not None
        span = ExportSpan(own, above, name, "internal", start, end, about, whole=whole)
        self._fail(span, used.error)
        if used.message is not None and used.message.has_error:
            span.error = "the tool reported an error"
        self._known[used.address] = span
        return span

    def _call(self, call: RecordedCall) -> ExportSpan:
        start, end = self._times(call)
        about = self._asked(call)
        if call.response is not None:
            about |= self._answered(call)
        if self._content:
            about |= self._texts(call)
        if self._inference:
            about |= openinference.call(call, self._content, self._paid(call))
        own, above = self._identity("call", call.address), self._above(call.address)
        name, whole = f"{names.CHAT} {call.model}".strip(), call.outcome is not None
        span = ExportSpan(own, above, name, "client", start, end, about, whole=whole)
        recorded = self._trace.by_address
        span.links = [self._identity("call", edge) for edge in call.edges if edge in recorded]
        span.events = list(self._attempts(call))
        self._fail(span, call.error)
        return span

    def _asked(self, call: RecordedCall) -> Attributes:
        head = self._trace.header
        parameters = sampling.parameters(call.sampling)
        about: Attributes = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: str(head.get("backend") or "appl"),
            names.ADDRESS: call.address,
            names.OUTCOME: call.ended_as or "in flight",
            **_place(call.file, call.line),
        }
        if call.model:
            about[names.REQUEST_MODEL] = call.model
        for key, name in names.REQUEST.items():
            if isinstance(parameters.get(key), int | float):
                about[name] = parameters[key]
        if call.n > 1:
            about[names.CHOICE_COUNT] = call.n
        if call.cuts or call.shown:
            about[names.STREAM] = True
        if parameters.get("schema") is not None:
            about[names.OUTPUT_TYPE] = "json"
        if call.masked:
            about[names.MASKED] = sorted(set(call.masked))
        if call.source is not None:
            about[names.SOURCE] = call.source
            if call.of:
                about[names.OF] = call.of
        return about

    def _answered(self, call: RecordedCall) -> Attributes:
        response = call.response
        assert response is not None
        about: Attributes = {names.FINISH_REASONS: [s.finish_reason for s in response.samples]}
        if response.model:
            about[names.RESPONSE_MODEL] = response.model
        if response.reused:
            about[names.KEPT] = response.reused
        if call.source is not None:
            return about
        used = response.usage
        for name, count in (
            (names.INPUT_TOKENS, used.prompt_tokens),
            (names.OUTPUT_TOKENS, used.completion_tokens),
            (names.CACHED_TOKENS, used.cached_tokens),
            (names.WRITTEN_TOKENS, used.all_written_tokens),
            (names.REASONING_TOKENS, used.reasoning_tokens),
        ):
            if count is not None:
                about[name] = count
        if used.tier:
            about[names.TIER] = used.tier
        if response.cache_miss is not None:
            about[names.CACHE_MISS] = response.cache_miss
        paid = self._paid(call)
        return about if paid is None else {**about, names.COST: paid}

    def _paid(self, call: RecordedCall) -> float | None:
        """The cost of the answer in units of currency, if it is known and was paid in this run."""
        amounts = [
            cost
            for kind, usage, cost in costs.entries(call, self._terms)
            if kind == "spent" and call.response is not None and usage is call.response.usage
        ]
        return amounts[-1] / 1e6 if amounts and amounts[-1] is not None else None

    def _texts(self, call: RecordedCall) -> Attributes:
        about: Attributes = {}
        if call.messages is not None:
            about[names.INPUT_MESSAGES] = json.dumps([said_data(m) for m in call.messages])
        if call.response is not None:
            about[names.OUTPUT_MESSAGES] = json.dumps(output_data(call.response))
        parameters = sampling.parameters(call.sampling)
        if isinstance(parameters.get("stop"), list):
            about[names.STOP] = [str(stop) for stop in parameters["stop"]]
        if parameters.get("tools"):
            about[names.TOOL_DEFINITIONS] = json.dumps(parameters["tools"])
        return about

    def _attempts(self, call: RecordedCall) -> Iterator[SpanEvent]:
        for attempt in call.attempts:
            if attempt.at is None:
                continue
            about: Attributes = {names.ATTEMPT_NUMBER: attempt.number}
            if attempt.error is not None:
                about[names.ERROR_TYPE] = type(attempt.error).__name__
                if self._content:
                    about[names.EXCEPTION_MESSAGE] = self._masker.text(str(attempt.error), [])
            yield SpanEvent(names.ATTEMPT, self._trace.wall(attempt.at, call.incarnation), about)

    def _fail(self, span: ExportSpan, error: BaseException | None) -> None:
        if error is None:
            return
        kind = type(error).__name__
        message = self._masker.text(str(error), []) if self._content else ""
        span.error = message or kind
        span.attributes[names.ERROR_TYPE] = kind
        about: Attributes = {names.EXCEPTION_TYPE: kind}
        if message:
            about[names.EXCEPTION_MESSAGE] = message
        span.events.append(SpanEvent(names.EXCEPTION, span.end, about))


def _place(file: str | None, line: int | None) -> Attributes:
    attributes: Attributes = {names.FILE: file} if file else {}
    return attributes if line is None else {**attributes, names.LINE: line}
