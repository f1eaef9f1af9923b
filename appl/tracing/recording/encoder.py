"""From events to the records of a trace, in the order in which they happened.

Invariant: all that a record refers to was encoded before it; for one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from appl.backend import Request, Sample, Sampling
from appl.errors import CallCancelled
from appl.prompt import (
    Media,
    Message,
    Messages,
    Origin,
    RoleName,
    Spans,
    digest_of,
    joined,
    line_of,
)
from appl.runtime.event import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    Delivered,
    Failed,
    ScopeEntered,
    ScopeLeft,
    ToolEnded,
)
from appl.tracing.format import codec, record, table
from appl.tracing.format.table import MASKED
from appl.tracing.format.totals import RunningTotals
from appl.tracing.recording.memo import WrittenContent
from appl.tracing.recording.secret import Masker

if TYPE_CHECKING:
    from appl.prompt import Rope
    from appl.tracing.format.failures import FailureCounts, RunningFailures
    from appl.tracing.reading.trace import RecordedCall
    from appl.tracing.recording.privacy import Redact
    from appl.tracing.recording.token_writer import TokenWriter

LONG_TEXT = 1 << 20
_SHORT_TEXT = 1 << 12
"""Characters up to which a text is known again by itself: to digest it takes five times as long."""
_MAX_EDGES = 100_000
_PIECE = 1 << 17
"""Characters of text after which records are packed, so that a block may be made of them."""
_LINK = 40
"""Bytes of the record of a prompt."""
_SHOWN, _SHOWN_ALL = 200, 1000
"""Characters that are shown of one text, and of all arguments, or of a result."""
_TEXT = 3
"""Pieces of the snapshot of a text."""
_TINY = 1 << 6
"""Characters that stay in their record however many others it has."""
CANCELLED = CallCancelled("cancelled")
"""The error of a call that ended without one."""

_file_row = table.row(table.FileRecord)
_line_row = table.row(table.LineRecord)
_scope_row = table.row(table.ScopeRecord)
_return_row = table.row(table.ReturnRecord)
_piece_row = table.row(table.PieceRecord)
_medium_row = table.row(table.MediumRecord)
_message_row = table.row(table.MessageRecord)
_longer_row = table.row(table.LongerRecord)
_prompt_row = table.row(table.PromptRecord)
_parameters_row = table.row(table.ParametersRecord)
_start_row = table.row(table.StartRecord)
_dispatch_row = table.row(table.DispatchRecord)
_end_row = table.row(table.EndRecord)
_delivery_row = table.row(table.DeliveryRecord)
_close_row = table.row(table.CloseRecord)


@dataclass(slots=True)
class WithError:
    """An event whose error was told when it happened, as plain data."""

    event: AttemptFailed | CallEnded | ToolEnded | Failed | ScopeLeft
    error: tuple[Any, ...]


@dataclass(slots=True)
class Begun:
    """A call of an earlier process is begun again: how it ended then does not count."""

    call: RecordedCall


@dataclass(slots=True)
class Closing:
    """The run is closed."""

    reason: str
    error: tuple[object, ...] | None
    at: int


class _Closed(Exception):
    """The last record was made."""


class EventEncoder:
    """Turns events into records, for one trace.

    *began* is the monotonic clock when the incarnation began, in nanoseconds. *redact* sees each
    message before it is stored, answers too; where texts are *whole* no message is stored by what
    is added to another.
    """

    def __init__(self, began: int, masker: Masker, redact: Redact | None, whole: bool) -> None:
        self._began, self.masker, self.redact, self._whole = began, masker, redact, whole
        self.totals = RunningTotals()
        self._closed = False
        self._packed: list[bytes] = []
        self.records: list[tuple[object, ...]] = []
        self._size = self._inline = 0
        self._failed: Callable[[str, Exception], None] = _unexpected
        self.ids = itertools.count(1)
        self.written = WrittenContent()
        self._mark = object()
        self.firsts: dict[str, int] = {}
        self._last_params: tuple[Sampling | None, str, int] = (None, "", 0)
        self._token_writer: TokenWriter | None = None
        self._pack: Callable[[object], bytes] = codec.packer()

    @cached_property
    def failures(self) -> RunningFailures:
        """What failed besides calls; made with the first of it."""
        from appl.tracing.format.failures import RunningFailures

        return RunningFailures()

    def failure_counts(self) -> FailureCounts | None:
        """The sums of what failed besides calls; ``None`` if nothing did."""
        return self.failures.counts() if "failures" in vars(self) else None

    def encode(self, items: list[object], failed: Callable[[str, Exception], None]) -> list[bytes]:
        """The records of *items*, those that are encoded already included, as they are.

        What cannot be encoded is left out, and *failed* is told its name.
        """
        # On the writer's thread, or on one that writes in its place, one group after another.
        # *failed* keeps the error, which the gate raises where the next call is to start.
        packed: list[bytes] = []
        self._packed, self._failed = packed, failed
        for item in items if not self._closed else ():
            try:
                self._inline = 0
                handler = _HANDLERS.get(type(item))
                if handler is None:
                    from appl.tracing.recording import further_events  # many runs have none of them

                    handler = further_events.HANDLERS[type(item)]
                handler(self, item)
                if self._size > _PIECE:
                    self._flush()
            except _Closed:  # what another thread emitted meanwhile does not follow that record
                break
            except Exception as error:
                failed(type(item).__name__, error)
        self._flush()
        self._packed, self._failed = [], _unexpected
        return packed

    def _flush(self) -> None:
        """Pack the records that were made: to pack those of many events at once costs least."""
        records, written = self.records, self.written
        if not records:
            return
        try:
            packed = self._pack(records)
            self._packed.append(packed[codec.HEADS.get(packed[0], 1) :])
        except Exception:
            self._packed += self._packed_singly(records)
        written.records += len(records)
        written.text += self._size
        if written.records > written.most_records or written.text > written.most_text:
            written.age()
        records.clear()
        self._size = 0

    def _packed_singly(self, records: list[tuple[object, ...]]) -> Iterator[bytes]:
        """Each of the records that can be packed; one of them cannot."""
        lost = dict[int, str]()
        for fields in records:
            stored = table.as_record([*fields]) if fields[0] != MASKED else None
            if isinstance(stored, table.MessageRecord) and type(stored.content) is int:
                content = lost.get(stored.content, stored.content)
                fields = table.stored(stored._replace(content=content))
            try:
                yield codec.pack(fields)
            except Exception as error:
                self._failed(f"a record {fields[0]}", error)
                if isinstance(stored, table.EndRecord) and type(stored.call) is int:
                    # A message that said the same must hold the text itself, or it would refer to
                    # nothing.
                    for answers in (self.written.answers.recent, self.written.answers.earlier):
                        for text in [text for text, n in answers.items() if n == stored.call]:
                            lost[answers.pop(text)] = text

    # -- one method per event --------------------------------------------------------------

    def at(self, nanoseconds: int) -> int:
        return (nanoseconds - self._began) // 1000

    def call_of(self, address: str) -> int | str:
        return self.written.calls.find(address) or address

    def _scope(self, event: ScopeEntered) -> None:
        number = next(self.ids)
        parent: int | str = self.written.scopes.find(event.parent) or event.parent
        name = event.address.rpartition("/")[2] if event.parent else event.address
        if f"{event.parent}/{name}" != event.address:
            parent, name = "", event.address
        file = None
        if event.file is not None:
            file = self.written.files.find(event.file) or self.new_file(event.file)
        at, about = (event.at - self._began) // 1000, None
        masks: list[str] = []
        if event.metadata:
            about = codec.shortened(event.metadata, partial(self.long, masks=masks))
        shown = None
        if event.arguments is not None:
            about, shown = about or {}, self._shown(event.arguments, masks)
        fields = _scope_row(number, parent, name, event.name, file, event.line, at, about, shown)
        self.records.append(masked(fields, masks) if masks else fields)
        self.written.scopes.recent[event.address] = number

    def _with_error(self, item: WithError) -> None:
        if isinstance(item.event, ScopeLeft):
            self._left(item.event, item.error)
            return
        from appl.tracing.recording.further_events import with_error  # few calls fail

        with_error(self, item)

    def _left(self, event: ScopeLeft, error: tuple[Any, ...] | None = None) -> None:
        masks: list[str] = []
        call: int | str | None = None
        shown: str | None = None
        if event.of is not None:
            call = self.call_of(event.of)
        elif event.value is not None:
            if len(event.value) == _TEXT and not event.value[0]:  # often that of the last answer
                call = self.written.answers.find(event.value[1])
            shown = None if call is not None else self._shown(event.value, masks)
        if error is not None and self.redact is not None:  # it shows what the model said
            actual, known, message, *_ = error
            message = self.redacted(Message("assistant", message), masks).content
            error = actual, known, message, [message]
        scope = self.written.scopes.find(event.address) or event.address
        fields = _return_row(scope, call, shown, error, self.at(event.at))
        self.records.append(masked(fields, masks) if masks else fields)

    def _shown(self, pieces: tuple[str, ...], masks: list[str]) -> str:
        """The text of a snapshot: without secrets, and with the beginnings of its long texts."""
        found = [pieces[0]]
        for at in range(1, len(pieces), 2):
            text = pieces[at]
            if len(text) > _SHOWN:  # a secret that is cut would not be known any more
                text = self.masker.text(text, masks)
                text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
            quoted = repr(text)
            if len(quoted) != len(text) + 2:  # nor one whose characters are escaped
                quoted = repr(self.masker.text(text, masks))
            found += [quoted, pieces[at + 1]]
        whole = "".join(found)
        if len(whole) > _SHOWN_ALL:
            whole = f"{self.masker.text(whole, masks)[: _SHOWN_ALL - 1]}…"
        if self.redact is not None and whole:
            whole = self.redacted(Message("user", whole), masks).content[:_SHOWN_ALL]
        return whole

    def new_file(self, file: str) -> int:
        """The number of *file*, which has none yet."""
        number = next(self.ids)
        self.records.append(_file_row(number, file))
        self.written.files.recent[file] = number
        return number

    def _started(self, event: CallStarted) -> None:
        request = event.request
        address = request.address
        prompt = self._prompt(request.messages)
        if self._last_params[0] is request.sampling and self._last_params[1] == request.model:
            params = self._last_params[2]
        else:
            params = self._parameters(request)
        file = None
        if event.file is not None:
            file = self.written.files.find(event.file) or self.new_file(event.file)
        scope, _, name = address.rpartition("/")
        edges = [self.call_of(edge) for edge in event.edges[:_MAX_EDGES]] if event.edges else ()
        number = next(self.ids)
        at = (event.at - self._began) // 1000
        self.records.append(_start_row(
            number, self.written.scopes.find(scope) or scope, name,
            request.ordinal, event.kind, prompt, params, request.n, request.sample, request.digest,
            edges, file, event.line, at, request.timeout,
        ))  # fmt: skip
        self.written.calls.recent[address] = number
        self.totals.start(address, request.model, at)

    def _prompt(self, chain: Messages | None) -> int | None:
        """The number of *chain*, which may be new."""
        # Back to the newest link that has a record here. Runs may share links, and the writer of
        # another one may replace the note at any time: it is one tuple, so it is read and replaced
        # in one step, and a link whose note is gone is known again by its content.
        fresh: list[Messages] = []
        mark, link, number = self._mark, chain, None
        while link is not None:
            noted = link.noted
            if noted is not None and noted[0] is mark:
                number = noted[1]
                break
            fresh.append(link)
            link = link.parent
        written, records, ids = self.written, self.records, self.ids
        while fresh:
            link = fresh.pop()
            message_kept = link.kept
            if (
                message_kept is None
                or len(message_kept.content) > _SHORT_TEXT
                or not message_kept.bare
            ):
                number = self._stored_node(link, message_kept, number)
            else:
                # A role and a short text alone. What follows a message that is new is new, too.
                short, spans = (message_kept.role, message_kept.content), link.spans
                message = number_found = written.messages.find(short)
                if message is None:
                    message = self._short(short)
                origins = self._origins(spans) if spans else None
                key = number, message, origins
                node = written.nodes.find(key) if number_found is not None else None
                if node is None:
                    node = next(ids)
                    records.append(_prompt_row(node, number, message, link.digest, origins))
                    written.nodes.recent[key] = node
                    self._size += _LINK
                number = node
            link.noted = mark, number
            if self._size > _PIECE:
                self._flush()
        return number

    def _stored_node(
        self, link: Messages, short_message: Message | None, parent: int | None
    ) -> int:
        """The same for a message that is long or goes on: it is known again by its digest."""
        key = link.digest, link.trail
        number = self.written.nodes.find(key)
        if number is None:
            origins: tuple[object, ...] | None = None
            if short_message is not None:
                message = self.message_number(short_message)
                origins = self._origins(link.spans)
            else:
                message = self.message_number(link.message) if self._whole else self._longer(link)
            number = next(self.ids)
            self.records.append(_prompt_row(number, parent, message, key[0], origins))
            self.written.nodes.recent[key] = number
        return number

    def _longer(self, link: Messages) -> int:
        """The number of a message that goes on, of which only what was added is stored."""
        self._inline = 0
        rope = link.rope
        later: list[Rope] = []
        while rope.base is not None and rope not in self.written.ropes:
            later.append(rope)
            rope = rope.base
        later.reverse()
        added = "".join(rope.added for rope in later)
        # A secret may begin in the rope and end in what was added: no record alone would show it.
        if self.masker.straddles(rope.tail, added):
            return self.message_number(link.message)
        base = self.written.ropes.get(rope)
        if base is None:
            first = Message(link.outline.role, str(rope), name=link.outline.name)
            base = self.message_number(first)
            self.written.ropes.put(rope, base)
            later.insert(0, rope)  # of the message that goes on, the origins are told here
        masks: list[str] = []
        more = self._more(link.outline, masks) if not link.outline.bare else {}
        origins = self._origins(joined((len(r.added), r.spans) for r in later))
        if origins:
            more["from"] = origins
        number, stored = next(self.ids), self.long(added, masks)
        fields = _longer_row(number, base, stored, more or None)
        self.records.append(masked(fields, masks))
        self.written.ropes.put(link.rope, number)
        return number

    def _origins(self, spans: Spans) -> tuple[int | str | None, ...] | None:
        """Lengths and origins of *spans* in turn, by number; None if nothing is known of them."""
        if len(spans) == 2:
            length, origin = spans
            at = (id(origin[0]), origin[1]) if type(origin) is tuple else None
            site = self.written.sites.get(at) if at is not None else None
            one = site[1] if site is not None else self._origin(origin)
            return None if one is None else (length, one)
        origins: list[Any] = []
        for length, origin in zip(spans[::2], spans[1::2], strict=True):
            number = self._origin(origin)
            if origins and origins[-1] == number:
                origins[-2] += length
            else:
                origins += (length, number)
        return tuple(origins) if len(origins) > 2 or (origins and origins[1] is not None) else None

    def _origin(self, origin: Origin) -> int | str | None:
        if not isinstance(origin, tuple):
            return self.call_of(origin) if origin is not None else None
        key = (id(origin[0]), origin[1])
        site = self.written.sites.get(key)
        if site is None:
            file, line = line_of(origin) or ("", 0)
            site = origin[0], self._line(file, line)  # held, so that its id stays its own
            self.written.sites[key] = site
        return site[1]

    def _line(self, file: str, line: int) -> int:
        number = self.written.lines.get((file, line))
        if number is None:
            of = self.written.files.find(file) or self.new_file(file)
            number = next(self.ids)
            self.records.append(_line_row(number, of, line))
            self.written.lines[file, line] = number
        return number

    def message_number(self, message: Message) -> int:
        """The number of *message*, which may be new."""
        content = message.content
        if len(content) <= _SHORT_TEXT and message.bare:
            content_key = message.role, content
            return self.written.messages.find(content_key) or self._short(content_key)
        provided = message.provider_fields
        key = digest_of(*message.fields()), *(() if provided is None else (provided,))
        number = self.written.messages.find(key)
        if number is None:
            answer = self.written.answers.find(content) if message.bare else None
            number = next(self.ids)
            if answer is not None and message.role == "assistant":
                self.records.append(_message_row(number, "assistant", answer))
            else:
                self.records.append(self._unusual(number, message))
            self.written.messages.recent[key] = number
        return number

    def _short(self, role_and_text: tuple[RoleName, str]) -> int:
        """The number of a new message that has a role and a short text alone."""
        role, content = role_and_text
        number = next(self.ids)
        self._size += len(content)
        answer = self.written.answers.find(content) if role == "assistant" else None
        if answer is not None:
            self.records.append(_message_row(number, role, answer))
        elif self.redact is None:
            self.records.append(_message_row(number, role, content))
        else:
            self.records.append(self._unusual(number, Message(role, content)))
        self.written.messages.recent[role_and_text] = number
        return number

    def _unusual(self, number: int, message: Message) -> tuple[object, ...]:
        """The record of a *message* that is long, has more than a text, or is redacted."""
        masks: list[str] = []
        self._inline = 0
        shown = self.redacted(message, masks)
        more = self._more(shown, masks) if not shown.bare else None
        stored = self.long(shown.content, masks)
        return masked(_message_row(number, message.role, stored, more), masks)

    def _more(self, message: Message, masks: list[str]) -> dict[str, object]:
        """The fields of a message besides role and text."""
        fields: dict[str, object] = {}
        if message.media:
            fields["media"] = [(offset, self._medium(medium)) for offset, medium in message.media]
        if message.tool_calls:
            calls = message.tool_calls
            fields["calls"] = record.calls_data(calls, lambda text: self.long(text, masks))
        for key, value in (
            ("of", message.tool_call_id),
            ("name", message.name),
            ("error", message.has_error),
        ):
            if value:
                fields[key] = value
        if (provided := message.provider_fields) is not None:
            fields["provided"] = record.provided_data(provided, lambda t: self.answer(t, masks))
        return fields

    def _medium(self, medium: Media) -> int:
        """The number of an image or a sound, which is written once however often it is said."""
        number = self.written.media.find(medium.digest)
        if number is None:
            masks: list[str] = []
            data = self.long(medium.data, masks)
            number = next(self.ids)
            about = medium.kind, medium.url, data, medium.mime, medium.detail
            fields = _medium_row(number, *about)
            self.records.append(masked(fields, masks))
            self.written.media.recent[medium.digest] = number
        return number

    def redacted(self, message: Message, masks: list[str]) -> Message:
        """*message* after the user's hook; *masks* gets a note if the hook changed it."""
        if self.redact is None:
            return message
        try:
            shown = self.redact(message)
            record.checked(str, shown.content)
        except (Exception, SystemExit) as error:  # the thread that writes must not end by it
            shown = Message(message.role, f"[redaction failed: {type(error).__name__}]")
        if shown.fields() != message.fields():
            masks.append("redact")
        return shown

    def long(self, text: str | bytes, masks: list[str]) -> Any:
        """*text*, or what stands for it when it is long: then it is written in pieces before.

        It is long, too, when the record has much text already, which must fit into a block.
        """
        length = len(text)
        if length <= _TINY or self._inline + length <= LONG_TEXT:
            self._inline += length
            self._size += length
            return text
        is_text = isinstance(text, str)
        if isinstance(text, str):
            data = self.masker.text(text, masks).encode("utf-8", "surrogatepass")
        else:
            data = self.masker.refresh().masked_bytes(text, masks)
        # The pieces stand before the record that refers to them, each in a block of its own: a
        # crash between them leaves pieces that nothing refers to, and no record without its text.
        number = next(self.ids)
        for index, start in enumerate(range(0, len(data), LONG_TEXT)):
            self.records.append(_piece_row(number, index, data[start : start + LONG_TEXT]))
            self._flush()
        return {"$blob": [number, len(data), is_text]}

    def _parameters(self, request: Request) -> int:
        key = (request.model, request.sampling.canonical())
        number = self.written.params.find(key)
        if number is None:
            self._inline = 0
            number = next(self.ids)
            masks: list[str] = []
            stored = self.long(key[1], masks)
            self.records.append(masked(_parameters_row(number, request.model, stored), masks))
            self.written.params.recent[key] = number
        self._last_params = request.sampling, request.model, number
        return number

    def _dispatched(self, event: CallDispatched) -> None:
        waited = self._waited(event.waited) if event.waited else None
        call, at = self.written.calls.find(event.address), (event.at - self._began) // 1000
        self.records.append(_dispatch_row(call or event.address, event.attempt, at, waited))
        self.totals.of(event.address).attempts += 1

    def _waited(self, nanoseconds: Mapping[str, int]) -> dict[str, int] | None:
        return {why: took // 1000 for why, took in nanoseconds.items() if took >= 1000} or None

    def _call_ended(self, event: CallEnded) -> None:
        response = event.response
        assert response is not None
        at, address = (event.at - self._began) // 1000, event.address
        totals = self.totals.end(address, at)
        if event.source is None:
            totals.answered += 1
            totals.spend(response)
        else:
            totals.recall(response)
        samples = response.samples
        first, size = samples[0] if len(samples) == 1 else None, 0
        if first is not None:
            size = len(first.text)
            if first.tool_calls or first.reasoning or first.provider_fields is not None:
                size += _others(first)
        if response.prompt_logprobs is not None:
            from appl.tracing.recording.further_events import hides_prompt

            if hides_prompt(self, response):
                response = replace(response, prompt_logprobs=None)
        is_unusual = self.redact is not None or response.vectors is not None
        if first is None or size > LONG_TEXT or is_unusual:
            masks: list[str] = []
            data = record.response_data(response, lambda text: self.answer(text, masks))
            if masks and self.redact is not None:
                untold = [(text, reason, None, *more) for text, reason, _, *more in data[0]]
                data = (untold, *data[1:])
            self.end(event, record.ANSWERED, data, None, masks)
            return
        text = first.text
        self._size += size
        data = record.response_data(response)
        lengths = _chunks().lengths(event.chunks) if event.chunks else None
        is_usual = not self.firsts and event.source is None and first.tokens is None
        about = None if is_usual else self._about_end(event)
        call = self.written.calls.find(address)
        ended = _end_row(call or address, record.ANSWERED, data, at, lengths, None, about)
        self.records.append(ended)
        if call is not None and len(text) > _TINY and not self._whole:
            self.written.answers.recent[text] = call

    def end(
        self,
        event: CallEnded,
        status: int,
        value: object,
        texts: list[Any] | None,
        masks: list[str],
    ) -> None:
        lengths = _chunks().lengths(event.chunks) if event.chunks else None
        call, at, about = self.call_of(event.address), self.at(event.at), self._about_end(event)
        fields = _end_row(call, status, value, at, lengths, texts, about)
        self.records.append(masked(fields, masks))

    def _about_end(self, event: CallEnded) -> dict[str, object] | None:
        """When the first chunk of a call came, and which other call it was answered from."""
        about: dict[str, object] = {}
        first = self.firsts.pop(event.address, None)
        if first is not None:
            about["first"] = self.at(first)
        if event.source is not None:
            about |= {"source": event.source.kind, "of": event.source.of}
        samples = event.response.samples if event.response is not None else ()
        if self.redact is None and any(sample.tokens is not None for sample in samples):
            about |= self._tokens(samples)
        return about or None

    def _tokens(self, samples: tuple[Sample, ...]) -> dict[str, object]:
        """The token ids of *samples* and of their prompts."""
        if self._token_writer is None:
            from appl.tracing.recording.token_writer import TokenWriter  # few backends keep ids

            self._token_writer = TokenWriter(self._bytes, self.masker.finds)
        facts = self._token_writer.facts(samples)
        return {} if facts is None else {"tokens": facts}

    def _bytes(self, data: bytes) -> int:
        """The number of a piece that holds *data*, which is written once."""
        key = digest_of(data)
        number = self.written.vectors.find(key)
        if number is None:
            number = next(self.ids)
            self.records.append(_piece_row(number, 0, data))
            self.written.vectors.recent[key] = number
            self._size += len(data)
            if self._size > _PIECE:
                self._flush()
        return number

    def answer(self, text: str | bytes, masks: list[str]) -> object:
        if isinstance(text, bytes):  # a vector, which is written once however many answers have it
            return {"$blob": [self._bytes(text), len(text), False]}
        return self.long(self.redacted(Message("assistant", text), masks).content, masks)

    def _delivered(self, event: Delivered) -> None:
        call, at = self.written.calls.find(event.address), (event.at - self._began) // 1000
        self.records.append(_delivery_row(call or event.address, at))

    def _encoded(self, item: bytes) -> None:
        self._flush()
        self._packed.append(item)

    def _closing(self, item: Closing) -> None:
        at, totals = self.at(item.at), self.totals.whole.as_data()
        failures = self.failure_counts()
        if failures is not None:
            totals |= {name: count for name, count in failures.as_data().items() if count}
        self.records.append(_close_row(item.reason, item.error, at, totals, self.totals.sums()))
        self._closed = True
        raise _Closed


_HANDLERS: dict[type, Callable[[EventEncoder, Any], None]] = {
    ScopeEntered: EventEncoder._scope,
    ScopeLeft: EventEncoder._left,
    WithError: EventEncoder._with_error,
    CallStarted: EventEncoder._started,
    CallDispatched: EventEncoder._dispatched,
    CallEnded: EventEncoder._call_ended,
    Delivered: EventEncoder._delivered,
    Closing: EventEncoder._closing,
    bytes: EventEncoder._encoded,
}
"""The methods for the kinds of items that every run has."""


def _chunks() -> ModuleType:
    from appl.tracing.format import chunks  # few answers are streamed

    return chunks


def _others(sample: Sample) -> int:
    """The length of all but the text: calls of tools, reasoning, fields of the provider."""
    calls, provided = sum(len(c.arguments) for c in sample.tool_calls), sample.provider_fields
    return calls + len(sample.reasoning or "") + (len(provided.fields) if provided else 0)


def masked(fields: tuple[object, ...], masks: list[str]) -> tuple[Any, ...]:
    return (MASKED, sorted(set(masks)), fields) if masks else fields


def _unexpected(what: str, error: Exception) -> None:
    raise AssertionError(f"{what} is encoded before anything is") from error
