"""Loops that call a prompt function which waits inside: their calls run one after another.

Invariant: a loop is named only where the source shows that no call needs the result of another.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from appl.compiler.ir import OPS, Graph
from appl.compiler.nodes import called, names_in, walk
from appl.compiler.rules import LintFinding, finding_at
from appl.compiler.source import DEFS, Def

NAME = "serial-calls"
ABOUT = "A loop calls a prompt function that waits inside, although no call needs another result"
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)
_EAGER = ("list", "tuple", "set", "sorted", "sum", "max", "min", "dict")
_CHANGES = (
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popleft",
    "put",
    "remove",
    "send",
    "setdefault",
    "update",
    "write",
)


@dataclass(frozen=True, slots=True)
class WaitingFunction:
    """A prompt function that may wait inside, with the line where it does."""

    node: ast.FunctionDef
    line: int


def waiters(programs: Mapping[str, tuple[ast.AST, Graph]]) -> dict[str, WaitingFunction]:
    """The synchronous functions in *programs* that wait for their own calls, by name."""
    waiting: dict[str, WaitingFunction] = {}
    for name, (node, graph) in programs.items():
        if not isinstance(node, ast.FunctionDef) or _leaves_traces(node):
            continue
        for wait in graph.nodes:
            own = any(OPS[graph.nodes[source].op].future for source in wait.inputs)
            if wait.op == "wait" and own:
                waiting[name] = WaitingFunction(node, wait.line)
                break
    grows = True
    while grows:  # who calls a waiting one waits too
        more: dict[str, WaitingFunction] = {}
        for name, (node, _) in programs.items():
            if name in waiting or not isinstance(node, ast.FunctionDef) or _leaves_traces(node):
                continue
            if (call := next(_calls(node.body, waiting), None)) is not None:
                more[name] = WaitingFunction(node, call.lineno)
        waiting |= more
        grows = bool(more)
    return waiting


def _leaves_traces(node: ast.FunctionDef) -> bool:
    """True if a function may change an object that its next call sees too."""
    inside = list(walk(node.body))
    own = {inner.id for inner in inside if _stored(inner)}  # type: ignore[attr-defined]
    changed: set[str] = set()
    for inner in inside:
        if isinstance(inner, ast.Global | ast.Nonlocal):
            return True
        if isinstance(inner, ast.Attribute | ast.Subscript) and isinstance(inner.ctx, ast.Store):
            changed |= names_in(inner.value)
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            changed |= names_in(inner.func.value) if inner.func.attr in _CHANGES else set()
    return not changed <= own


def findings(
    file: str, tree: ast.Module, waiting: Mapping[str, WaitingFunction], imported: Mapping[str, str]
) -> Iterator[LintFinding]:
    """The loops of a file that call one of the functions in *waiting*."""
    for scope in scopes(tree) if waiting else ():
        bound = _bound(scope)
        names = {name: statement for name, statement in waiting.items() if name not in bound}
        for node in walk(scope.body):
            call = _repeated(node, names, imported)
            if call is None:
                continue
            name, shown = called(call), ast.unparse(call)
            words = [*(ast.unparse(argument) for argument in call.args)]
            words += [f"{word.arg}={ast.unparse(word.value)}" for word in call.keywords if word.arg]
            advice = _mapped(node, call) or f"call({', '.join([name, *words])})"
            yield finding_at(
                file,
                NAME,
                call,
                f"{name} waits inside (line {names[name].line}), so the calls `{shown}` of this "
                "loop run one after another, though none needs the result of another",
                f"write `{advice}`, or @ppl(parallel=True) above {name}",
            )


def scopes(tree: ast.Module) -> Iterator[ast.Module | Def]:
    """The top level of a file, and all functions in it."""
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, DEFS))


def _bound(scope: ast.AST) -> set[str]:
    """The names that a scope binds; a module's functions are left out."""
    if isinstance(scope, ast.Module):
        return {inner.id for inner in walk(scope.body) if _stored(inner)}  # type: ignore[attr-defined]
    inside = {inner.name for inner in ast.walk(scope) if isinstance(inner, DEFS)}
    own = {inner.arg for inner in ast.walk(scope) if isinstance(inner, ast.arg)}
    stored = {inner.id for inner in ast.walk(scope) if _stored(inner)}  # type: ignore[attr-defined]
    return own | stored | (inside - {getattr(scope, "name", "")})


