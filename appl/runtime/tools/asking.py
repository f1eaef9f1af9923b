"""Tools that have done nothing yet but ask their user.

A tool with effects that was broken off is in doubt: nobody knows whether it has had its effect. One
that waited for the answer to its question, and had called nothing before, has had none.

Invariant: a tool of which that is not certain is in doubt.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import time
from collections.abc import Iterator
from types import CodeType, FrameType
from weakref import WeakKeyDictionary

from appl.compiler.trees import module_tree
from appl.runtime.event import Observed
from appl.runtime.frame import Frame

_HARMLESS = frozenset(
    "bool dict float format input int len list max min print repr round set sorted str sum tuple"
    " now random uuid env endswith join lower split startswith strip title upper".split()
)
"""Names of functions, and of methods of text, that change nothing outside of the process."""

running: WeakKeyDictionary[Frame, CodeType] = WeakKeyDictionary()
"""The activations of tools with effects, each with the code of its function."""


def tell_asking(frame: Frame, ordinal: int, address: str | None = None) -> None:
    """Record that the tool of *frame* asks its user, if it has done nothing else.

    *address* is that of the question, if it has one of its own.
    """
    tool = running.get(frame)
    inner: FrameType | None = sys._getframe()
    while tool is not None and inner is not None:  # the tool, and those by which it came here
        if not inner.f_globals.get("__name__", "").startswith("appl.") and not _is_first(inner):
            return
        if inner.f_code is tool:
            at = time.monotonic_ns()
            frame.run.outside.emit(Observed(address or frame.address, ordinal, "asking", True, at))
            return
        inner = inner.f_back


def _is_first(frame: FrameType) -> bool:
    """True if the function of *frame* has called nothing of effect before its present call."""
    try:
        lines, first = inspect.getsourcelines(frame.f_code)
        tree = module_tree(textwrap.dedent("".join(lines)), "<function>")
    except (OSError, TypeError, SyntaxError):
        return False
    place = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    indent = len(lines[0]) - len(lines[0].lstrip())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    here = [node for node in calls if _place(node, first, indent) == place]
    if len(here) != 1 or any(isinstance(node, _OTHER) for node in ast.walk(tree)):
        return False
    loops = [loop for loop in ast.walk(tree) if isinstance(loop, _LOOPS) and _has(loop, here[0])]
    before = [node for node in calls if _end(node) <= _end(here[0])]
    repeated = [node for loop in loops for node in ast.walk(loop) if isinstance(node, ast.Call)]
    return all(_is_harmless(node, frame) for node in (*before, *repeated) if node is not here[0])


_LOOPS = (ast.For, ast.While, ast.comprehension)
_OTHER = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom, ast.With)
"""Callables that call functions which are not written there."""


def _place(node: ast.Call, first: int, indent: int) -> tuple[int, int, int, int]:
    """The place of *node* in its file, as code objects give it: lines, then columns."""
    line, column, end_line, end_column = _span(node)
    return first + line - 1, first + end_line - 1, indent + column, indent + end_column


def _span(node: ast.expr) -> tuple[int, int, int, int]:
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    return node.lineno, node.col_offset, end_line, end_column


def _end(node: ast.expr) -> tuple[int, int]:
    return _span(node)[2:]


def _has(loop: ast.AST, call: ast.Call) -> bool:
    return any(node is call for node in ast.walk(loop))


def _is_harmless(call: ast.Call, frame: FrameType) -> bool:
    """True if *call* is of a function of Python's or of appl that has no effect."""
    if any(keyword.arg not in ("sep", "end", "flush") for keyword in call.keywords):
        return False  # a function to be called, or a file to write to
    names = set(_names(call.func))
    own = {*frame.f_locals, *frame.f_globals} - {"input", "now", "random", "uuid", "env"}
    return names <= _HARMLESS and not (isinstance(call.func, ast.Name) and names & own)


def _names(function: ast.expr) -> Iterator[str]:
    if isinstance(function, ast.Attribute):
        yield function.attr
    elif isinstance(function, ast.Name):
        yield function.id
    else:
        yield ""
