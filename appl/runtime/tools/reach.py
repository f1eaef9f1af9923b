"""Finds out whether a plain function may ask a model, as far as its code tells.

Invariant: nothing is called. Where the code does not tell, the function may.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

_PLAIN = (str, int, float, complex, bytes, bytearray, type(None), BuiltinFunctionType)
_OPAQUE = {"eval", "exec", "globals", "__import__", "import_module"}
_DEEP = 20


def may_ask(value: object, deep: int = 0) -> bool:
    """True if *value*, or what its code uses, may ask a model."""
    if isinstance(value, _PLAIN):
        return False
    if deep > _DEEP:
        return True
    if isinstance(value, functools.partial):
        return any(may_ask(part, deep + 1) for part in (value.func, value.args, value.keywords))
    if isinstance(value, dict | list | tuple | set | frozenset):
        every = (*value, *value.values()) if isinstance(value, dict) else value
        return any(may_ask(part, deep + 1) for part in every)
    if isinstance(value, ModuleType | FunctionType | type):
        name = value.__name__ if isinstance(value, ModuleType) else value.__module__
        if (name or "").partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
            return False
    if isinstance(value, FunctionType) and inspect.unwrap(value) is value:
        return not _OPAQUE.isdisjoint(_names(value.__code__)) or any(
            may_ask(used, deep + 1) for used in _used(value)
        )
    return True


def _used(f: FunctionType) -> Iterator[object]:
    """The values that *f* names: globals, variables of outer functions, and modules."""
    for cell in f.__closure__ or ():
        yield cell.cell_contents
    for name in _names(f.__code__):
        if name in f.__globals__:
            yield f.__globals__[name]
        elif name in sys.modules:  # it may be imported inside
            yield sys.modules[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
