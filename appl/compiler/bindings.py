"""One walk over a function: which names it binds, where, and to what.

Invariant: a name that any scope inside the function binds is listed, so that "not bound" is sure.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import UnionType

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
        if name is None:
            return
        self.bound.add(name)
        if rooted:
            self.rooted.add(name)
        self.bindings.append((name, value))

    def assign(self, targets: Iterable[ast.expr], value: ast.expr | None, rooted: bool) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                self.bind(target.id, value, rooted)
            elif isinstance(target, ast.Tuple | ast.List):
                self.assign(target.elts, None, rooted)
            elif isinstance(target, ast.Starred):
                self.assign([target.value], None, rooted)


def survey(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Survey:
    """The names that *node* binds; its decorators, defaults and annotations are not looked at."""
    result = Survey()
    _arguments(node.args, True, result)
    todo: list[tuple[ast.AST, bool]] = [(child, True) for child in node.body]
    while todo:
        inner, rooted = todo.pop()
        read = _READERS.get(type(inner))
        if read is not None:
            read(inner, rooted, result)
        if type(inner) in _SCOPES:
            rooted = False  # a walrus in a comprehension binds outside; this is the careful side
        for value in inner.__dict__.values():
            if type(value) is list:
                todo += [(child, rooted) for child in value if type(child) not in _LEAVES]
            elif type(value) not in _LEAVES:
                todo.append((value, rooted))
    return result


def element_of(iterated: ast.expr) -> ast.expr | None:
    """An expression that stands for every element of *iterated*; None if there is none."""
    if isinstance(iterated, ast.Constant | ast.JoinedStr):
        return iterated
    if called(iterated) == "range":
        return iterated
    if isinstance(iterated, ast.Tuple | ast.List | ast.Set):
        return ast.Tuple(elts=iterated.elts, ctx=ast.Load())
    return None


def _arguments(args: ast.arguments, rooted: bool, result: Survey) -> None:
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            result.bind(arg.arg, None, rooted)


def _function(node: ast.FunctionDef | ast.Lambda, rooted: bool, result: Survey) -> None:
    result.bind(getattr(node, "name", None), None, rooted)
    _arguments(node.args, False, result)


def _assign(node: ast.Assign, rooted: bool, result: Survey) -> None:
    result.assign(node.targets, node.value, rooted)


def _bind_target(
    node: ast.AnnAssign | ast.AugAssign | ast.NamedExpr, rooted: bool, result: Survey
) -> None:
    result.assign([node.target], node.value, rooted)


def _loop(node: ast.For | ast.AsyncFor | ast.comprehension, rooted: bool, result: Survey) -> None:
    element = None if isinstance(node, ast.AsyncFor) else element_of(node.iter)
    result.assign([node.target], element, rooted)


def _with(node: ast.withitem, rooted: bool, result: Survey) -> None:
    if node.optional_vars is not None:
        result.assign([node.optional_vars], None, rooted)


def _named(
    node: ast.ClassDef | ast.MatchAs | ast.MatchStar | ast.ExceptHandler,
    rooted: bool,
    result: Survey,
) -> None:
    result.bind(node.name, None, rooted)


def _rest(node: ast.MatchMapping, rooted: bool, result: Survey) -> None:
    result.bind(node.rest, None, rooted)


def _declared(node: ast.Global | ast.Nonlocal, rooted: bool, result: Survey) -> None:
    for name in node.names:
        result.bind(name, None, rooted)


def _yield(node: ast.Yield | ast.YieldFrom, rooted: bool, result: Survey) -> None:
    result.yields = result.yields or rooted


_READERS: dict[type[ast.AST], Callable[..., None]] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _function,
    ast.ClassDef: _named,
    ast.Assign: _assign,
    ast.AnnAssign: _bind_target,
    ast.AugAssign: _bind_target,
    ast.NamedExpr: _bind_target,
    ast.For: _loop,
    ast.comprehension: _loop,
    ast.AsyncFor: _loop,
    ast.withitem: _with,
    ast.MatchAs: _named,
    ast.MatchStar: _named,
    ast.MatchMapping: _rest,
    ast.ExceptHandler: _named,
    ast.alias: lambda node, rooted, result: result.bind(
        node.asname or node.name.partition(".")[0], None, rooted
    ),
    ast.Global: _declared,
    ast.Nonlocal: _declared,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
}
