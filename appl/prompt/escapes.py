"""Text of which every character is escaped: percent-encoded, as in source code, or as in HTML.

Invariant: pure functions; texts are given in bytes, as ``secret_forms.as_bytes`` makes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

FEWEST: Final = 8
"""Escapes in a row that are read: no secret that is known is shorter."""
_ESCAPE = (
    r"(?:%([0-9A-Fa-f]{2})|\\{1,4}x([0-9A-Fa-f]{2})|\\{1,4}u([0-9A-Fa-f]{4})"
    r"|&#[xX]([0-9A-Fa-f]{1,6});|&#([0-9]{1,7});)"
)
_ONE = re.compile(_ESCAPE)
_ROW = re.compile(rf"{_ESCAPE}{{{FEWEST},}}")
_BEGUN = re.compile(
    rf"{_ESCAPE}*(?:%[0-9A-Fa-f]?|\\{{1,4}}[ux]?[0-9A-Fa-f]{{0,3}}|&#?[0-9A-Fa-fx]{{0,7}})?\Z"
)
QUICK: Final = (
    rf"(?:%[0-9A-Fa-f]{{2}}){{{FEWEST}}}|(?:\\{{1,4}}[ux][0-9A-Fa-f]{{2,4}}){{{FEWEST}}}"
    rf"|(?:&#[0-9A-Fa-fxX]{{1,7}};){{{FEWEST}}}"
)
"""A pattern that finds something in each text with such a row, also in the syntax of Rust."""


class EscapedRow:
    """A row of escapes: what it says, and where each of its characters stands."""

    def __init__(self, row: re.Match[str]) -> None:
        self._places, texts = [row.start()], list[str]()
        for escape in _ONE.finditer(row[0]):
            byte, code = escape[1] or escape[2], escape[3] or escape[4]
            if byte is not None:
                plain = chr(int(byte, 16))
            elif (number := int(code, 16) if code is not None else int(escape[5])) > 0x10FFFF:
                plain = "\0"
            else:
                plain = chr(number).encode("utf-8", "surrogatepass").decode("latin-1")
            texts.append(plain)
            self._places += [row.start() + escape.end()] * len(plain)
        self.text = "".join(texts)

    def span(self, at: int, end: int) -> tuple[int, int]:
        """The place of the characters from *at* to *end* in the text around the row."""
        return self._places[at], self._places[end]


def rows_in(text: str) -> Iterator[EscapedRow]:
    """The rows of escapes in *text*."""
    return map(EscapedRow, _ROW.finditer(text))


def begun_row(text: str) -> int:
    """The beginning of a row of escapes that may go on after the end of *text*, or its length."""
    match = _BEGUN.search(text)
    return len(text) if match is None else match.start()
