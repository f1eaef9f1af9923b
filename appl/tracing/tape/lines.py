"""A record of the table as one line of JSON with the names of its fields, and back.

Invariant: a line is UTF-8 on its own, holds no character that a terminal or an editor would obey,
and gives back the record it was made of: ``bytes``, tuples, NaN and lone surrogates too.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, get_args

from appl.tracing.format import codec, table
from appl.tracing.format.allowance import DecodingAllowance

FORMAT = 2
MAX_LINE = 64 << 20
_JOINERS = "\u200c\u200d"  # without which some scripts, and many emoji, are others
_LINE, _LIST, _MAP, _ITEM = 256, 64, 240, 200  # bytes of what is made of each, at most
_FLOAT, BLOB = "$float", "$blob"
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False)
_MISSING: dict[str, object] = {"n": 1, "edges": (), "totals": {}}

Line = dict[str, Any]


def _name(kind: table.Kind) -> str:
    """The name of *kind* in a line, such as ``tool start``."""
    return re.sub("(?<=.)(?=[A-Z])", " ", kind.__name__.removesuffix("Record")).lower()


def _usual(kind: table.Kind) -> Line:
    """The fields of *kind* that a line may leave out, with the values that they have then."""
    usual: Line = {**kind._field_defaults}
    for name in kind._fields[1:]:
        value, content, *words = get_args(kind.__annotations__[name])
        if name in _MISSING or value is int:
            usual[name] = _MISSING.get(name, 0)
            continue
        nil = type(None) in get_args(value) or " ".join(words).endswith(("value", "or nil"))
        if nil or content is table.Content.DIGEST:
            usual[name] = None
    return usual


NAMES = {kind: _name(kind) for kind in table.KINDS.values()}
"""The names of all kinds of records in a tape."""
_KINDS = {name: kind for kind, name in NAMES.items()}
_USUAL = {kind: {**_usual(kind), "tag": table.tag_of(kind)} for kind in NAMES}
_FIELDS = {kind: frozenset(kind._fields) for kind in NAMES}
_IDS = {
    kind: [
        name
        for name in kind._fields[1:]
        if "file" not in name and get_args(kind.__annotations__[name])[-1] in ("id", "id or nil")
    ]
    for kind in NAMES
}
"""The fields of each kind that hold a name in a tape where a trace has a number."""


def line_of(kind: table.Kind, fields: Line, without: Collection[str] = ()) -> Line:
    """The line of a record of *kind*: its name, and those of its *fields* that are not as usual."""
    line: Line = {"record": NAMES[kind]}
    usual = _USUAL[kind]
    for name in kind._fields:
        value = fields.get(name)
        if value is not None and value != usual.get(name) and name not in without:
            line[name] = value
    return line


def record_of(line: Line, number: Callable[[Any, bool], int | None]) -> Any:
    """The record that *line* holds. Raises ``ValueError``.

    *number* makes an id of a name, and is told whether the record defines it.
    """
    name = line.pop("record", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"a line holds a record ({', '.join(_KINDS)}), found {name!r:.80}")
    fields = {**_USUAL[kind], **line}
    if fields.keys() != _FIELDS[kind] or "tag" in line:
        raise ValueError(_wrong(kind, line))
    for field in _IDS[kind]:
        if line.get(field):
            fields[field] = number(line[field], field == "id")
    return kind(**fields)


def _wrong(kind: table.Kind, line: Line) -> str:
    fields, usual = kind._fields[1:], _USUAL[kind]
    missing = [f"no {field}" for field in fields if field not in line and field not in usual]
    strange = [f"an unknown {field!r:.80}" for field in line if field not in fields]
    return f"a {NAMES[kind]} has {[*missing, *strange][0]}; its fields are {', '.join(fields)}"


def dumped(line: Line) -> str:
    """*line* as text, with its end: the fields in their order, and maps inside of them sorted."""
    fields = (f'"{name}": {_json(value)}' for name, value in line.items())
    return _escaped(f"{{{', '.join(fields)}}}") + "\n"


def _json(value: object) -> str:
    try:
        return _ENCODER.encode(value)
    except ValueError:  # a number that JSON does not know
        return _ENCODER.encode(_finite(value))


def _escaped(line: str) -> str:
    """*line* with everything that cannot be seen written as JSON escapes."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() or c in _JOINERS else json.dumps(c)[1:-1] for c in line)


def loaded(line: bytes, allowance: DecodingAllowance) -> Line:
    """The JSON object of *line*. Raises ``ValueError``, ``RecursionError``, ``TraceCorrupt``.

    What it may take as objects is taken from *allowance* first; brackets and commas within texts
    are counted too, which a tape can well afford.
    """
    if len(line) > MAX_LINE:
        raise ValueError(f"a line has more than {MAX_LINE} bytes")
    allowance.spend_text(line)
    lists, maps, items = line.count(b"["), line.count(b"{"), line.count(b",")
    allowance.spend(_LINE + _LIST * lists + _MAP * maps + _ITEM * items)
    data = _DECODER.decode(line.decode("utf-8"))
    if type(data) is not dict:
        raise ValueError("a line of a tape is a JSON object")
    return data


def _hooked(data: dict[str, object]) -> object:
    word = data.get(_FLOAT) if len(data) == 1 else None
    return _WORDS[word] if isinstance(word, str) and word in _WORDS else data


def _refused(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


class IntOfMoreThan64Bits(int):
    """An integer that values and options of a program may hold, but no record as one of its
    numbers: the error then has this name in it."""


def _whole(digits: str) -> int:
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else IntOfMoreThan64Bits(number)


_DECODER = json.JSONDecoder(object_hook=_hooked, parse_constant=_refused, parse_int=_whole)


class LongTexts:
    """The texts of a line that have several lines: these stand below it, one by one."""

    def __init__(self) -> None:
        self._below: list[str] = []

    def shortened(self, value: str | bytes) -> object:
        """*value* as it stands in the line: bytes, and what stands below it, by reference."""
        if isinstance(value, bytes):
            return {BLOB: base64.b64encode(value).decode("ascii")}
        if "\n" not in value.strip("\n"):
            return value
        self._below.append(value)
        return {BLOB: len(self._below) - 1}

    def plain(self, value: object) -> Any:
        """*value* in the types of JSON, with tags where those are too few. Raises ``TypeError``."""
        return codec.shortened(codec.plain(value), self.shortened)

    def below(self) -> Iterator[Line]:
        """The lines of these texts, which are forgotten."""
        for number, text in enumerate(self._below):
            about = {"of": number} if number else {}
            for line in re.findall("[^\n]*\n|[^\n]+", text):
                yield {**about, "text": line}
        self._below = []


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: "nan" if value != value else "inf" if value > 0 else "-inf"}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value


def canonical_data(text: str) -> object:
    """Canonical JSON *text* as data that can stand in a line; the text where that would lose."""
    try:
        data = _DECODER.decode(text)
        same = canonical_text(data) == text
    except (ValueError, RecursionError):
        return text
    return data if same and isinstance(data, dict) else text


def canonical_text(data: object) -> str:
    """The canonical JSON text that ``canonical_data`` was given."""
    if isinstance(data, str):
        return data
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
