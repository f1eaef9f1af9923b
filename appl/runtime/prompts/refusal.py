"""The error for a statement whose value is no prompt text: where it stands, and what to write."""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType

from appl.compiler.trees import expression_tree
from appl.errors import PromptTypeError
from appl.prompt.formatting import textless
from appl.runtime.prompts.roles import Spoken

_LONGEST = 60
_GROWN = re.compile(r"((?:\S+\.)?)grow\((.+)\)", re.DOTALL)
"""The explicit form of a statement, with what it says."""

_SIMPLE = re.compile(rf"""[^"{{}}\\#]{{1,{_LONGEST}}}""")
"""An expression that can stand in the braces of an f-string, in every Python."""

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True, slots=True)
class _Statement:
    """An expression in its file: its line, and where in it the expression stands.

    ``asynchronous`` is true where ``await`` may be written.
    """

    file: str
    number: int
    line: str
    start: int
    stop: int
    asynchronous: bool

    @property
    def written(self) -> str:
        return self.line[self.start : self.stop]

    def part(self, start: int, stop: int) -> _Statement:
        """Only what is written from *start* to *stop*."""
        return replace(self, start=self.start + start, stop=self.start + stop)


def refused(value: object, statement_value: object) -> PromptTypeError:
    """The error for *value*, which is *statement_value*, the value of a statement, or in it."""
    statement = _statement()
    kind = type(value).__name__
    grown = _GROWN.fullmatch(statement.written) if statement is not None else None
    if statement is not None and grown is not None:
        statement = statement.part(*grown.span(2))
    written = statement.written if statement is not None else "value"
    if value is statement_value:
        what = f"a bare expression of type {kind} is not prompt text"
        shown = written if _SIMPLE.fullmatch(written) else "value"
        asynchronous = statement is not None and statement.asynchronous
        if not (correction := _condition(value, written)):
            correction, leave_out = _meant(value, shown, "%s", asynchronous), f"_ = {shown}"
            if not correction:
                correction = (
                    f'write f"{{{shown}}}" to say it, or {leave_out} to leave it out of the prompt'
                )
            elif isinstance(value, _OTHER_USE):
                correction = f"{correction}, or {leave_out} to leave it out"
    else:
        what = (
            f"a value of type {kind} in a bare {type(statement_value).__name__} is not prompt text"
        )
        correction = _inside(written if len(written) <= _LONGEST else "value")
    if grown is not None:
        what = f"a value of type {kind} is not prompt text, which {grown[1]}grow() takes"
        correction = correction.partition(", or _ = ")[0]
    return _error(f"{what} (got {value!r:.80})", statement, correction)


def refused_part(value: object, text: str) -> PromptTypeError:
    """The error for *value* in the braces of an f-string, where its *text* says nothing."""
    statement = _statement()
    written = statement.written if statement is not None else "value"
    shown = written if _SIMPLE.fullmatch(written) else "value"
    asynchronous = statement is not None and statement.asynchronous
    correction = _meant(value, shown, "{%s}", asynchronous) or f"write {{str({shown})}}"
    return _error(f"{text:.80} is not prompt text", statement, correction)


def _error(what: str, statement: _Statement | None, correction: str) -> PromptTypeError:
    if statement is None:
        return PromptTypeError(f"{what}\n{correction}")
    text = statement.line.rstrip()  # file, line and caret, as Python shows them
    body = text.lstrip()
    indent = " " * (statement.start - len(text) + len(body))
    carets = indent + "^" * max(statement.stop - statement.start, 1)
    where = f'  File "{statement.file}", line {statement.number}\n    {body}\n    {carets}'
    return PromptTypeError("\n".join([what, where, correction]))


def _condition(value: object, written: str) -> str:
    """Advice for ``flag and "text"``, whose value is the flag where that is false."""
    try:
        node = expression_tree(written.strip())
    except SyntaxError:
        return ""
    if value or not isinstance(node, ast.BoolOp) or not isinstance(node.op, ast.And):
        return ""
    *tested, text = node.values
    condition = " and ".join(map(ast.unparse, tested))
    return f"write `if {condition}:` with {ast.unparse(text)} as a statement below it"


_OTHER_USE = (FunctionType, BuiltinFunctionType, MethodType)


def _meant(value: object, shown: str, hole: str, asynchronous: bool) -> str:
    """Advice on *value*, which has no text; *hole* is the notation of a value in a prompt."""
    kind = type(value).__name__
    if inspect.iscoroutine(value):
        awaited = f"write {hole % f'await {shown}'} to say what it returns"
        return awaited if asynchronous else f"{awaited}, and `async def` above it"
    if inspect.isasyncgen(value):
        return f"write async for item in {shown}: item"
    if inspect.isroutine(value):
        return f"write {hole % f'{shown}()'} to say what it returns"
    if isinstance(value, type) and str(value).startswith("<"):
        return f"write {hole % f'{shown}(...)'}, an instance with a text, or its name as text"
    if isinstance(value, ModuleType):
        return f"{shown} is a module: write what you need of it, as in {hole % f'{shown}.name'}"
    if isinstance(value, Spoken):
        return f"write `with {shown}:` and indent below it the text that it is about"
    if isinstance(value, Iterator):
        return f"write {hole % f'list({shown})'}, or say its items one by one"
    if isinstance(value, dict) and {"role", "content"} <= value.keys():
        return "write UserMessage(...), SystemMessage(...) or AIMessage(...), which say a message"
    if isinstance(value, list | tuple | set | frozenset | dict) and textless(value, repr(value)):
        return "give the class of its items a method __repr__, or say them one by one"
    if not textless(value, repr(value)):
        return ""
    public = [name for name in getattr(value, "__dict__", ()) if not name.startswith("_")]
    attribute = f"write {hole % f'{shown}.{public[0]}'}, or " if public else ""
    return f"{attribute}give {kind} a method __str__ that returns its text"


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
    asynchronous = bool(frame.f_code.co_flags & _ASYNC)
    return _Statement(file, number, line, first, end, asynchronous) if line.strip() else None
