"""The forms in which a known secret may stand in a text, and texts without them.

Invariant: a text that was searched holds a known secret in none of these forms.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import accumulate
from urllib.parse import quote, quote_plus

from appl.prompt.escapes import FEWEST, begun_row, rows_in
from appl.prompt.secret import MASK
from appl.prompt.text_search import replaced


def forms(secret: str) -> set[str]:
    """*secret* as it may stand in text: plain, as in source code, JSON-, URL- and HTML-encoded, in
    base64 and hexadecimal where it is long enough."""
    data = secret.encode("utf-8", "surrogatepass")
    urls = {quote(data, safe=""), quote(data), quote_plus(data)}
    lower = {re.sub("%..", lambda m: m[0].lower(), url) for url in urls}
    strings = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    slashes = {text.replace("/", "\\/") for text in strings}
    page = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quoted = page.replace('"', "&quot;")
    pages = {page, quoted, *(quoted.replace("'", sign) for sign in ("&#x27;", "&#39;", "&apos;"))}
    coded = _coded(data) if len(data) >= _CODED else set[str]()
    return {secret, repr(secret)[1:-1], *urls, *lower, *strings, *slashes, *pages, *coded}


_CODED = 8


def _coded(data: bytes) -> set[str]:
    """*data* in base64 and hexadecimal; in base64 at each of three places, as in basic auth."""
    variants = {data.hex(), data.hex().upper()}
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        remainder = (before + len(data)) % 3  # the last characters hang on what follows
        variant = text[(0, 2, 3)[before] : _known(text, remainder)]
        variants |= {variant, variant.replace("+", "-").replace("/", "_")}
    return variants


def _known(text: str, left: int) -> int:
    """The end of the base64 characters that hold nothing but the secret."""
    return len(text) - (0, 3, 2)[left]


def as_bytes(text: str) -> str:
    """*text* in UTF-8, each byte as one character: texts and bytes are searched in the same way."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


def from_bytes(text: str) -> str:
    """The text of which :func:`as_bytes` made *text*."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogatepass")


_ESCAPED = 9
"""Characters of the longest escape of one character."""
_CORE, _CODED_CORE = 16, 8
"""How many characters of a form are looked for first; of one in base64 or hexadecimal, which has no
usual beginning such as ``https://``."""
_BREAK = re.compile(r"[ \t]*\\?(?:\r?\n|(?:\\{1,4}[rn])+)[ \t>#|*]*")
"""A break of a line as it stands in a text, in source code or in a quotation."""


_BREAK_BEGUN = re.compile(r"[ \t]*\\{0,4}\r?\Z")
_TELLING = 2
"""Characters at the beginning of a form by which it is known."""


