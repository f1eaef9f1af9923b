"""Tells by its names if a function that is no prompt function may ask a model.

Invariant: nothing is run; functions of the standard library and of installed packages ask none.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType

from appl.compiler.names import UNKNOWN, module_member, outer_names

_MOST = 500
"""Functions that are looked at."""

_OTHERS = sys.stdlib_module_names | {"appl", "appl_backends"}
_MAKERS = ("__new__", "__init__", "__post_init__")


def may_reach(value: object, asks: Callable[[object], bool]) -> bool:
    """True if *value* names an object for which *asks* is true, or a function that does."""
    makers = [vars(value).get(name) for name in _MAKERS] if isinstance(value, type) else [value]
    todo, visited = makers, set[CodeType]()
    while todo and len(visited) < _MOST:
        for function in _functions(todo.pop()):
            if function.__code__ in visited:
                continue
            visited.add(function.__code__)
            named = list(_named(function))
            if any(map(asks, named)):
                return True
            todo += named
    return False


def _functions(value: object) -> Iterator[FunctionType]:
    """The functions of the user's own code that a call of *value* may run."""
    while isinstance(value, functools.partial | MethodType | staticmethod | classmethod):
        value = value.func if isinstance(value, functools.partial) else value.__func__
    if isinstance(value, FunctionType):
        if _is_own(value.__module__, value.__code__.co_filename):
            yield value
        return
    kind = value if isinstance(value, type) else type(value)
    if _is_own(kind.__module__, ""):
        yield from (var for var in vars(kind).values() if isinstance(var, FunctionType))


def _is_own(module: object, file: str) -> bool:
    package = str(module).partition(".")[0]
    return package not in _OTHERS and "site-packages" not in file


def _named(function: FunctionType) -> Iterator[object]:
    """The objects that the code of *function* names."""
    outer = outer_names(function)
    for code in _codes(function.__code__):
        for name in (*code.co_names, *code.co_freevars):
            value = outer.get(name, UNKNOWN)
            yield value
            if isinstance(value, ModuleType):
                yield from (module_member(value, member) for member in code.co_names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _codes(constant)
