"""Making AST nodes: new ones at the place of a user's node, and changed copies; walking them.

Invariant: no node that was made elsewhere is changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

_SYNTAX = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)

_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

_N = TypeVar("_N", bound=ast.AST)

LEAVES: frozenset[type] = frozenset(
    [int, str, bool, float, complex, bytes, type(None), type(...), ast.Constant]
    + [kind for base in _SYNTAX for kind in base.__subclasses__()]
)  # what a walk need not enter: the values of fields that hold no other node

Placed = ast.stmt | ast.expr | ast.excepthandler | ast.pattern | ast.arg | ast.keyword
"""Nodes that have a position in the source."""

TEMPLATES: tuple[type[ast.expr], ...] = (
    ast.JoinedStr,
    *([ast.TemplateStr] if hasattr(ast, "TemplateStr") else []),
)  # strings with holes


def at(place: Placed, node: _N) -> _N:
    """The new *node* with the position of *place*."""
    new = cast(Placed, node)
    new.lineno, new.col_offset = place.lineno, place.col_offset
    new.end_lineno, new.end_col_offset = place.end_lineno, place.end_col_offset
    return node


def copied(node: _N, **changes: object) -> _N:
    """A node like *node* but for *changes*; its other children are shared with it."""
    new = type(node).__new__(type(node))
    new.__dict__.update(node.__dict__)
    new.__dict__.update(changes)
    return new


def constant(value: str | bool, place: Placed) -> ast.Constant:
    """A constant at *place*."""
    return at(place, ast.Constant(value=value))


def walk(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of *body* in source order, without functions and classes inside it."""
    todo: list[ast.AST] = [*body][::-1]
    while todo:
        node = todo.pop()
        if not isinstance(node, _INNER):
            yield node
            todo += [*ast.iter_child_nodes(node)][::-1]


def called(node: object) -> str:
    """The name that *node* calls; "" for anything but the call of a plain name."""
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return node.func.id if named else ""  # type: ignore[attr-defined]


def call_of(statement: ast.stmt) -> ast.Call | None:
    """The call that *statement* consists of, awaited or not."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    value = value.value if isinstance(value, ast.Await) else value
    return value if isinstance(value, ast.Call) else None


def own_statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of the function in order, without those of functions and classes inside."""
    for statement in getattr(node, "body", ()):
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield from own_statements(statement)
        for block in ("orelse", "finalbody"):
            yield from own_statements(
                ast.Module(body=getattr(statement, block, None) or [], type_ignores=[])
            )
        for inner in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from own_statements(inner)


def names_in(node: ast.AST) -> set[str]:
    """The names that stand in *node*."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
