"""The origins of a recorded prompt's text, as values.

Invariant: the spans of a message cover its text from the beginning to the end, or there are none.
"""

from __future__ import annotations

from typing import NamedTuple

from appl.prompt.message import Messages
from appl.prompt.origin import Spans, line_of


class Span(NamedTuple):
    """Characters ``start`` to ``end`` of a message, and what said them.

    That is the ``call`` at an address (of a function, for what it returned), or the statement at
    ``line`` of ``file``; of text that was given as a whole nothing is known.
    """

    start: int
    end: int
    file: str | None = None
    line: int | None = None
    call: str | None = None

    @property
    def where(self) -> str:
        """The origin for a human: ``file:line``, an address, or an empty string."""
        return self.call or (f"{self.file}:{self.line}" if self.file else "")


def spans_of(chain: Messages | None) -> list[list[Span]]:
    """The spans of each message of *chain*."""
    return [spans_in(link.spans) for link in chain.links()] if chain is not None else []


def spans_in(spans: Spans) -> list[Span]:
    """*spans* as values."""
    result: list[Span] = []
    start = 0
    for length, origin in zip(spans[::2], spans[1::2], strict=True):
        end = start + length
        if isinstance(origin, str):
            result.append(Span(start, end, call=origin))
        else:
            file, line = line_of(origin) or (None, None)
            result.append(Span(start, end, file, line))
        start = end
    return result
