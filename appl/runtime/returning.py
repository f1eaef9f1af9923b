"""The value of a function with a return annotation, for a caller that is plain Python.

Invariant: an annotation that names a future anywhere, or says nothing (``Any``), keeps the future.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
import types
import typing
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from typing import Any

from appl.compiler.trees import expression_tree
from appl.runtime.concurrency.future import awaited, result_of
from appl.runtime.concurrency.promise import Promise, Proxy
from appl.runtime.future_takers import PLAIN
from appl.runtime.resolve import stores_fields

_OPEN = (Any, object)
_LATER = (Proxy, Awaitable, AsyncIterable)
_FUTURES = frozenset(
    """
    AsyncIterable AsyncIterator Awaitable CallFuture Coroutine Future Generation StringFuture
""".split()
)
"""The words that keep the future, where an annotation cannot be evaluated."""


def returns_value(f: Callable[..., object]) -> bool:
    """True if the return annotation of *f* is a value such as ``str``, not a future or nothing."""
    hint = _hint(f)
    return hint is not None and not _keeps(hint)


def _hint(f: Callable[..., object]) -> object:
    """The return annotation, evaluated where that works; ``None`` without one."""
    written = _written(f)
    if written is None or written == "None":
        return None
    cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
    try:
        near = {name: cell.cell_contents for name, cell in cells}
        holder = types.SimpleNamespace(__annotations__={"return": written})
        return typing.get_type_hints(holder, f.__globals__, near)["return"]
    except Exception:  # a name that only type checkers know, or that is not there yet
        return written


def _written(f: Callable[..., object]) -> object:
    """The return annotation as it was written."""
    if sys.version_info >= (3, 14):
        import annotationlib  # there since 3.14

        annotations = annotationlib.get_annotations(f, format=annotationlib.Format.FORWARDREF)
        return annotations.get("return")
    return f.__annotations__.get("return")


def _keeps(hint: object, inside: bool = False) -> bool:
    """True if *hint* is a future, holds one, or leaves open what there is.

    *inside* it is an argument of another one: ``dict[str, Any]`` is a value.
    """
    if isinstance(hint, str):
        return hint in ("Any", "object") or not _FUTURES.isdisjoint(_words(hint))
    if isinstance(hint, typing.ForwardRef):
        return _keeps(hint.__forward_arg__)
    named = getattr(hint, "__value__", None) or getattr(hint, "__supertype__", None)
    if named is not None:  # `type Name = ...`, NewType
        return _keeps(named, inside)
    origin = typing.get_origin(hint)
    kind = origin or hint
    if origin is typing.Literal:
        return False
    if kind in _OPEN or isinstance(kind, typing.TypeVar):
        return not inside
    if isinstance(kind, type) and issubclass(kind, _LATER):
        return True
    inside = inside or origin not in (typing.Union, types.UnionType)
    return any(_keeps(part, inside) for part in typing.get_args(hint) if type(part) is not list)


def _words(text: str) -> Iterator[str]:
    """The names in an annotation."""
    try:
        tree = expression_tree(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            yield node.id if isinstance(node, ast.Name) else node.attr


# -- waiting for all of a value


def settled(value: object) -> object:
    """*value* with finished answers, also in builtin containers and in fields of dataclasses."""
    while pending := _pending(value):
        for future in pending:
            result_of(future)
        value = _replaced(value, {})
    return value


async def asettled(value: object) -> object:
    """:func:`settled` in a coroutine."""
    while pending := _pending(value):
        for future in pending:
            await awaited(future)
        value = _replaced(value, {})
    return value


def _pending(value: object) -> list[Promise]:
    """The calls behind the futures in *value*, and not the futures.

    A failure cancels the calls of which only the failing function still holds the futures.
    """
    return [future._pending for future in _futures(value, set())]


def _parts(value: Any) -> Any:
    """The elements or fields of *value*, where futures are looked for."""
    kind = type(value)
    if kind in PLAIN:
        return ()
    if kind is dict:
        return value.values()
    if kind in (list, tuple, set, frozenset):
        return value
    return _fields(value).values()


def _fields(value: object) -> dict[str, Any]:
    """The fields of a value whose constructor only stores them."""
    kind: Any = type(value)
    if kind is types.SimpleNamespace:
        return {**vars(value)}
    if not stores_fields(kind):
        return {}
    is_tuple = issubclass(kind, tuple)
    names = kind._fields if is_tuple else [field.name for field in dataclasses.fields(kind)]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _futures(value: object, visited: set[int]) -> list[Proxy]:
    if isinstance(value, Proxy):
        return [value]
    parts = _parts(value)
    if not parts or id(value) in visited or PLAIN.issuperset(map(type, parts)):
        return []
    visited.add(id(value))
    return [future for part in parts for future in _futures(part, visited)]


def _replaced(value: object, done: dict[int, object]) -> Any:
    """*value* with finished values: tuples and sets as copies, all others in place."""
    if isinstance(value, Proxy):
        return result_of(value._pending)
    if id(value) in done or not _parts(value):
        return done.get(id(value), value)
    done[id(value)] = value
    if isinstance(value, list):
        value[:] = [_replaced(item, done) for item in value]
    elif isinstance(value, dict):
        value.update({key: _replaced(item, done) for key, item in value.items()})
    elif isinstance(value, tuple | set | frozenset):
        done[id(value)] = value = _copy(value, [_replaced(item, done) for item in value])
    else:
        for name, item in _fields(value).items():
            object.__setattr__(value, name, _replaced(item, done))
    return value


def _copy(value: Any, parts: list[Any]) -> object:
    """*parts* in a container like *value*; *value* itself where nothing changed."""
    if len(parts) == len(value) and all(a is b for a, b in zip(parts, value, strict=True)):
        return value
    kind = type(value)
    return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
