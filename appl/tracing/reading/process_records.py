"""The values that the records of one process refer to by numbers, which count from 1 in each.

Short values are made when their records are scanned. Messages, prompts and media
(``stored_messages``), answers and long texts stay in the file, and are made of their records each
time that somebody asks for them.

Invariant: a record refers to records before it, so what it says does not depend on what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from appl.backend import Response
from appl.prompt import Message, Messages
from appl.tracing.format import codec, record, table
from appl.tracing.format.record import checked
from appl.tracing.reading.stored_records import Places, StoredRecords

if TYPE_CHECKING:
    from appl.tracing.format.chunks import Texts

FAR = 1 << 62
"""A place after all others."""
Answer = tuple[Response | None, Sequence[Any], "Texts | None"]
"""A call's response, the lengths of its chunks, and the text of one that failed."""


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
        from appl.tracing.reading import stored_messages  # a plain replay reads no prompt

        with self.stored.reading(place):
            return stored_messages.prompt_before(self, FAR, number)

    def answer(self, place: int) -> Answer:
        """The answer that the record at *place* holds."""
        cached: Answer | None = self.stored.recent.get(place)
        if cached is not None:
            return cached
        with self.stored.reading(place):
            return self.answer_at(place)

    def cuts(self, place: int, sample: int | None) -> Sequence[Any]:
        """The lengths of the chunks of the answer at *place*, which add up to its texts.

        Its first sample has the number *sample*, ``None`` if secrets were taken out of the texts.
        """
        _, cuts, _ = self.answer(place)
        if type(cuts) is tuple:  # it was not streamed
            return cuts
        with self.stored.reading(place):
            return self.checked_cuts(place, sample)

    def result(self, place: int) -> Message:
        """The result of a tool's call, the message that the record at *place* holds."""
        from appl.tracing.reading import stored_messages  # few programs have tools

        with self.stored.reading(place):
            return stored_messages.message_at(self, place)

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
        from appl.tracing.format.recorded_errors import error_from  # few calls fail

        return error_from(data, lambda value: codec.revive(value, self.long), self.long)

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

    def checked_cuts(self, place: int, sample: int | None) -> Sequence[Any]:
        """The lengths of the chunks of the answer at *place*. Raises ``ValueError``."""
        response, cuts, begun = self.answer_at(place)
        if type(cuts) is list and sample is not None:
            from appl.tracing.format.chunks import check, texts_of  # few answers are streamed

            check(cuts, begun or (texts_of(response, sample) if response else {}))
        return cuts
