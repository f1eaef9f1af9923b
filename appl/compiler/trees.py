"""From text to a syntax tree, one at a time.

Invariant: no code of the program runs under the lock, apart from what the garbage collector ends.
CPython before 3.11.8 counts how deep a tree is in one place for all threads, and refuses a tree
when a collection lets another thread build one meanwhile; compiling to code is not concerned.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import functools
import operator
import threading
from typing import Any

from appl.base.threads import process_lock

FUTURES: int = functools.reduce(
    operator.or_,
    (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names),
)  # the flags of code that say what its module imported from __future__
_PARSING = process_lock(threading.RLock)  # a finalizer may parse on the thread that is just parsing
_TRIES = 5


def module_tree(text: str, file: str) -> ast.Module:
    """The tree of a file. Raises ``SyntaxError``."""
    tree: ast.Module = _parsed(text, file, "exec")
    return tree


def expression_tree(text: str) -> ast.expr:
    """The tree of one expression. Raises ``SyntaxError``."""
    expression: ast.Expression = _parsed(text, "<expression>", "eval")
    return expression.body


def _parsed(text: str, file: str, mode: str) -> Any:
    try:
        with _PARSING:
            for _ in range(_TRIES):
                with contextlib.suppress(SystemError):  # a thread of the program parsed, too
                    return ast.parse(text, file, mode)
            return ast.parse(text, file, mode)
    except (RecursionError, MemoryError):  # what Python raises for thousands of brackets or signs
        raise SyntaxError("it is nested too deeply", (file, 1, 1, "")) from None
