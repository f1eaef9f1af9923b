"""Messages, prompts and media of a process, made of its records when somebody asks for them.

A number stands for what a record before a *place* holds. All is read under the lock of the file.

Invariant: a prompt that is given out has the digest that was recorded for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from appl.prompt import NOWHERE, ROLES, Media, Message, Messages, Origin, Rope, Spans
from appl.tracing.format import record, table
from appl.tracing.format.record import checked, optional, word

if TYPE_CHECKING:
    from appl.tracing.reading.process_records import ProcessRecords


def check_message(process: ProcessRecords, place: int, newest: object) -> None:
    """Read the message, prompt or medium of the record *newest*, the last one before *place*."""
    if isinstance(newest, table.MediumRecord):
        medium_before(process, place, newest.id)
    elif isinstance(newest, table.MessageRecord):
        message_before(process, place, newest.id)
    elif isinstance(newest, table.LongerRecord):
        rope_before(process, place, newest.id)
    elif isinstance(newest, table.PromptRecord):
        prompt_before(process, place, newest.id)


def medium_before(process: ProcessRecords, place: int, number: int) -> Media:
    """The image or sound of that *number*."""
    place = process.media.before(place, number)
    cached: Media | None = process.stored.recent.get(place)
    if cached is not None:
        return cached
    from appl.prompt import Audio, Image  # few prompts hold any

    spent, medium = process.stored.allowance.used, process.stored.record(place)
    sort: type[Image | Audio] = {"image": Image, "audio": Audio}[medium.kind]
    content = checked(bytes, process.long(medium.data))
    url, detail = optional(str, medium.url), optional(str, medium.detail)
    medium_value = sort.restored(url, content, checked(str, medium.mime), detail)
    return process.stored.keep(place, medium_value, spent)


def message_before(process: ProcessRecords, place: int, number: int) -> Message:
    """The message of that *number*."""
    return message_at(process, process.messages.before(place, number))


def message_at(process: ProcessRecords, place: int) -> Message:
    """The message that the record at *place* holds."""
    cached: Message | None = process.stored.recent.get(place)
    if cached is not None:
        return cached
    spent = process.stored.allowance.used
    _, _, role, content, more = process.stored.record(place)
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}")
    if type(content) is int and role == "assistant" and more is None:
        end = process.ends.get(content, place)  # the message is the answer of a call before it
        response = process.answer_at(end)[0] if end < place else None
        if response is None or not response.samples:
            caller = process.callers[content]
            raise ValueError(f"a message is the answer of {caller}, which has none")
        message = Message("assistant", response.samples[0].text)
    else:
        message = _message_of(process, place, word(role), checked(str, process.long(content)), more)
    return process.stored.keep(place, message, spent)


def _message_of(process: ProcessRecords, place: int, role: Any, text: str, more: Any) -> Message:
    if more is None:
        return Message(role, text)
    return Message(
        role,
        text,
        tuple(
            (checked(int, at), medium_before(process, place, number))
            for at, number in more.get("media", ())
        ),
        record.calls_from(more.get("calls", ()), process.long),
        optional(str, more.get("of")),
        optional(str, more.get("name")),
        checked(bool, more.get("error", False)),
        record.provided_from(more.get("provided"), process.long),
    )


def rope_before(process: ProcessRecords, place: int, number: int) -> tuple[Message, Rope] | None:
    """The message of that *number* without its text, and its text, if it goes on another."""
    stored, todo = process.stored, list[tuple[int, Any]]()
    rope: tuple[Message, Rope] | None = None
    # Back to a message that is whole, or to one that was read lately: each may go on the one
    # before for thousands of times.
    while number in process.longer:
        place = process.longer.before(place, number)
        rope = stored.recent.get(place)
        if rope is not None:
            break
        longer = stored.record(place)
        todo.append((place, longer))
        number = longer.message
    for at, longer in reversed(todo):
        spent = stored.allowance.used
        rope = stored.keep(at, _longer(process, at, longer, rope), spent)
    return rope


def _longer(
    process: ProcessRecords, place: int, longer: Any, before: tuple[Message, Rope] | None
) -> tuple[Message, Rope]:
    """A message that goes on the one *before*; it is put together when somebody reads it."""
    if before is not None:
        message, rope = before
    else:
        message = message_before(process, place, longer.message)
        rope = Rope(None, message.content)
    outline = _message_of(process, place, message.role, "", longer.more)
    text = checked(str, process.long(longer.text))
    earlier, own = _spans(process, (longer.more or {}).get("from"), rope, len(text))
    if earlier:  # what a message was that goes on is told where it does
        rope = Rope(None, message.content, earlier)
    return outline, Rope(rope, text, own)


def _spans(
    process: ProcessRecords, data: object, rope: Rope | None, length: int
) -> tuple[Spans, Spans]:
    """The origins of *rope*, if they are told, and of a text of *length* after it.

    Where a text was masked, they no longer fit and nothing is known.
    """
    if data is None:
        return NOWHERE, NOWHERE
    spans: Spans = tuple(
        entry if i % 2 == 0 else _origin(process, entry)
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


def _origin(process: ProcessRecords, reference: object) -> Origin:
    if not isinstance(reference, int):
        return cast(Origin, optional(str, reference))
    site = process.lines.get(reference)
    return site if site is not None else process.callers[reference]


def prompt_before(process: ProcessRecords, place: int, number: int | None) -> Messages:
    """The prompt of that *number*."""
    stored, todo = process.stored, list[tuple[int, Any]]()
    link: Messages | None = None
    while number is not None:
        place = process.prompts.before(place, number)
        link = stored.recent.get(place)
        if link is not None:
            break
        prompt = stored.record(place)
        todo.append((place, prompt))
        number = prompt.parent
    for at, prompt in reversed(todo):
        spent = stored.allowance.used
        link = stored.keep(at, _link(process, at, prompt, link), spent)
    assert link is not None
    return link


def _link(process: ProcessRecords, place: int, prompt: Any, above: Messages | None) -> Messages:
    rope = rope_before(process, place, prompt.message)
    if rope is not None:
        outline, text = rope
        link = Messages(above, outline, rope=text)
    else:
        message = message_before(process, place, prompt.message)
        _, spans = _spans(process, prompt.origins, None, len(message.content))
        link = Messages(above, message, spans=spans)
    if process.stored.edited:
        if prompt.digest is not None:
            link.has_digest(prompt.digest)
    elif rope is not None or process.stored.private or process.stored.marks(place):
        link.has_digest(checked(bytes, prompt.digest))  # a rope is not put together here
    elif link.digest != prompt.digest:
        raise ValueError("a message is not what its digest says")
    return link


def _cut(spans: Spans, at: int) -> tuple[Spans, Spans]:
    """*spans* in two, of the first *at* characters and of the rest."""
    before, after = list[object](), list[object]()
    for length, origin in zip(spans[::2], spans[1::2], strict=True):
        first = min(length, at)
        at -= first
        before += (first, origin) if first else ()
        after += (length - first, origin) if length > first else ()
    return tuple(before), tuple(after)