def _stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _calls(body: Collection[ast.AST], names: Collection[str]) -> Iterator[ast.Call]:
    for node in walk(body):
        if isinstance(node, ast.Call) and called(node) in names:
            yield node


def _repeated(
    node: ast.AST, names: Collection[str], imported: Mapping[str, str]
) -> ast.Call | None:
    """The call that the loop *node* repeats; ``None`` for another node."""
    if isinstance(node, ast.ListComp | ast.SetComp):
        return _in_comprehension(node, [node.elt], names)
    if isinstance(node, ast.DictComp):
        return _in_comprehension(node, [node.key, node.value], names)
    if isinstance(node, ast.For) and not node.orelse:
        return _in_loop(node, names)
    eager = called(node)
    if not isinstance(node, ast.Call) or not node.args or eager not in _EAGER or eager in imported:
        return None
    # list(think(q) for q in qs), and the builtin map(think, qs) inside list
    inner = node.args[0]
    if isinstance(inner, ast.GeneratorExp):
        return _in_comprehension(inner, [inner.elt], names)
    if isinstance(inner, ast.Call) and called(inner) == "map" and "map" not in imported:
        of = inner.args[0] if inner.args else None
        if isinstance(of, ast.Name) and of.id in names:
            return ast.copy_location(ast.Call(of, inner.args[1:], []), inner)
    return None


def _in_comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
    parts: list[ast.expr],
    names: Collection[str],
) -> ast.Call | None:
    if any(generator.is_async for generator in node.generators):
        return None
    return next(_calls(parts, names), None)


def _in_loop(node: ast.For, names: Collection[str]) -> ast.Call | None:
    """A call in a ``for`` whose arguments the loop does not change, if nothing ends the loop."""
    inside = list(walk(node.body))
    if any(isinstance(inner, _LEAVES) for inner in inside):
        return None
    own = {inner.id for inner in ast.walk(node.target) if isinstance(inner, ast.Name)}
    changed = _changed(inside) - own
    for call in _calls(node.body, names):
        used = {inner.id for inner in ast.walk(call) if isinstance(inner, ast.Name)}
        if not used & changed and _innermost(node, call):
            return call
    return None


def _innermost(loop: ast.For, call: ast.Call) -> bool:
    """True if *call* is in no loop inside *loop*; such a loop is reported in its place."""
    kinds = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    inner = [nested for nested in walk(loop.body) if isinstance(nested, kinds)]
    return not any(call is nested for other in inner for nested in ast.walk(other))


def _changed(nodes: Collection[ast.AST]) -> set[str]:
    """The names that are bound, or whose objects may be changed, by *nodes*."""
    names = {inner.id for inner in nodes if _stored(inner)}  # type: ignore[attr-defined]
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names |= names_in(node.func.value)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            names |= names_in(node.value)
        elif isinstance(node, ast.AugAssign):
            names |= names_in(node.target)
    return names


def _mapped(loop: ast.AST, call: ast.Call) -> str:
    """The ``map`` that equals a simple list comprehension; empty for any other loop."""
    if not isinstance(loop, ast.ListComp) or loop.elt is not call or call.keywords:
        return ""
    one = loop.generators[0]
    if len(loop.generators) > 1 or one.ifs or len(call.args) != 1:
        return ""
    if not isinstance(one.target, ast.Name):
        return ""
    same = isinstance(call.args[0], ast.Name) and call.args[0].id == one.target.id
    return f"appl.map({ast.unparse(call.func)}, {ast.unparse(one.iter)})" if same else ""
