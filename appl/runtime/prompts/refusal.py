"""The error for a statement whose value is no prompt text: where it stands, and what to write."""

from __future__ import annotations

import inspect
import itertools
import linecache
import re
import sys
from dataclasses import dataclass, replace
from types import FrameType

from appl.errors import PromptTypeError

_LONGEST = 60
_GROWN = re.compile(r"((?:\S+\.)?)grow\((.+)\)", re.DOTALL)
"""The explicit form of a statement, with what it says."""

_SIMPLE = re.compile(rf"""[^"{{}}\\#]{{1,{_LONGEST}}}""")
"""What can stand in the braces of an f-string, in every Python."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """An expression in its file: its line, and where in it the expression stands."""

    file: str
    number: int
    line: str
    start: int
    stop: int

    @property
    def written(self) -> str:
        return self.line[self.start : self.stop]

    def part(self, start: int, stop: int) -> _Statement:
        """Only what is written from *start* to *stop*."""
        return replace(self, start=self.start + start, stop=self.start + stop)

    def pointed_at(self) -> str:
        """File, line and caret, as Python shows them."""
        text = self.line.rstrip()
        body = text.lstrip()
        shift = len(text) - len(body)
        carets = " " * (self.start - shift) + "^" * max(self.stop - self.start, 1)
        return f'  File "{self.file}", line {self.number}\n    {body}\n    {carets}'


def refused(value: object, said: object) -> PromptTypeError:
    """The error for *value*, which the statement of *said* holds or is."""
    statement = _statement()
    kind = type(value).__name__
    grown = _GROWN.fullmatch(statement.written) if statement is not None else None
    if statement is not None and grown is not None:
        statement = statement.part(*grown.span(2))
    written = statement.written if statement is not None else "value"
    if value is said:
        what = f"a bare expression of type {kind} is not prompt text"
        correction = _correction(value, written if _SIMPLE.fullmatch(written) else "value")
    else:
        what = f"a value of type {kind} in a bare {type(said).__name__} is not prompt text"
        correction = _inside(written if len(written) <= _LONGEST else "value")
    if grown is not None:
        what = f"a value of type {kind} is not prompt text, which {grown[1]}grow() takes"
        correction = correction.partition(", or _ = ")[0]
    where = [statement.pointed_at()] if statement is not None else []
    return PromptTypeError("\n".join([f"{what} (got {value!r:.80})", *where, correction]))


def _correction(value: object, shown: str) -> str:
    if inspect.iscoroutine(value):
        return f"write await {shown} to say what it returns"
    if inspect.isasyncgen(value):
        return f"write async for item in {shown}: item"
    if inspect.isroutine(value):
        return f"write {shown}() to say what it returns, or _ = {shown} to leave it out"
    return f'write f"{{{shown}}}" to say it, or _ = {shown} to leave it out of the prompt'


def _inside(shown: str) -> str:
    return f'write [f"{{item}}" for item in {shown}] to say them, or _ = {shown} to leave them out'


def _statement() -> _Statement | None:
    """The expression that runs in the user's file, if it stands on one line."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("appl."):
        frame = frame.f_back
    if frame is None:
        return None
    places = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    number, last, start, stop = next(places, (None, None, None, None))
    if number is None or number != last or start is None or stop is None:
        return None
    file = frame.f_code.co_filename
    line = linecache.getline(file, number)
    encoded = line.encode("utf-8", "surrogatepass")
    first, end = (len(encoded[:at].decode("utf-8", "replace")) for at in (start, stop))
    return _Statement(file, number, line, first, end) if line.strip() else None
