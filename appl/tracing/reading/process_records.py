"""The values that the records of one process refer to by numbers, which count from 1 in each.

Short values are made when their records are scanned. Messages, prompts, media, answers and long
texts stay in the file, and are made of their records each time that somebody asks for them.

Invariant: a record refers to records before it, so what it says does not depend on what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from appl.backend import Response
from appl.prompt import (
    NOWHERE,
    ROLES,
    Media,
    Message,
    Messages,
    Origin,
    Rope,
    Spans,
)
from appl.tracing.format import codec, record, table
from appl.tracing.format.chunks import Texts, check, texts_of
from appl.tracing.format.record import checked, optional, word
from appl.tracing.reading.stored_records import Places, StoredRecords
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall

FAR = 1 << 62
"""A place after all others."""
Answer = tuple[Response | None, Sequence[Any], Texts | None]
"""A call's response, the lengths of its chunks, and the text of one that failed."""
_NO_ANSWER: Answer = (None, (), None)


class ProcessRecords:
    """The records of one process by their numbers, and the values that they stand for.

    ``callers`` are the addresses of calls, and ``ends`` the places of the records that ended them.
    The calls themselves, which hold this, are not in it: the file is closed when they are gone.
    """

    def __init__(self, stored: StoredRecords) -> None:
        self.stored = stored
        self.files: dict[int, str] = {}
        self.lines: dict[int, tuple[str, int]] = {}
        self.scopes: dict[int, str] = {}
        self.parameters: dict[int, tuple[str, str, tuple[str, ...]]] = {}
        self.callers: dict[int, str] = {}
        self.ends: dict[int, int] = {}
        self.pieces: dict[int, list[int]] = {}
        self.media, self.messages, self.longer = Places(), Places(), Places()
        self.prompts = Places()

    # -- for whoever asks, from any thread. Each raises ``TraceError``.

    def prompt(self, number: int) -> Messages:
        """The prompt of that *number*."""
        place = self.prompts.before(FAR, number)
        cached: Messages | None = self.stored.recent.get(place)
        if cached is not None:
            return cached
        with self.stored.reading(place):
            return self.prompt_before(FAR, number)

    def answer(self, place: int) -> Answer:
        """The answer that the record at *place* holds."""
        cached: Answer | None = self.stored.recent.get(place)
        if cached is not None:
            return cached
        with self.stored.reading(place):
            return self.answer_at(place)

    def cuts(self, call: StoredCall) -> Sequence[Any]:
        """The lengths of the chunks of *call*, which add up to its texts."""
        _, cuts, _ = self.answer(call.end)
        if type(cuts) is tuple:  # it was not streamed
            return cuts
        with self.stored.reading(call.end):
            return self.checked_cuts(call)

    def result(self, used: StoredToolUse) -> Message | None:
        """The result of a tool's call."""
        if used.message_number is None:
            return None
        with self.stored.reading(used.message_number):
            return self._message_at(used.message_number)

    def observed(self, place: int) -> object:
        """The value of an observation."""
        with self.stored.reading(place):
            return self.observed_at(place)

    # -- for whoever reads already

    def observed_at(self, place: int) -> object:
        """The value of an observation."""
        return codec.revive(self.stored.record(place).value, self.long)

    def long(self, value: object) -> Any:
        """The text that *value* is or refers to."""
        if not isinstance(value, dict):
            return value
        number, length, is_text = value["$blob"]
        stored = self.stored
        data = b"".join([checked(bytes, stored.record(at).data) for at in self.pieces[number]])
        stored.allowance.spend(len(data))
        stored.allowance.spend_text(data)
        if len(data) != length:
            raise ValueError(f"a long text has {len(data)} bytes instead of {length}")
        return data.decode("utf-8", "surrogatepass") if is_text else data

    def error(self, data: object) -> BaseException:
        """The error that *data* describes."""
        return record.error_from(data, lambda value: codec.revive(value, self.long), self.long)

    # -- messages

    def medium_before(self, place: int, number: int) -> Media:
        """The image or sound of that *number*."""
        place = self.media.before(place, number)
        cached: Media | None = self.stored.recent.get(place)
        if cached is not None:
            return cached
        from appl.prompt import Audio, Image  # few prompts hold any

        spent, medium = self.stored.allowance.used, self.stored.record(place)
        sort: type[Image | Audio] = {"image": Image, "audio": Audio}[medium.kind]
        content = checked(bytes, self.long(medium.data))
        url, detail = optional(str, medium.url), optional(str, medium.detail)
        medium_value = sort.restored(url, content, checked(str, medium.mime), detail)
        return self.stored.keep(place, medium_value, spent)

    def message_before(self, place: int, number: int) -> Message:
        """The message of that *number*."""
        return self._message_at(self.messages.before(place, number))

    def _message_at(self, place: int) -> Message:
        cached: Message | None = self.stored.recent.get(place)
        if cached is not None:
            return cached
        spent = self.stored.allowance.used
        _, _, role, content, more = self.stored.record(place)
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}")
        if type(content) is int and role == "assistant" and more is None:
            message = Message("assistant", self._answer_text(place, content))
        else:
            message = self._message_of(place, word(role), checked(str, self.long(content)), more)
        return self.stored.keep(place, message, spent)

    def _answer_text(self, place: int, number: int) -> str:
        """The text of the answer of a call that ended before *place*."""
        end = self.ends.get(number, place)
        response = self.answer_at(end)[0] if end < place else None
        if response is None or not response.samples:
            raise ValueError(f"a message is the answer of {self.callers[number]}, which has none")
        return response.samples[0].text

    def _message_of(self, place: int, role: Any, text: str, more: Any) -> Message:
        if more is None:
            return Message(role, text)
        return Message(
            role,
            text,
            tuple(
                (checked(int, at), self.medium_before(place, number))
                for at, number in more.get("media", ())
            ),
            record.calls_from(more.get("calls", ()), self.long),
            optional(str, more.get("of")),
            optional(str, more.get("name")),
            checked(bool, more.get("error", False)),
            record.provided_from(more.get("provided"), self.long),
        )

    def rope_before(self, place: int, number: int) -> tuple[Message, Rope] | None:
        """The message of that *number* without its text, and its text, if it goes on another."""
        stored, todo = self.stored, list[tuple[int, Any]]()
        rope: tuple[Message, Rope] | None = None
        # Back to a message that is whole, or to one that was read lately: each may go on the one
        # before for thousands of times.
        while number in self.longer:
            place = self.longer.before(place, number)
            rope = stored.recent.get(place)
            if rope is not None:
                break
            longer = stored.record(place)
            todo.append((place, longer))
            number = longer.message
        for at, longer in reversed(todo):
            spent = stored.allowance.used
            rope = stored.keep(at, self._longer(at, longer, rope), spent)
        return rope

    def _longer(
        self, place: int, longer: Any, before: tuple[Message, Rope] | None
    ) -> tuple[Message, Rope]:
        """A message that goes on the one *before*; it is put together when somebody reads it."""
        if before is not None:
            message, rope = before
        else:
            message = self.message_before(place, longer.message)
            rope = Rope(None, message.content)
        outline = self._message_of(place, message.role, "", longer.more)
        text = checked(str, self.long(longer.text))
        earlier, own = self._spans((longer.more or {}).get("from"), rope, len(text))
        if earlier:  # what a message was that goes on is told where it does
            rope = Rope(None, message.content, earlier)
        return outline, Rope(rope, text, own)

    def _spans(self, data: object, rope: Rope | None, length: int) -> tuple[Spans, Spans]:
        """The origins of *rope*, if they are told, and of a text of *length* after it.

        Where a text was masked, they no longer fit and nothing is known.
        """
        if data is None:
            return NOWHERE, NOWHERE
        spans: Spans = tuple(
            entry if i % 2 == 0 else self._origin(entry)
            for i, entry in enumerate(checked(list, data))
        )
        total = sum(checked(int, length_then) for length_then in spans[::2])
        if any(length_then <= 0 for length_then in spans[::2]) or len(spans) % 2:
            raise ValueError("the origins of a text are not those of a text")
        if total == length:
            return NOWHERE, spans
        if rope is not None and rope.base is None and total == rope.size + length:
            return _cut(spans, rope.size)
        return NOWHERE, NOWHERE

    def _origin(self, reference: object) -> Origin:
        if not isinstance(reference, int):
            return cast(Origin, optional(str, reference))
        site = self.lines.get(reference)
        return site if site is not None else self.callers[reference]

    # -- prompts

    def prompt_before(self, place: int, number: int | None) -> Messages:
        """The prompt of that *number*."""
        stored, todo = self.stored, list[tuple[int, Any]]()
        link: Messages | None = None
        while number is not None:
            place = self.prompts.before(place, number)
            link = stored.recent.get(place)
            if link is not None:
                break
            prompt = stored.record(place)
            todo.append((place, prompt))
            number = prompt.parent
        for at, prompt in reversed(todo):
            spent = stored.allowance.used
            link = stored.keep(at, self._link(at, prompt, link), spent)
        assert link is not None
        return link

    def _link(self, place: int, prompt: Any, above: Messages | None) -> Messages:
        rope = self.rope_before(place, prompt.message)
        if rope is not None:
            link = Messages.roped(above, *rope, closed=False)
        else:
            message = self.message_before(place, prompt.message)
            _, spans = self._spans(prompt.origins, None, len(message.content))
            link = Messages(above, message, spans=spans)
        if self.stored.edited:
            if prompt.digest is not None:
                link.has_digest(prompt.digest)
        elif rope is not None or self.stored.private or self.stored.marks(place):
            link.has_digest(checked(bytes, prompt.digest))  # a rope is not put together here
        elif link.digest != prompt.digest:
            raise ValueError("a message is not what its digest says")
        return link

    # -- answers

    def answer_at(self, place: int) -> Answer:
        """The answer that the record at *place* holds."""
        cached: Answer | None = self.stored.recent.get(place)
        if cached is not None:
            return cached
        return self.answer_of(place, self.stored.record(place))

    def answer_of(self, place: int, end: table.EndRecord) -> Answer:
        """The answer in *end*, the record at *place*."""
        spent = self.stored.allowance.used
        _, _, status, value, _, lengths, texts, _ = end
        response = record.response_from(value, self.long) if status == record.ANSWERED else None
        begun: Texts | None = None
        if lengths is not None and texts is not None:
            begun = {
                (checked(int, sample), checked(int, kind)): checked(str, self.long(text))
                for sample, kind, text in cast(Any, texts)
            }
        answer = response, () if lengths is None else checked(list, lengths), begun
        return self.stored.keep(place, answer, spent)

    def checked_cuts(self, call: StoredCall) -> Sequence[Any]:
        """The lengths of the chunks of *call*. Raises ``ValueError``."""
        response, cuts, begun = self.answer_at(call.end)
        if type(cuts) is list and not call.lost:
            check(cuts, begun or (texts_of(response, call.sample) if response else {}))
        return cuts


