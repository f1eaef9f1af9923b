"""``traceable``: a plain function that has a place of its own in addresses and traces.

Invariant: it works on the prompt of its caller, as any plain function does; only the addresses of
what it starts change.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ParamSpec, TypeVar, overload

from appl.compiler.hooks import program_of
from appl.errors import InvalidOption
from appl.runtime.activation import Body, CallMode, marked
from appl.runtime.concurrency.scopes import call_in_words
from appl.runtime.frame import Frame, here

P = ParamSpec("P")
R = TypeVar("R")


class _Traced(Body):
    """A function whose calls are scopes."""

    def __init__(
        self, f: Callable[..., object], name: str | None, metadata: Mapping[str, object] | None
    ) -> None:
        self.body, self._metadata = f, metadata
        self.name = (name or f.__name__).replace("/", "_")  # a part of an address
        code = getattr(f, "__code__", None)
        self.qualname = getattr(f, "__qualname__", self.name)
        self.file = getattr(code, "co_filename", None)
        self.line = getattr(code, "co_firstlineno", None)

    def entered(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Frame:
        """The frame of a call with *args* and *kwargs*."""
        caller = here(call_in_words, self.name, args)
        ctx = "same" if caller.parent is not None else "new"
        mode = CallMode(ctx, model=caller.model, metadata=self._metadata)
        return self.enter(args, kwargs, mode=mode, caller=caller)[0]


def _sync(traced: _Traced) -> Callable[..., object]:
    return lambda *args, **kwargs: traced.execute(traced.entered(args, kwargs), None, args, kwargs)


def _async(traced: _Traced) -> Callable[..., object]:
    return marked(
        lambda *args, **kwargs: traced.aexecute(traced.entered(args, kwargs), None, args, kwargs)
    )


def _generator(traced: _Traced) -> Callable[..., object]:
    from appl.runtime.generators import generate  # few functions are generators

    return lambda *args, **kwargs: generate(
        traced, traced.entered(args, kwargs), None, traced.body(*args, **kwargs)
    )


def _asyncgen(traced: _Traced) -> Callable[..., object]:
    from appl.runtime.generators import agenerate

    return lambda *args, **kwargs: agenerate(
        traced, traced.entered(args, kwargs), None, traced.body(*args, **kwargs)
    )


def _kind(f: Callable[..., object]) -> Callable[[_Traced], Callable[..., object]]:
    if inspect.iscoroutinefunction(f):
        return _async
    if inspect.isasyncgenfunction(f):
        return _asyncgen
    return _generator if inspect.isgeneratorfunction(f) else _sync


@overload
def traceable(func: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def traceable(
    func: str | None = None, /, *, metadata: Mapping[str, object] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def traceable(func: object = None, /, *, metadata: Mapping[str, object] | None = None) -> object:
    """Show a plain function in addresses and traces, as ``@ppl`` functions are shown.

    ``@traceable``, ``@traceable("name")`` or ``@traceable(metadata={…})``; *metadata* (plain data)
    is recorded with each call of it. On a ``@ppl`` function it only adds the *metadata*.
    """

    if not (func is None or isinstance(func, str) or callable(func)):
        raise InvalidOption(
            f"traceable(...) takes a function, or a name for one, got {func!r:.80}; write "
            '@traceable or @traceable("name")'
        )
    if not isinstance(metadata, Mapping | None):
        raise InvalidOption(f"traceable(metadata=...) takes a dict, got {metadata!r:.80}")

    def decorate(f: Callable[..., object], name: str | None = None) -> Callable[..., object]:
        program = program_of(f)
        if program is not None and name is None:  # it is a scope already
            program.mode = replace(program.mode, metadata=metadata)
            return f
        return functools.wraps(f)(_kind(f)(_Traced(f, name, metadata)))

    if callable(func):
        return decorate(func)
    return lambda f: decorate(f, func)
