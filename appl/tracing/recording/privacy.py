"""Private traces: what is shown in place of texts, and what is sealed for a replay.

Three modes. *full* stores texts. *redacted* stores what the user's ``redact`` leaves of them (all
of a text is left out without one), and seals answers, results of tools and observations under the
run key, so that a replay needs trace and key, and reading neither. *digests* stores no text: a
keyed digest stands for each, by which another run can be checked, and nothing is replayed.

Invariant: records pass here on their way to the file, after secrets were masked, and no other way;
a content digest is stored as its HMAC under the run key, so that nobody can try texts against it.
A kind of record, or a field of one, that the table does not know is refused, and so is a field that
declares no content: it may hold a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from appl.backend import NUMBERS
from appl.prompt import Message, digest_of
from appl.tracing.format import codec
from appl.tracing.format.allowance import unlimited
from appl.tracing.format.keys import RunKey
from appl.tracing.format.record import ANSWERED
from appl.tracing.format.recorded_errors import FACTS
from appl.tracing.format.sealing import Sealer
from appl.tracing.format.table import (
    EVERY,
    KINDS,
    MASKED,
    REDACTED,
    SEALED,
    CloseRecord,
    Content,
    EndRecord,
    FileRecord,
    HeaderRecord,
    Kind,
    LongerRecord,
    MediumRecord,
    MessageRecord,
    ObservationRecord,
    PieceRecord,
    Record,
    RetryRecord,
    ToolEndRecord,
    ToolStartRecord,
    as_record,
    contents_of,
    stored,
    tag_of,
)

Mode = Literal["full", "redacted", "digests"]
SHARED: Final = "shared"
"""A file for a stranger: as redacted, and nothing is sealed."""
Redact = Callable[[Message], Message]

_PARAMETERS = NUMBERS | {"normalize", "choice_end"}
"""Parameters that say nothing of what is talked about."""
_LASTING = frozenset(
    {
        HeaderRecord,
        EndRecord,
        RetryRecord,
        ToolStartRecord,
        ToolEndRecord,
        ObservationRecord,
        CloseRecord,
        MediumRecord,
    }
)
"""Kinds of records whose originals a replay may need."""
_PIECE = tag_of(PieceRecord)
_NOTHING = stored(FileRecord("T", 0, ""))
"""The record that stands in place of a piece of a text."""
_NO_NAMES, _REDACTED = (), (REDACTED,)
_STAYS = frozenset({Content.PLAIN, Content.OWNER, Content.PATH})

_MORE = frozenset(["media", "calls", "of", "name", "error", "from", "provided"])
_ABOUT = frozenset(["first", "source", "of", "tokens"])

_HEADER = frozenset(
    """
    format program entry settings backend model models programs git versions seed parent sets
    profile places backends redaction privacy timers outer
