"""Arguments of ordinary code: the futures in them, and the values that take their places.

Invariant: all futures are waited for before any container is changed, so a failure changes none.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import itertools
import operator
import queue
import types
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any

from appl.compiler.hooks import program_of
from appl.runtime.activation import KEEPING
from appl.runtime.concurrency.future import awaited, result_of
from appl.runtime.concurrency.promise import Promise, Proxy
from appl.runtime.concurrency.scopes import OWN_CODE
from appl.runtime.future_takers import PLAIN, TAKERS

_EXACT = frozenset({list, tuple, dict, set, frozenset})


class Items:
    """A generator expression on its way to a callee."""

    __slots__ = ("generator",)

    def __init__(
        self, generator: Generator[object, None, None] | AsyncGenerator[object, None]
    ) -> None:
        self.generator = generator


def futures_in(value: Any, futures: list[Proxy], visited: set[int]) -> None:
    """Add to *futures* the futures in *value* and in exact builtin containers, in their order."""
    kind = type(value)
    if kind in PLAIN:
        return
    if kind in _EXACT:
        inner = value.values() if kind is dict else value
        if _plain(inner) or id(value) in visited:
            return
        visited.add(id(value))
        for item in inner:
            futures_in(item, futures, visited)
    elif isinstance(value, Proxy):
        futures.append(value)


def _futures_of(values: Iterable[object]) -> list[Proxy]:
    """The futures in *values*, in their order."""
    futures: list[Proxy] = []
    visited: set[int] = set()
    for value in values:
        futures_in(value, futures, visited)
    return futures


def _plain(inner: Any) -> bool:
    """True if no element can hold a future; fastest when all are of one type."""
    for first in inner:
        kind = type(first)
        if kind in PLAIN and operator.countOf(map(type, inner), kind) == len(inner):
            return True
        return PLAIN.issuperset(map(type, inner))
    return True


def replaced(value: Any, done: dict[int, object]) -> object:
    """*value* with finished values: lists and dicts in place, tuples and sets as copies."""
    kind = type(value)
    if isinstance(value, Proxy):
        return result_of(value._pending)
    if kind not in _EXACT or id(value) in done:
        return done.get(id(value), value) if kind in _EXACT else value
    done[id(value)] = value
    if kind is list:
        value[:] = [replaced(item, done) for item in value]
    elif kind is dict:
        for key, item in list(value.items()):
            value[key] = replaced(item, done)
    else:
        copy = kind([replaced(item, done) for item in value])
        if any(a is not b for a, b in zip(copy, value, strict=False)) or len(copy) != len(value):
            done[id(value)] = value = copy
    return value


def resolve(value: object) -> Any:
    """The finished value of one argument."""
    if type(value) in PLAIN:
        return value
    futures = _futures_of((value,))
    for future in futures:
        result_of(future._pending)
    return replaced(value, {}) if futures else value


async def aresolve(value: object) -> Any:
    """:func:`resolve` in a coroutine."""
    if type(value) in PLAIN:
        return value
    futures = _futures_of((value,))
    for future in futures:
        await awaited(future._pending)
    return replaced(value, {}) if futures else value


async def _async_elements(generator: AsyncIterator[object]) -> AsyncIterator[object]:
    async for element in generator:
        yield await aresolve(element)


# -- which callees take futures as they are

_STORING = frozenset(
    """
    append appendleft extend extendleft insert setdefault update put put_nowait __setitem__
