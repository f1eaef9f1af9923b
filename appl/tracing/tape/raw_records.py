"""The content of a tape's lines: texts with their further lines, calls with their parts.

Invariant: nothing here has been put together yet; each call knows the line in which it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appl.backend import TokenLogprob
from appl.prompt import ToolCall
from appl.tracing.reading.trace import Scope
from appl.tracing.tape.lines import Record


class TapeText:
    """A text that may go on in the lines below."""

    def __init__(self, first: str) -> None:
        self.pieces = [first]

    def __str__(self) -> str:
        return "".join(self.pieces)


class TapeMessage:
    """A message as it stands in the tape, until its last line is read."""

    def __init__(self, record: Record, text: TapeText) -> None:
        self.record, self.text, self.calls = record, text, list[ToolCall]()


class TapeSample:
    """A sample of an answer, until its last line is read."""

    def __init__(self, reason: str, text: TapeText) -> None:
        self.reason, self.text, self.calls = reason, text, list[ToolCall]()
        self.reasoning: TapeText | None = None
        self.tokens: tuple[TokenLogprob, ...] | None = None


class TapeCall:
    """A call, or a tool's, with the lines that belong to it."""

    def __init__(self, record: Record, line: int) -> None:
        self.record, self.line = record, line
        self.said: list[TapeMessage] = []
        self.samples: list[TapeSample] = []
        self.begun: list[tuple[tuple[int, int], TapeText]] = []
        self.usage: Record | None = None
        self.error: Record | None = None


@dataclass(slots=True)
class RawRecords:
    """All lines of a tape, by what they hold.

    ``asked`` are the calls by address, ``used`` those of tools, ``seen`` the observations by
    address, ordinal and kind; ``order`` has line numbers.
    """

    asked: dict[str, TapeCall] = field(default_factory=dict)
    used: dict[str, TapeCall] = field(default_factory=dict)
    seen: dict[tuple[str, int, str], Record] = field(default_factory=dict)
    media: dict[str, Record] = field(default_factory=dict)
    order: list[tuple[int, Record]] = field(default_factory=list)
    went: dict[str, Record] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=list)