class SecretForms:
    """The forms of known secrets, whose *names* are given by value; it takes them out of texts.

    A form is also found with line breaks in it, where sixteen characters of its first 32 (or half
    of a shorter form) stand on one line; eight of its first 16 in base64 and hexadecimal. A secret
    is also found where each of its characters is escaped.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        pairs = {(form, name) for value, name in names.items() for form in forms(value)}
        coded = {form for value in names for form in _coded(value.encode("utf-8", "surrogatepass"))}
        self.forms = sorted(pairs, key=lambda pair: (-len(pair[0]), pair))
        self._bytes = [
            (data, cores(data, _CODED_CORE if form in coded else _CORE), name)
            for form, name in self.forms
            for data in (as_bytes(form),)
        ]
        plain = sorted(
            ((as_bytes(value), name) for value, name in names.items()),
            key=lambda pair: -len(pair[0]),
        )
        self._plain = [(value, name) for value, name in plain if len(value) >= FEWEST]

    @property
    def cores(self) -> Iterable[str]:
        """Parts of forms, in bytes, of which one is in each text that holds a secret."""
        return dict.fromkeys(core for _, secret, _ in self._bytes for core in secret)

    @cached_property
    def _in_order(self) -> list[str]:
        return sorted({unbroken(form) for form, _ in self.forms})

    def open_from(self, text: str) -> int:
        """The beginning of the first form that may go on after the end of *text*, else its length.

        Two characters of a form are enough, also with line breaks between them; or an escape.
        """
        if self._plain:
            window = max(len(text) - _ESCAPED * len(self._plain[0][0]), 0)
            begun = window + begun_row(text[window:])
            if begun < len(text):
                return min(begun, self.open_from(text[:begun]))
        lines = JoinedLines(_BREAK_BEGUN.sub("", text))
        joined = lines.text
        longest = len(self.forms[0][0]) if self.forms else 0
        for at in range(max(len(joined) - longest, 0), len(joined) - _TELLING + 1):
            place = bisect_left(self._in_order, joined[at:])
            if place < len(self._in_order) and self._in_order[place].startswith(joined[at:]):
                return lines.place(at)
        return len(text)

    def without(self, text: str, instead: Callable[[str], str]) -> str:
        """*text*, in bytes, with what *instead* makes of a secret's name in place of each."""
        for data, _, name in self._bytes:
            if data in text:
                text = text.replace(data, as_bytes(instead(name)))
        lines: JoinedLines | None = None
        for data, some, name in self._bytes:
            if len(data) >= _CORE and (some[0] in text or some[-1] in text):
                lines = lines or JoinedLines(text)
                if spans := lines.spans(data):
                    text = _replaced(text, spans, as_bytes(instead(name)))
                    lines = None
        if not self._plain:
            return text
        escaped = list[tuple[int, int, str]]()
        for row in rows_in(text):
            for value, name in self._plain:
                at = row.text.find(value)
                while at >= 0:
                    escaped.append((*row.span(at, at + len(value)), name))
                    at = row.text.find(value, at + len(value))
        return replaced(text, escaped, lambda name: as_bytes(instead(name)))


def cores(data: str, size: int = _CORE) -> tuple[str, ...]:
    """The parts of the form *data* of which one stands on one line wherever *data* is found."""
    size = min(size, len(data) // 2)
    return (data[:size], data[size : 2 * size]) if len(data) >= _CORE else (data,)


def _replaced(text: str, spans: Iterable[tuple[int, int]], new: str) -> str:
    """*text* with *new* in place of each of the *spans*."""
    done, left = 0, list[str]()
    for first, end in spans:
        left += [text[done:first], new]
        done = end
    return "".join([*left, text[done:]])


class JoinedLines:
    """A text whose lines are joined, line breaks left out, and where its characters stood."""

    def __init__(self, text: str) -> None:
        breaks = [match.span() for match in _BREAK.finditer(text)]
        starts = [0, *(end for _, end in breaks)]
        ends = [*(start for start, _ in breaks), len(text)]
        self._lines = list(zip(starts, ends, strict=True))
        self._starts = [0, *accumulate(end - start for start, end in self._lines)]
        self.text = "".join(text[start:end] for start, end in self._lines)

    def place(self, at: int) -> int:
        """The position in the whole text of the character *at*."""
        line = bisect_right(self._starts, at) - 1
        return self._lines[line][0] + at - self._starts[line]

    def spans(self, data: str) -> list[tuple[int, int]]:
        """The spans of the whole text that are *data*, line breaks within them ignored."""
        spans, data = list[tuple[int, int]](), unbroken(data)
        at = self.text.find(data)
        while at >= 0:
            end = at + len(data)
            spans.append((self.place(at), self.place(end - 1) + 1))
            at = self.text.find(data, end)
        return spans


def unbroken(text: str) -> str:
    """*text* without its line breaks."""
    return _BREAK.sub("", text)


class Mask:
    """Takes the given secrets out of texts; *shown* stands in their place."""

    __slots__ = ("_forms", "_shown")

    def __init__(self, secrets: Iterable[str] = (), shown: str = MASK) -> None:
        self._forms, self._shown = SecretForms(dict.fromkeys(secrets, "")), shown

    def __call__(self, text: str) -> str:
        return from_bytes(self._forms.without(as_bytes(text), lambda name: self._shown))

    def __bool__(self) -> bool:
        return bool(self._forms.forms)