""".split()
)
_ENTRY = frozenset(["kind", "file", "function", "argv", "argc", "directory"])

_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,64}")

_new: Any = tuple.__new__  # takes half the time of a named tuple's own method

Show = Callable[["Veil", Any, Any], object]
"""A function from a value and its record to the value that is shown."""


class Veil:
    """Turns the records of a run into those of a private trace, for one writer.

    *redact* sees each message, answers as the assistant's.
    """

    def __init__(
        self, mode: Mode | Literal["shared"], key: RunKey, redact: Redact | None = None
    ) -> None:
        self._mode, self._key, self._redact = mode, key, redact
        self._sealer = Sealer(key) if mode == "redacted" else None

    def about(self) -> dict[str, str]:
        """The header's fields about it."""
        return {"mode": self._mode, "key": self._key.identity}

    def filter(self, items: list[bytes]) -> list[bytes]:
        """*items* as they are stored."""
        return [packed for item in items if (packed := b"".join(self._item(item)))]

    def _item(self, item: bytes) -> Iterator[bytes]:
        for record in codec.unpack(item, unlimited()):
            names, fields = (record[1], record[2]) if record[0] == MASKED else (_NO_NAMES, record)
            if fields[0] != _PIECE:
                yield self._record(names, fields)
            elif self._sealer is not None:  # a piece of a long text, whose record follows
                yield self._sealed(self._sealer, record, _marked(names), _NOTHING)

    def _record(self, names: Sequence[str], fields: list[Any]) -> bytes:
        most, places, count = _PLACES.get(fields[0], _UNKNOWN)
        if len(fields) > most:
            raise _unknown(fields[0])
        if places is not None:  # most records of a trace, so no object is made of them
            for place in places:
                fields[place] = self._key.digest(fields[place])
            if len(fields) > count:
                del fields[count:]
            return codec.pack((MASKED, names, fields) if names else fields)
        record = as_record(fields)
        shown = self._shown(record)
        if shown is record or shown == record:
            return codec.pack((MASKED, names, fields) if names else fields)
        marks = _marked(names)
        # A replay may need the record as it was; of messages, only results of tools.
        is_result = isinstance(record, MessageRecord) and record.role == "tool"
        if self._sealer is not None and (is_result or type(record) in _LASTING):
            return self._sealed(self._sealer, _original(names, fields), marks, stored(shown))
        return codec.pack((MASKED, marks, stored(shown)))

    def _shown(self, record: Record) -> Record:
        """The form of *record* in a private trace, each field by its class of content."""
        if isinstance(record, MessageRecord):
            return self._message(record, record.content, record.role)
        if isinstance(record, LongerRecord):
            return self._message(record, record.text, "user")
        kind, values = type(record), [*record]
        for place, show in _PLANS[kind]:
            if values[place] is not None:
                values[place] = show(self, values[place], record)
        shown: Record = _new(kind, values)
        return shown

    def _sealed(
        self, sealer: Sealer, original: object, names: Sequence[str], shown: object
    ) -> bytes:
        sealed = sealer.seal(codec.pack(original), codec.pack(shown))
        return codec.pack((SEALED, sealed, names, shown))

    # -- texts -----------------------------------------------------------------------------

    def text(self, text: object, role: str = "assistant") -> str:
        """The stand-in for *text*."""
        if isinstance(text, dict):  # kept in pieces
            return f"[{text['$blob'][1]} bytes]"
        if not isinstance(text, str) or not text:
            return ""
        if self._mode == "digests":
            return digest_shown(self._key, text)
        if self._redact is None:
            return f"[{len(text)} characters]"
        return self._left(self._redact, text, role, None)[0]

    def _left(
        self, redact: Redact, text: str, role: str, name: str | None
    ) -> tuple[str, str | None]:
        """A text and its speaker's name after the user's hook."""
        try:
            redacted = redact(Message(role, text, name=name))  # type: ignore[arg-type]
            if isinstance(redacted.content, str) and isinstance(redacted.name, str | None):
                return redacted.content, redacted.name
            return "[redaction failed: TypeError]", None
        except Exception as error:
            return f"[redaction failed: {type(error).__name__}]", None

    def _error(self, error: object, record: Record) -> object:
        if not isinstance(error, list):
            return error
        actual, nearest, message, args, *facts = error
        _check_names("error", facts[0] if facts else {}, frozenset(FACTS))
        arguments = [
            self.text(argument) if isinstance(argument, str | dict) else None for argument in args
        ]
        return [actual, nearest, self.text(message), arguments, *facts]

    def _calls(self, calls: Any) -> list[object]:
        return [[_name(id), _name(name), self.text(words)] for id, name, words in calls]

    # -- one method for each content: what is shown of a field ---------------------------------

    def _facts(self, facts: Any, record: Record) -> object:
        _check_names(record.tag, facts, _HEADER)
        entry = facts.get("entry")
        if isinstance(entry, dict):
            _check_names(record.tag, entry, _ENTRY)
        if isinstance(entry, dict) and entry.get("argv"):
            words = [self.text(word, "user") for word in entry["argv"]]
            return {**facts, "entry": {**entry, "argv": words}}
        return facts

    def _message(self, record: MessageRecord | LongerRecord, content: object, role: str) -> Record:
        """A message with the text and the details that are shown of it."""
        if isinstance(content, int) and record.more is None:  # an answer, as it is shown there
            return record
        more: dict[str, Any] = dict(record.more or {})
        _check_names(record.tag, more, _MORE)
        more.pop("from", None)
        more.pop("provided", None)
        if "calls" in more:
            more["calls"] = self._calls(more["calls"])
        name = more.pop("name", None)
        if self._redact is None or not isinstance(content, str):
            text = self.text(content, role)
        else:
            text, name = self._left(self._redact, content, role, name)
            more |= {"name": name} if name else {}
        shown: Record = _new(type(record), (*record[:-2], text, more or None))
        return shown

    def _digest(self, digest: Any, record: Record) -> bytes:
        return self._key.digest(digest)

    def _options(self, canonical: Any, record: Record) -> str:
        try:
            options = json.loads(canonical)
        except (TypeError, ValueError, RecursionError):
            return "{}"
        if not isinstance(options, dict):
            return "{}"
        shown = {name: value for name, value in options.items() if name in _PARAMETERS}
        if shown == options:
            return str(canonical)
        summary = {**shown, "redacted": sorted({*options} - _PARAMETERS)}
        return json.dumps(summary, sort_keys=True)

    def _answer(self, value: Any, end: EndRecord) -> object:
        if end.status != ANSWERED:
            return self._error(value, end)
        samples, usage, model, _, method, *rest = value
        shown, rest = [self._sample(sample) for sample in samples], rest[:3]  # no tokens of prompts
        return [shown, usage, model, None, method, *rest]

    def _about(self, about: Any, record: Record) -> object:
        _check_names(record.tag, about, _ABOUT)
        return {name: value for name, value in about.items() if name != "tokens"}

    def _sample(self, sample: Any) -> list[object]:
        text, reason, _, *more = sample
        if not more:
            return [self.text(text), reason, None]
        calls, reasoning, *_ = more
        thought = None if reasoning is None else self.text(reasoning)
        return [self.text(text), reason, None, self._calls(calls), thought]

    def _word(self, name: object, record: Record) -> object:
        return _name(name)

    def _result(self, value: object, end: ToolEndRecord) -> object:
        return value if end.status == ANSWERED else self._error(value, end)

    def _observed(self, value: object, record: Record) -> object:
        is_harmless = value is None or isinstance(value, bool | int | float)
        return value if is_harmless else None


