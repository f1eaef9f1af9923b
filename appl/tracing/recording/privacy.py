"""Private traces: what is shown in place of texts, and what is sealed for a replay.

Three modes. *full* stores texts. *redacted* stores what the user's ``redact`` leaves of them (all
of a text is left out without one), and seals answers, results of tools and observations under the
run key, so that a replay needs trace and key, and reading neither. *digests* stores no text: a
keyed digest stands for each, by which another run can be checked, and nothing is replayed.

Invariant: records pass here on their way to the file, after secrets were masked, and no other way;
a content digest is stored as its HMAC under the run key, so that nobody can try texts against it.
A kind of record, or a field of one, that is not listed here is refused: it may hold a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

from appl.backend import NUMBERS
from appl.prompt import Message, digest_of
from appl.tracing.format import codec, record
from appl.tracing.format.allowance import unlimited
from appl.tracing.format.keys import RunKey
from appl.tracing.format.sealing import REDACTED, SEALED, Sealer
from appl.tracing.recording.secret import MASKED

Mode = Literal["full", "redacted", "digests"]
SHARED: Final = "shared"
"""A file for a stranger: as redacted, and nothing is sealed."""
Redact = Callable[[Message], Message]

_PARAMETERS = NUMBERS | {"normalize"}
"""Parameters that say nothing of what is talked about."""
_LASTING = frozenset("HEAFORZG")
"""Kinds of records whose originals a replay may need."""

_FIELDS: Final = {
    "H": 2, "I": 7, "T": 3, "U": 4, "X": 9, "B": 4, "G": 7, "M": 5, "L": 5, "N": 6, "P": 4, "S": 16,
    "D": 5, "A": 6, "C": 4, "E": 8, "V": 3, "F": 10, "R": 5, "O": 6, "W": 4, "Z": 5,
}  # fmt: skip
"""The most fields of each kind of record that is known here, its tag included."""
_MORE = frozenset(["media", "calls", "of", "name", "error", "from"])
_ABOUT = frozenset(["first", "source", "of"])

_HEADER = frozenset([
    "format", "program", "entry", "settings", "backend", "model", "models", "programs", "git",
    "versions", "seed", "parent", "sets", "profile", "places", "backends", "redaction", "privacy",
])  # fmt: skip
_ENTRY = frozenset(["kind", "file", "function", "argv", "argc", "directory"])

_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,64}")

Shown = Callable[[list[Any]], list[Any]]


class Veil:
    """Turns the records of a run into those of a private trace, for one writer.

    *redact* sees each message, answers as the assistant's.
    """

    def __init__(
        self, mode: Mode | Literal["shared"], key: RunKey, redact: Redact | None = None
    ) -> None:
        self._mode, self._key, self._redact = mode, key, redact
        self._sealer = Sealer(key) if mode == "redacted" else None
        self._shown: dict[str, Shown] = {
            "H": self._header, "X": self._scope, "G": self._medium, "M": self._message,
            "L": self._message, "N": self._node, "P": self._parameters, "S": self._start,
            "A": self._attempt, "E": self._end, "F": self._tool, "R": self._result,
            "O": self._observation, "W": self._warning, "Z": self._close,
        }  # fmt: skip

    def about(self) -> dict[str, str]:
        """What the header says of it."""
        return {"mode": self._mode, "key": self._key.identity}

    def filter(self, items: list[bytes]) -> list[bytes]:
        """*items* as they are stored."""
        return [packed for item in items if (packed := b"".join(self._item(item)))]

    def _item(self, item: bytes) -> Iterator[bytes]:
        for each in codec.unpack(item, unlimited()):
            names, fields = ([], each) if each[0] != MASKED else each[1:]
            if fields[0] != "B":
                yield self._record(names, fields)
            elif self._sealer is not None:  # a piece of a long text, whose record follows
                yield self._sealed(self._sealer, each, names, ["T", 0, ""])

    def _record(self, names: list[str], fields: list[Any]) -> bytes:
        _check(fields)
        make = self._shown.get(fields[0])
        shown = make(list(fields)) if make is not None else fields
        if shown == fields or fields[0] in ("N", "S"):  # of these two only a digest is changed
            return codec.pack((MASKED, names, shown) if names else shown)
        names = sorted({*names, REDACTED})
        if self._sealer is not None and _lasts(fields):
            return self._sealed(self._sealer, _original(names, fields), names, shown)
        return codec.pack((MASKED, names, shown))

    def _sealed(self, sealer: Sealer, original: Any, names: list[str], shown: list[Any]) -> bytes:
        sealed = sealer.seal(codec.pack(original), codec.pack(shown))
        return codec.pack((SEALED, sealed, sorted({*names, REDACTED}), shown))

    # -- texts -----------------------------------------------------------------------------

    def text(self, text: Any, role: str = "assistant") -> str:
        """What is shown in place of *text*."""
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
        """What the user's hook leaves of a text and of its speaker's name."""
        try:
            said = redact(Message(role, text, name=name))  # type: ignore[arg-type]
            if isinstance(said.content, str) and isinstance(said.name, str | None):
                return said.content, said.name
            return "[redaction failed: TypeError]", None
        except Exception as error:
            return f"[redaction failed: {type(error).__name__}]", None

    def _error(self, error: Any) -> Any:
        if not isinstance(error, list):
            return error
        actual, known, message, args, *facts = error
        _check_names("error", facts[0] if facts else {}, frozenset(record.FACTS))
        said = [self.text(each) if isinstance(each, str | dict) else None for each in args]
        return [actual, known, self.text(message), said, *facts]

    def _calls(self, calls: Any) -> list[Any]:
        return [[_word(at), _word(name), self.text(given)] for at, name, given in calls]

    # -- one method a kind: the fields that are shown ----------------------------------------

    def _header(self, fields: list[Any]) -> list[Any]:
        header = dict(fields[1])
        _check_names("H", header, _HEADER)
        entry = header.get("entry")
        if isinstance(entry, dict):
            _check_names("H", entry, _ENTRY)
        if isinstance(entry, dict) and entry.get("argv"):
            header["entry"] = {**entry, "argv": [self.text(word, "user") for word in entry["argv"]]}
        return ["H", header]

    def _scope(self, fields: list[Any]) -> list[Any]:
        return fields[:8]

    def _medium(self, fields: list[Any]) -> list[Any]:
        tag, number, kind, _, _, mime, detail = fields
        return [tag, number, kind, None, b"", mime, detail]

    def _message(self, fields: list[Any]) -> list[Any]:
        tag, number, of, content, *more = fields
        if isinstance(content, int):  # an answer said again: what is left of it is shown
            return fields
        role = of if tag == "M" else "user"
        known = dict(more[0]) if more else {}
        _check_names(tag, known, _MORE)
        known.pop("from", None)
        name = known.pop("name", None)
        if "calls" in known:
            known["calls"] = self._calls(known["calls"])
        if self._redact is None or not isinstance(content, str):
            text, name = self.text(content, role), None
        else:
            text, name = self._left(self._redact, content, role, name)
        known |= {"name": name} if name else {}
        return [tag, number, of, text, *([known] if known else [])]

    def _node(self, fields: list[Any]) -> list[Any]:
        return [*fields[:4], self._key.digest(fields[4])]

    def _parameters(self, fields: list[Any]) -> list[Any]:
        tag, number, model, canonical = fields
        try:
            given = json.loads(canonical)
        except (TypeError, ValueError):
            return [tag, number, model, "{}"]
        kept = {name: value for name, value in given.items() if name in _PARAMETERS}
        if kept == given:
            return fields
        told = json.dumps({**kept, "redacted": sorted({*given} - _PARAMETERS)}, sort_keys=True)
        return [tag, number, model, told]

    def _start(self, fields: list[Any]) -> list[Any]:
        return [*fields[:10], self._key.digest(fields[10]), *fields[11:]]

    def _attempt(self, fields: list[Any]) -> list[Any]:
        return [*fields[:3], self._error(fields[3]), *fields[4:]]

    def _end(self, fields: list[Any]) -> list[Any]:
        tag, call, status, value, at, *later = fields
        facts = [later[-1]] if later and isinstance(later[-1], dict) else []
        _check_names(tag, facts[0] if facts else {}, _ABOUT)
        if status != 0:
            return [tag, call, status, self._error(value), at, *facts]
        samples, usage, model, _, method, *rest = value
        said = [self._sample(sample) for sample in samples]
        return [tag, call, status, [said, usage, model, None, method, *rest], at, *facts]

    def _sample(self, sample: Any) -> list[Any]:
        text, reason, _, *more = sample
        if not more:
            return [self.text(text), reason, None]
        calls, reasoning = more
        thought = None if reasoning is None else self.text(reasoning)
        return [self.text(text), reason, None, self._calls(calls), thought]

    def _tool(self, fields: list[Any]) -> list[Any]:
        return [*fields[:4], _word(fields[4]), self.text(fields[5]), *fields[6:]]

    def _result(self, fields: list[Any]) -> list[Any]:
        return fields if fields[2] == 0 else [*fields[:3], self._error(fields[3]), *fields[4:]]

    def _observation(self, fields: list[Any]) -> list[Any]:
        value = fields[4]
        told = value is None or isinstance(value, bool | int | float)
        return fields if told else [*fields[:4], None, *fields[5:]]

    def _warning(self, fields: list[Any]) -> list[Any]:
        return [*fields[:2], self.text(fields[2]), *fields[3:]]

    def _close(self, fields: list[Any]) -> list[Any]:
        return [*fields[:2], self._error(fields[2]), *fields[3:]]


def _check(fields: list[Any]) -> None:
    """Refuse a record that may say more than is known here. Raises ``ValueError``."""
    kind = fields[0]
    if len(fields) > _FIELDS.get(kind, 0):
        what = f"a field that a record {kind!r:.20} did not have" if kind in _FIELDS else "its kind"
        raise ValueError(f"a record {kind!r:.20} may hold a text: {what} is not known")


def _check_names(kind: str, found: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(set(found) - known)
    if unknown:
        raise ValueError(f"a record {kind!r} may hold a text: {unknown[0]!r:.40} is not known")


def _word(name: Any) -> Any:
    """A name or an id that a model wrote, where it is one."""
    return name if isinstance(name, str) and _WORD.fullmatch(name) else "[name]"


def digest_shown(key: RunKey, text: str) -> str:
    """What stands for *text* where only digests are stored."""
    return f"[{len(text)} characters, hm:{key.digest(digest_of(text)).hex()}]"


def _lasts(fields: list[Any]) -> bool:
    """Whether a replay may need the record as it was; of messages, those are results of tools."""
    return fields[0] in _LASTING or (fields[0] == "M" and fields[2] == "tool")


def _original(names: list[str], fields: list[Any]) -> Any:
    """The record as it was before: masked, if a secret was in it."""
    secret = [name for name in names if name != REDACTED]
    return (MASKED, secret, fields) if secret else fields