def _cut(spans: Spans, at: int) -> tuple[Spans, Spans]:
    """*spans* in two, of the first *at* characters and of the rest."""
    before, after = list[object](), list[object]()
    for length, origin in zip(spans[::2], spans[1::2], strict=True):
        first = min(length, at)
        at -= first
        before += (first, origin) if first else ()
        after += (length - first, origin) if length > first else ()
    return tuple(before), tuple(after)


class StoredCall(RecordedCall):
    """A call whose prompt and answer are read when somebody asks for them.

    ``number`` and ``prompt`` are its numbers in the *process* that asked it, the first 0 if it was
    never started. ``end`` is the place of the record that ends the call, or -1, and ``ended_in``
    the process that wrote it.
    """

    __slots__ = ("end", "ended_in", "number", "process", "prompt")
    number: int
    prompt: int | None
    process: ProcessRecords
    end: int
    ended_in: ProcessRecords

    def __getattr__(self, name: str) -> Any:
        # Only of fields that have no value: these are always asked for in the file.
        if name == "messages":
            return None if self.prompt is None else self.process.prompt(self.prompt)
        if name == "cuts":
            return self.ended_in.cuts(self) if self.end >= 0 else ()
        if name in ("response", "begun"):
            response, _, begun = self.ended_in.answer(self.end) if self.end >= 0 else _NO_ANSWER
            return response if name == "response" else begun
        raise AttributeError(f"a call has no {name!r}", name=name, obj=self)

    def stored_in(self, process: ProcessRecords, number: int, prompt: int | None) -> None:
        """Leave the texts in the records of *process*."""
        self.process, self.number, self.prompt, self.end = process, number, prompt, -1
        del self.messages, self.response, self.cuts, self.begun


class StoredToolUse(ToolUse):
    """A call of a tool whose result, the message at the place ``said``, is read when asked for."""

    __slots__ = ("message_number", "process")
    process: ProcessRecords
    message_number: int | None

    def __getattr__(self, name: str) -> Any:
        if name == "message":
            return self.process.result(self)
        raise AttributeError(f"a call of a tool has no {name!r}", name=name, obj=self)

    def stored_in(self, process: ProcessRecords) -> None:
        """Leave the result in the records of *process*."""
        self.process, self.message_number = process, None
        del self.message
