"""One walk over a function: which names it binds, where, and to what.

Invariant: a name that any scope inside the function binds is listed, so that "not bound" is sure.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import UnionType
from typing import Any

from appl.compiler.nodes import LEAVES, called

_SCOPES = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef}
    | {ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp}
)

_LEAVES = LEAVES | {ast.Name}  # targets are read from the statement that binds them


@dataclass(slots=True)
class Survey:
    """``bindings`` are pairs of a name and the expression it is bound to (None: anything)."""

    bound: set[str] = field(default_factory=set)
    rooted: set[str] = field(default_factory=set)  # bound in the function's own scope
    bindings: list[tuple[str, ast.expr | None]] = field(default_factory=list)
    yields: bool = False  # the function itself is a generator

    @property
    def aliases(self) -> dict[str, ast.expr]:
        """The function's own names that are bound once, to what another name stands for."""
        return dict(self.once(ast.Name | ast.Attribute))

    def once(self, kind: type | UnionType) -> Iterator[tuple[str, ast.expr]]:
        """The function's own names that are bound once, to an expression of that *kind*."""
        times = Counter(name for name, _ in self.bindings)
        for name, value in self.bindings:
            once = times[name] == 1 and name in self.rooted
            if once and value is not None and isinstance(value, kind):
                yield name, value

    def bind(self, name: str | None, value: ast.expr | None, rooted: bool) -> None:
        if name is not None:
            self.bound.add(name)
            if rooted:
                self.rooted.add(name)
            self.bindings.append((name, value))

    def assign(
        self, targets: Iterable[ast.expr | None], value: ast.expr | None, rooted: bool
    ) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                self.bind(target.id, value, rooted)
            elif isinstance(target, ast.Tuple | ast.List):
                self.assign(target.elts, None, rooted)
            elif isinstance(target, ast.Starred):
                self.assign([target.value], None, rooted)


def survey(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Survey:
    """The names that *node* binds; its decorators, defaults and annotations are not looked at."""
    result, args = Survey(), node.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            result.bind(arg.arg, None, True)
    todo: list[tuple[ast.AST, bool]] = [(child, True) for child in node.body]
    while todo:
        inner, rooted = todo.pop()
        kind = type(inner)
        if kind in _NAMES:
            for name in _NAMES[kind](inner):
                result.bind(name, None, rooted)
        elif kind in _TARGETS:
            targets, value = _TARGETS[kind](inner)
            result.assign(targets, value, rooted)
        elif kind is ast.Yield or kind is ast.YieldFrom:
            result.yields = result.yields or rooted
        if kind in _SCOPES:
            rooted = False  # a walrus in a comprehension binds outside; this is the careful side
        for child in inner.__dict__.values():
            if type(child) is list:
                todo += [(part, rooted) for part in child if type(part) not in _LEAVES]
            elif type(child) not in _LEAVES:
                todo.append((child, rooted))
    return result


def element_of(iterated: ast.expr) -> ast.expr | None:
    """An expression that stands for every element of *iterated*; None if there is none."""
    if isinstance(iterated, ast.Constant | ast.JoinedStr) or called(iterated) == "range":
        return iterated
    if isinstance(iterated, ast.Tuple | ast.List | ast.Set):
        return ast.Tuple(elts=iterated.elts, ctx=ast.Load())
    return None


_NAMES: dict[type[ast.AST], Callable[[Any], Iterable[str | None]]] = {
    ast.FunctionDef: lambda node: [node.name],
    ast.AsyncFunctionDef: lambda node: [node.name],
    ast.ClassDef: lambda node: [node.name],
    ast.MatchAs: lambda node: [node.name],
    ast.MatchStar: lambda node: [node.name],
    ast.ExceptHandler: lambda node: [node.name],
    ast.MatchMapping: lambda node: [node.rest],
    ast.arg: lambda node: [node.arg],
    ast.alias: lambda node: [node.asname or node.name.partition(".")[0]],
    ast.Global: lambda node: node.names,
    ast.Nonlocal: lambda node: node.names,
}
"""Nodes that bind names to anything."""

_TARGETS: dict[type[ast.AST], Callable[[Any], tuple[list[ast.expr], ast.expr | None]]] = {
    ast.Assign: lambda node: (node.targets, node.value),
    ast.AnnAssign: lambda node: ([node.target], node.value),
    ast.AugAssign: lambda node: ([node.target], node.value),
    ast.NamedExpr: lambda node: ([node.target], node.value),
    ast.For: lambda node: ([node.target], element_of(node.iter)),
    ast.comprehension: lambda node: ([node.target], element_of(node.iter)),
    ast.AsyncFor: lambda node: ([node.target], None),
    ast.withitem: lambda node: ([node.optional_vars], None),
}
"""Nodes that assign to targets, which may stand for a value."""
