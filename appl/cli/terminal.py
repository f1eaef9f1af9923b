"""The output to the user's terminal: safe text, readable values, lines for stderr.

Invariant: a human reads text of a model or of a trace only after ``term_safe``. JSON is exact, with
every character beyond ASCII escaped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, …
    r"|\x1b[ -/]*[0-~]?"  # all other escapes
)
_BEGUN = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*\x1b?\Z"
    r"|\x1b[ -/]*\Z"
    r"|\r\Z"
)  # what may be the beginning of a sequence, or of a line's end
_LONGEST = 4096  # characters of a sequence that are waited for
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def term_safe(text: str) -> str:
    r"""*text* without escape sequences, control characters and direction overrides.

    Newlines and tabs stay; ``\\r\\n`` becomes a newline; lone surrogates become U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n"))
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))


class TermSafe:
    """:func:`term_safe` for text in pieces, wherever they are cut.

    ``feed`` returns the text that can be shown by now. The beginning of an escape sequence is held
    back until it is complete.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add *piece* and return the text that can be shown now."""
        text = self._held + piece
        begun = _BEGUN.search(text)
        if begun is None or len(text) - begun.start() > _LONGEST:
            self._held = ""
            return term_safe(text)
        self._held = text[begun.start() :]
        return term_safe(text[: begun.start()])

    def close(self) -> str:
        """The rest of the text."""
        text, self._held = self._held, ""
        return term_safe(text)


def one_line(text: str, width: int = 72) -> str:
    """The beginning of *text* on one line of at most *width* characters."""
    line = " ".join(term_safe(text[: 4 * width]).split())
    return line if len(line) <= width and len(text) <= 4 * width else line[: width - 1] + "…"


def say(line: str = "", file: TextIO | None = None) -> None:
    """Write a line for a human to stderr, whatever its encoding."""
    _write(file or sys.stderr, term_safe(line) + "\n")


def say_next(line: str | None) -> None:
    """Write *line*, which names the next command, unless it is ``None``."""
    if line is not None:
        say(line)


def out(text: str, end: str = "\n") -> None:
    """Write a line of output to stdout."""
    _write(sys.stdout, text + end)


def err(text: str) -> None:
    """Write text of a model, made safe before, to stderr; it need not end a line."""
    _write(sys.stderr, text)


def _write(stream: TextIO, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def as_json(value: object, *, indent: int | None = None) -> str:
    """*value* as JSON in ASCII; an object unknown to JSON becomes its text."""
    return json.dumps(_jsonable(value), indent=indent, ensure_ascii=True)


def print_found(json: bool, data: object, lines: Iterable[str]) -> None:
    """Print *data* as an indented JSON document, or else *lines* for a human."""
    out(as_json(data, indent=2) if json else term_safe("\n".join(lines)))


def report_done(json: bool, data: object, sentence: str) -> None:
    """Print *data* as a JSON document, or else tell the user the *sentence* on stderr."""
    if json:
        out(as_json(data))
    else:
        say(f"appl: {sentence}")


def print_value(json: bool, value: object, run: Mapping[str, object]) -> None:
    """Print the *value* of a program: with the facts of its *run* as JSON, or else alone."""
    if json:
        out(as_json({"value": value, "run": run}))
    elif text := show(value):
        out(text)


def _jsonable(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item) for item in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):  # JSON has no NaN
        return value if value == value and abs(value) != float("inf") else str(value)
    return _object(value)


def _object(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _jsonable(dump())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _jsonable(pairs)
    return str(value)


def show(value: object) -> str:
    """*value* for a human reader: text as it is, lists line by line, data indented."""
    if value is None:
        return ""
    if isinstance(value, str):
        return term_safe(str(value))  # a Text may have something to say about an empty answer
    if isinstance(value, list | tuple | set | frozenset):
        return "\n".join(_item(item) for item in value)
    if (
        isinstance(value, Mapping)
        or dataclasses.is_dataclass(value)
        or hasattr(value, "model_dump")
    ):
        return term_safe(json.dumps(_jsonable(value), indent=2, ensure_ascii=False))
    return term_safe(str(value))


def _item(value: object) -> str:
    if isinstance(value, list | tuple | Mapping):
        return term_safe(json.dumps(_jsonable(value), ensure_ascii=False))
    return show(value)


def columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """*rows* as lines with aligned columns; the last column keeps its length."""
    cells = [tuple(term_safe(cell) for cell in row) for row in rows]
    if not cells:
        return []
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]) - 1)]
    return [
        "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def counted(number: int, word: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def bytes_shown(size: int) -> str:
    """A number of bytes for a human."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


@contextlib.contextmanager
def to_stderr(wanted: bool) -> Iterator[None]:
    """Send the program's prints to stderr if stdout is reserved for a document."""
    with contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext():
        yield
