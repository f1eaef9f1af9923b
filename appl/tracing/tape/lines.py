"""One record of a tape as one line of JSON, and back.

Invariant: a line is UTF-8 on its own, holds no character that a terminal or an editor would obey,
and gives back the record it was made of: ``bytes``, tuples, NaN and lone surrogates too.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from appl.tracing.format import codec
from appl.tracing.format.allowance import DecodingAllowance

FORMAT = 1
MAX_LINE = 64 << 20
_JOINERS = "\u200c\u200d"  # without which some scripts, and many emoji, are others
_LINE, _LIST, _MAP, _ITEM = 256, 64, 240, 200  # bytes of what is made of each, at most
_FLOAT, _BLOB = "$float", "$blob"
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

Record = dict[str, Any]


def dumped(record: Record) -> str:
    """The line of *record*, with its end."""
    return _escaped(json.dumps(record, sort_keys=True, ensure_ascii=False, allow_nan=False)) + "\n"


def _escaped(line: str) -> str:
    """*line* with everything that cannot be seen written as JSON escapes."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() or c in _JOINERS else _escape(c) for c in line)


def _escape(char: str) -> str:
    return json.dumps(char, ensure_ascii=True)[1:-1]


def loaded(line: bytes, allowance: DecodingAllowance) -> Record:
    """The record of *line*. Raises ``ValueError``, ``RecursionError``, ``TraceCorrupt``.

    What it may take as objects is taken from *allowance* first; brackets and commas within texts
    are counted too, which a tape can well afford.
    """
    if len(line) > MAX_LINE:
        raise ValueError(f"a line has more than {MAX_LINE} bytes")
    allowance.spend_text(line)
    lists, maps, items = line.count(b"["), line.count(b"{"), line.count(b",")
    allowance.spend(_LINE + _LIST * lists + _MAP * maps + _ITEM * items)
    record = json.loads(line.decode("utf-8"), object_hook=_hooked, parse_constant=_refused)
    if type(record) is not dict:
        raise ValueError("a line of a tape is a JSON object")
    return record


def _hooked(found: dict[str, object]) -> object:
    word = found.get(_FLOAT) if len(found) == 1 else None
    return _WORDS[word] if isinstance(word, str) and word in _WORDS else found


def _refused(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def plain(value: object) -> object:
    """*value* in the types of JSON, with tags where those are too few. Raises ``TypeError``."""
    return _finite(codec.shortened(codec.plain(value), _text))


def _text(value: str | bytes) -> object:
    return value if isinstance(value, str) else {_BLOB: base64.b64encode(value).decode("ascii")}


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: "nan" if value != value else "inf" if value > 0 else "-inf"}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value


def revived(value: object) -> Any:
    """The value that ``plain`` was given. Raises ``ValueError``, ``TypeError``."""
    return codec.revive(value, _blob)


def _blob(value: Any) -> bytes:
    return base64.b64decode(value[_BLOB], validate=True)


def canonical_data(text: str) -> object:
    """Canonical JSON *text* as data that can stand in a line; the text where that would lose."""
    try:
        data = json.loads(text, object_hook=_hooked, parse_constant=_refused)
        same = canonical_text(data) == text
    except (ValueError, RecursionError):
        return text
    return data if same and isinstance(data, dict) else text


def canonical_text(data: object) -> str:
    """The canonical JSON text that ``canonical_data`` was given."""
    if isinstance(data, str):
        return data
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