""".split()
)
_CONTAINERS = (list, dict, collections.deque, collections.OrderedDict, collections.defaultdict)
_QUEUES = (queue.Queue, queue.LifoQueue, queue.PriorityQueue, queue.SimpleQueue)
_CALL = "__call__"


def takes_futures(f: Any) -> bool:
    """True if *f* gets futures as they are."""
    if id(f) in TAKERS:
        return True
    kind = type(f)
    if kind is types.BuiltinMethodType:
        return _stores(f)
    if kind is types.MethodType:
        return takes_futures(f.__func__) or (type(f.__self__) in _QUEUES and _stores(f))
    if kind is functools.partial:
        return takes_futures(f.func)
    if isinstance(f, type):
        return stores_fields(f)
    called = f if kind is types.FunctionType else getattr(kind, _CALL, None)
    return program_of(called) is not None


def needs_answers(f: Any) -> bool:
    """True if *f* needs values: plain code, or a method that stores them, not one that waits."""
    if id(f) in _AWAITING:
        return False
    kind = type(f)
    if kind is types.MethodType and isinstance(f.__self__, Proxy):
        return False
    if kind is types.BuiltinMethodType or kind is types.MethodType:
        return _stores(f) or not takes_futures(f)
    return not takes_futures(f)


def _stores(f: Any) -> bool:
    if f.__name__ not in _STORING:
        return False
    owner = type(f.__self__)
    ours = owner in _CONTAINERS or owner in _QUEUES
    return ours or owner.__module__ == "asyncio.queues"


@functools.lru_cache(maxsize=4096)
def stores_fields(kind: type) -> bool:
    """Named tuples, and dataclasses whose constructor only stores."""
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields") and kind.__init__ is tuple.__init__
    if not dataclasses.is_dataclass(kind) or hasattr(kind, "__post_init__"):
        return False
    params = getattr(kind, "__dataclass_params__", None)
    return params is not None and params.init and "__dataclass_params__" in vars(kind)


def prepared(f: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """``f(*args, **kwargs)`` ready to be called, when an argument may hold a future."""
    if takes_futures(f):
        if args and _hashes_first(f):
            args = (resolve(args[0]), *args[1:])
        return functools.partial(f, *_unwrapped(args), **{k: _unwrap(v) for k, v in kwargs.items()})
    if args and _uses_up(f):
        args = tuple(map(_elements, args))
    futures = _futures_of((*args, *kwargs.values()))
    for future in futures:
        result_of(future._pending)
    return functools.partial(f, *_final(args, futures), **_final_named(kwargs, futures))


_AWAITING = frozenset(
    map(
        id,
        (
            asyncio.gather,
            asyncio.wait_for,
            asyncio.shield,
            asyncio.ensure_future,
            asyncio.as_completed,
        ),
    )
)
"""Callables that await their arguments themselves: they get a future as a coroutine."""


async def _value(pending: Promise) -> object:
    try:
        return await awaited(pending)
    except asyncio.CancelledError:
        pending.cancel()
        raise


OWN_CODE.add(_value.__code__)


def _awaitable(value: Any) -> object:
    if isinstance(value, Proxy):
        return _value(value._pending)
    return [_awaitable(item) for item in value] if type(value) in (list, tuple, set) else value


async def aprepared(
    f: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> Any:
    """:func:`prepared` in a coroutine."""
    if id(f) in _AWAITING:
        return functools.partial(f, *map(_awaitable, _unwrapped(args)), **kwargs)
    if args and _uses_up(f):
        args = tuple(map(_elements, args))
    if takes_futures(f):
        if args and _hashes_first(f):
            args = (await aresolve(args[0]), *args[1:])
        return functools.partial(f, *_unwrapped(args), **{k: _unwrap(v) for k, v in kwargs.items()})
    futures = _futures_of((*args, *kwargs.values()))
    for future in futures:
        await awaited(future._pending)
    return functools.partial(f, *_final(args, futures), **_final_named(kwargs, futures))


_USING_UP = frozenset(map(id, (sum, min, max, sorted, set, frozenset)))
_ITERATORS: Any = (
    map, filter, zip, reversed, enumerate, types.GeneratorType, itertools.chain, itertools.islice,
    type({}.values()), type({}.items()), type(iter([])), type(reversed([])), type(iter(())),
    collections.deque,
)  # fmt: skip


def _uses_up(f: object) -> bool:
    """True if *f* is built in and takes every element of its argument before it returns."""
    if id(f) in _USING_UP:
        return True
    return type(f) is types.BuiltinMethodType and f.__name__ in ("join", "writelines")


def _elements(value: object) -> Any:
    """The elements of an iterator as a list, in which futures are found; each is started so."""
    return list(value) if isinstance(value, _ITERATORS) else value


KEEPING.add(id(_elements.__code__))  # what map(ask, words) calls from there is called by the body


def _unwrap(value: object) -> object:
    return value.generator if type(value) is Items else value


def _unwrapped(args: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(map(_unwrap, args))


def _final(args: tuple[object, ...], futures: list[Proxy]) -> Iterator[object]:
    done: dict[int, Any] = {}
    for argument in args:
        if type(argument) is Items:  # each element is waited for when it is asked for
            if isinstance(argument.generator, AsyncIterator):
                yield _async_elements(argument.generator)
            else:
                yield map(resolve, argument.generator)
        else:
            yield replaced(argument, done) if futures else argument


def _final_named(kwargs: dict[str, object], futures: list[Proxy]) -> dict[str, object]:
    return dict(zip(kwargs, _final(tuple(kwargs.values()), futures), strict=True))


def _hashes_first(f: object) -> bool:
    """``d.setdefault(key, value)`` stores the value as it is, but a key waits."""
    return getattr(f, "__name__", "") in ("setdefault", "__setitem__")
