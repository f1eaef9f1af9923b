"""Expressions that cannot hold a future, so that lowered code need not look at their values.

Invariant: an answer of "cannot" holds in every run; where it is not certain, the answer is "may".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from appl.compiler.bindings import Survey, element_of
from appl.compiler.names import FunctionNames

_ALWAYS = (ast.Constant, ast.JoinedStr, ast.Compare, ast.Lambda)
_FINISHED = frozenset(
    {
        *("abs", "all", "any", "ascii", "bin", "bool", "bytes", "callable"),
        *("chr", "divmod", "float", "format", "hasattr", "hash", "hex", "id"),
        *("input", "int", "isinstance", "issubclass", "len", "oct", "ord", "pow"),
        *("range", "repr", "round", "str"),
    }
)  # builtins whose results are plain, whatever they are given


class PlainValues:
    """Tells which expressions of one function cannot hold a future.

    ``locals`` are the names that every binding in the function binds to such an expression.
    """

    def __init__(self, names: FunctionNames, survey: Survey) -> None:
        self._names = names
        self.locals = frozenset(survey.rooted)
        while spoilt := {
            name
            for name, value in survey.bindings
            if name in self.locals and not self._stays_plain(value)
        }:
            self.locals -= spoilt

    def __call__(self, node: ast.expr | None) -> bool:
        """True if the value of *node* cannot be a future and cannot contain one."""
        if node is None or isinstance(node, _ALWAYS):
            return True
        if isinstance(node, ast.Name):
            return node.id in self.locals or node.id == "__debug__"
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return all(map(self, node.elts))
        if isinstance(node, ast.Dict):
            return None not in node.keys and all(map(self, (*node.keys, *node.values)))
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            return name in _FINISHED and self._names.is_builtin(name)
        parts = _operands(node)
        return parts is not None and all(map(self, parts))

    @contextmanager
    def inside(self, generators: Sequence[ast.comprehension]) -> Iterator[None]:
        """The block is inside a comprehension, whose targets may be plain there."""
        before = self.locals
        for generator in generators:
            if isinstance(generator.target, ast.Name):
                element = element_of(generator.iter)
                if not generator.is_async and element is not None and self(element):
                    self.locals |= {generator.target.id}
        yield
        self.locals = before

    def _stays_plain(self, value: ast.expr | None) -> bool:
        """True if *value* stays plain for ever: a list that is plain now may be given a future."""
        if value is None or isinstance(value, ast.List | ast.Set | ast.Dict):
            return False
        if isinstance(value, ast.Tuple):
            return all(map(self._stays_plain, value.elts))
        if (parts := _operands(value)) is not None:
            return all(map(self._stays_plain, parts))
        return self(value)


def _operands(node: ast.expr) -> Sequence[ast.expr] | None:
    """The parts of *node* that decide whether its value is plain."""
    if isinstance(node, ast.UnaryOp):
        return [] if isinstance(node.op, ast.Not) else [node.operand]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.NamedExpr):
        return [node.value]
    return None
