"""The pass that refuses what cannot be compiled, before anything is changed.

Invariant: a refusal is a ``PromptSyntaxError`` at the user's line and says what to write instead;
only what is not a function at all is a ``TypeError``.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from types import FunctionType

from appl.compiler.names import FunctionNames, origin, ppl_decorator
from appl.compiler.nodes import copied
from appl.compiler.source import FunctionSource, find
from appl.compiler.trees import expression_tree
from appl.errors import PromptSyntaxError, SourceUnavailable

_SWAPPED = (staticmethod, classmethod, property, functools.cached_property)


def require_function(value: object) -> FunctionType:
    """*value* if ``@ppl`` can compile it."""
    if isinstance(value, FunctionType):
        return value
    if isinstance(value, _SWAPPED):
        raise TypeError(swapped(type(value).__name__))
    if isinstance(getattr(value, "__wrapped__", None), FunctionType):
        is_cache = isinstance(value, functools._lru_cache_wrapper)
        raise TypeError(swapped("cache" if is_cache else type(value).__name__))
    raise TypeError(f"@ppl compiles a function written with def, not {_described(value)}")


def swapped(kind: str) -> str:
    """The message for ``@ppl`` above a decorator that makes a *kind* object, not a function."""
    return (
        f"@ppl was given a {kind} object; swap the two lines: @{kind} above, @ppl right above "
        "the def"
    )


def refuse_wrapper(function: FunctionSource) -> PromptSyntaxError:
    """The error for ``@ppl`` above a decorator that wraps *function*."""
    name = function.node.name
    return function.source.refusal(
        _header(function),
        f"@ppl was given the wrapper that another decorator put around {name}(), and would compile "
        f"that; move @ppl down, right above `def {name}`",
    )


def fence(
    function: FunctionSource, names: FunctionNames, f: FunctionType, *, ctx: str, parallel: bool
) -> None:
    """Refuse the function if it or its decoration cannot be compiled."""
    if "__wrapped__" in f.__dict__ and ppl_decorator(function.node, names) is None:
        # It stands above a decorator that wraps, and would compile the wrapper.
        inner = inspect.unwrap(f)
        try:
            there = find(inner) if isinstance(inner, FunctionType) else function
        except (PromptSyntaxError, SourceUnavailable):
            there = function
        raise refuse_wrapper(there)
    generator = inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f)
    fence_source(function, names, ctx=ctx, parallel=parallel, generator=generator)


def fence_source(
    function: FunctionSource, names: FunctionNames, *, ctx: str, parallel: bool, generator: bool
) -> None:
    """Refuse a function that cannot be compiled, judged by its source alone."""
    if parallel:
        place = ppl_decorator(function.node, names) or _header(function)
        if ctx in ("same", "resume"):
            raise function.source.refusal(
                place,
                f'parallel=True says that calls are independent, ctx="{ctx}" that each continues '
                f'the prompt of the one before; write ctx="copy", or leave parallel=True out',
            )
        if generator:
            raise function.source.refusal(
                place,
                "a generator runs when it is asked for its next value, so it cannot be "
                "parallel=True; leave that out, or make it a function that returns a list",
            )
    _typed_as_it_says(function, names)
    for statement in _statements(function.node, nested=True):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.JoinedStr):
            _no_walrus_look_alike(function, statement.value)


def _described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}; decorate its methods"
    if isinstance(value, functools.partial):
        return "a functools.partial; decorate the function inside it"
    if inspect.ismethod(value):
        return f"the bound method {value.__name__}; decorate the def in the class"
    if inspect.isroutine(value):
        return f"{value.__name__}(), which is written in C; call it from a def of your own"
    return f"an object of type {type(value).__name__}"


def _no_walrus_look_alike(function: FunctionSource, string: ast.JoinedStr) -> None:
    for part in string.values:
        if not isinstance(part, ast.FormattedValue) or not isinstance(part.value, ast.Name):
            continue
        texts = part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else []
        spec = "".join(str(t.value) if isinstance(t, ast.Constant) else "{...}" for t in texts)
        if spec.startswith("="):
            name, rest = part.value.id, spec[1:]
            raise function.source.refusal(
                part.value,
                f"{{{name}:={rest}}} does not bind {name}, it formats it with the spec "
                f"'={rest}'; write {{({name} := {rest})}} to bind it, or {{{name}: ={rest}}} "
                f"to pad it with spaces",
            )


def _typed_as_it_says(function: FunctionSource, names: FunctionNames) -> None:
    """Refuse ``return gen()`` in a function whose annotation says that it returns no text.

    Only of a type that certainly is none, and of a ``gen`` whose options leave its answer one.
    """
    annotation = function.node.returns
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = expression_tree(annotation.value)
        except (SyntaxError, ValueError):
            return
    if annotation is None:
        return
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    kind = names.object_of(base)
    if not isinstance(kind, type) or issubclass(kind, str):
        return
    if kind not in _SHAPES and not any(hasattr(kind, mark) for mark in _MARKS):
        return
    hint = ast.unparse(annotation)
    for statement in _statements(function.node, nested=False):
        value = statement.value if isinstance(statement, ast.Return) else None
        call = value.value if isinstance(value, ast.Await) else value
        if (
            value is not None
            and isinstance(call, ast.Call)
            and origin(names.object_of(call.func)) == "gen"
            and all(keyword.arg in _PLAIN_OPTIONS for keyword in call.keywords)
        ):
            raise function.source.refusal(
                value,
                f"gen() gives a text, and {function.node.name}() is to return {hint}; write "
                f"gen(response_format={hint}), or -> str for the text",
            )


_SHAPES = (int, float, bool, list, dict, tuple, set, frozenset)
_MARKS = ("__dataclass_fields__", "model_fields", "__total__", "__members__", "_fields")
"""Attributes of dataclasses, models of pydantic, typed dictionaries, enums and named tuples."""


_PLAIN_OPTIONS = frozenset(
    "model temperature max_tokens seed stop top_p timeout priority messages cache".split()
)
"""Options of ``gen`` that leave its answer a text."""


def _statements(node: ast.AST, *, nested: bool) -> Iterator[ast.AST]:
    """All statements of the function, and of functions inside it if *nested*, never of classes."""
    closed = (ast.ClassDef,) if nested else (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    todo: list[ast.AST] = list(getattr(node, "body", ()))
    while todo:
        statement = todo.pop()
        yield statement
        if not isinstance(statement, closed):
            for block in ("body", "orelse", "finalbody", "handlers", "cases"):
                todo.extend(getattr(statement, block, ()))


def _header(function: FunctionSource) -> ast.AST:
    """The words ``def name`` alone, so that a caret does not underline the whole function."""
    node = function.node
    words = f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}def {node.name}"
    end = node.col_offset + len(words.encode())
    return copied(node, end_lineno=node.lineno, end_col_offset=end)