def shielded(kind: Kind) -> dict[str, Content]:
    """The fields of *kind* of which something else may be shown. Raises ``ValueError``."""
    contents: dict[str, Content] = {}
    for name, content in contents_of(kind).items():
        if content is None:
            raise ValueError(f"a record {tag_of(kind)!r} may hold a text: {name} has no content")
        if content not in _STAYS:
            contents[name] = content
    return contents


_SHIELDED = {kind: shielded(kind) for kind in EVERY}
_SHOWS: dict[Content, Show] = {
    Content.FACTS: Veil._facts,
    Content.TEXT: lambda veil, value, record: veil.text(value),
    Content.ERROR: Veil._error,
    Content.ANSWER: Veil._answer,
    Content.RESULT: Veil._result,
    Content.ABOUT: Veil._about,
    Content.OBSERVED: Veil._observed,
    Content.OPTIONS: Veil._options,
    Content.WORD: Veil._word,
    Content.DIGEST: Veil._digest,
    Content.BYTES: lambda veil, value, record: b"",
    Content.OMITTED: lambda veil, value, record: None,
    Content.ORIGINS: lambda veil, value, record: None,
}
_PLANS = {
    kind: [(kind._fields.index(name), _SHOWS[content]) for name, content in fields.items()]
    for kind, fields in _SHIELDED.items()
    if kind not in (PieceRecord, MessageRecord, LongerRecord)  # shown as a whole
}
"""The places of the fields of each kind that are not shown as they are, and what shows them."""


def _places_of(kind: Kind) -> tuple[int, tuple[int, ...] | None, int]:
    """The most fields of *kind*, the places of its digests, and the number of its fields kept.

    Origins at the end are not kept. Without places, more than that is changed in a private trace.
    """
    most = count = len(kind._fields)
    shielded = {kind._fields.index(name): content for name, content in _SHIELDED[kind].items()}
    if shielded.get(most - 1) is Content.ORIGINS:
        count = most - 1
        del shielded[count]
    has_texts = any(content is not Content.DIGEST for content in shielded.values())
    return most, None if has_texts else tuple(shielded), count


_PLACES = {tag: _places_of(kind) for tag, kind in KINDS.items()}
_UNKNOWN: tuple[int, None, int] = (-1, None, 0)


def _unknown(tag: object) -> ValueError:
    """The error for a record of an unknown kind, or with more fields than its kind has."""
    what = f"a field that a record {tag!r:.20} did not have" if tag in KINDS else "its kind"
    return ValueError(f"a record {tag!r:.20} may hold a text: {what} is not known")


def _check_names(kind: str, fields: Mapping[str, Any], valid_names: frozenset[str]) -> None:
    unknown = sorted(set(fields) - valid_names)
    if unknown:
        raise ValueError(f"a record {kind!r} may hold a text: {unknown[0]!r:.40} is not known")


def _name(name: object) -> object:
    """A name or an id that a model wrote, where it is one."""
    return name if isinstance(name, str) and _WORD.fullmatch(name) else "[name]"


def digest_shown(key: RunKey, text: str) -> str:
    """The stand-in for *text* where only digests are stored."""
    return f"[{len(text)} characters, hm:{key.digest(digest_of(text)).hex()}]"


def _marked(names: Sequence[str]) -> Sequence[str]:
    """*names* of what was taken out of a record, and that of what is private."""
    return sorted({*names, REDACTED}) if names else _REDACTED


def _original(names: Sequence[str], fields: list[object]) -> object:
    """The record as it was before: masked, if a secret was in it."""
    return (MASKED, names, fields) if names else fields
