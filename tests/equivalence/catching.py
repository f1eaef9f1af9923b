"""In the body of a ``try`` each statement has its answers: the plain form of a program says so.

``answered(x)`` is *x*, or the failure of a call that the running statement has made.
"""

from __future__ import annotations

import ast

_STORING = {"append", "appendleft", "extend", "insert", "setdefault", "update", "put", "note"}
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def with_answers(source: str) -> str:
    """*source* with every ``answered`` that belongs into the bodies of ``with region():``."""
    return ast.unparse(ast.fix_missing_locations(_Bodies().visit(ast.parse(source))))


def _kept(node: ast.expr | None = None) -> ast.Call:
    return ast.Call(ast.Name("answered", ast.Load()), [] if node is None else [node], [])


class _Bodies(ast.NodeTransformer):
    """Looks for the bodies."""

    def visit_With(self, node: ast.With) -> ast.AST:
        manager = node.items[0].context_expr
        if isinstance(manager, ast.Call) and ast.unparse(manager.func) == "region":
            node.body = _Statements().block(node.body)
            return node
        return self.generic_visit(node)


class _Statements(ast.NodeTransformer):
    """Rewrites the statements of one body, also those of blocks in it."""

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for each in body:
            done.append(self.visit(each))
            if isinstance(each, ast.Expr):
                done.append(ast.Expr(_kept()))
        return done

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, _APART):
            return _Bodies().visit(node) if not isinstance(node, ast.Lambda) else node
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, self.block(value))
            elif isinstance(value, list):
                setattr(node, name, [self._part(each) for each in value])
            else:
                setattr(node, name, self._part(value))
        if isinstance(node, ast.stmt):
            self._head(node)
        return node

    def _part(self, value: object) -> object:
        return self.visit(value) if isinstance(value, ast.AST) else value

    def _head(self, node: ast.stmt) -> None:
        """The expressions that a statement uses at once, or stores."""
        for name in ("value", "test", "iter", "exc", "cause", "subject"):
            part = getattr(node, name, None)
            if isinstance(part, ast.expr) and not isinstance(node, ast.Expr):
                setattr(node, name, _kept(part))
        if isinstance(node, ast.For):
            node.body.insert(0, ast.Expr(_kept()))
            node.orelse.insert(0, ast.Expr(_kept()))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in _STORING:
            node.args = [_kept(each) for each in node.args]
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self.generic_visit(node)
        node.value = _kept(node.value)
        return node

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        self.generic_visit(node)
        node.value = _kept(node.value)
        return node
