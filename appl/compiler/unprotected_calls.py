"""Finds prompt calls in plain Python whose ``try`` is left before their answer exists.

Invariant: a call is named only where its future certainly leaves the ``try`` unread.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping

from appl.compiler.nodes import called, names_in, walk
from appl.compiler.rules import LintFinding, finding_at
from appl.compiler.serial_calls import scopes

NAME = "late-failure"
ABOUT = (
    "A `try` in plain Python is left before the answer is there, and so cannot catch its failure"
)
_STORING = ("append", "appendleft", "add", "insert", "put", "put_nowait")


def findings(
    file: str, tree: ast.Module, prompted: Mapping[str, ast.AST], imported: Mapping[str, str]
) -> Iterator[LintFinding]:
    """Findings for calls in plain functions and at top level that a ``try`` does not protect."""
    own = {id(node) for node in prompted.values()}
    late = {name for name, path in imported.items() if path == "appl.gen"}
    for name, node in prompted.items():
        if isinstance(node, ast.FunctionDef) and node.returns is None:
            yields = (isinstance(inner, ast.Yield | ast.YieldFrom) for inner in walk(node.body))
            late |= set() if any(yields) else {name}  # plain Python gets a future of its calls
    for scope in scopes(tree) if late else ():
        if id(scope) not in own:
            for node in walk(scope.body):
                if isinstance(node, ast.Try) and node.handlers:
                    yield from _findings(file, node, late)


def _findings(file: str, guard: ast.Try, late: Container[str]) -> Iterator[LintFinding]:
    for statement in guard.body:  # which returns or stores the result of a call without a look
        call = statement.value if isinstance(statement, ast.Return | ast.Assign) else None
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            stores = statement.value
            if isinstance(stores.func, ast.Attribute) and stores.func.attr in _STORING:
                call = stores.args[-1] if stores.args else None
        if not isinstance(call, ast.Call) or (name := called(call)) not in late:
            continue
        if isinstance(statement, ast.Assign):
            after = guard.body[guard.body.index(statement) + 1 :]
            if names_in(statement.targets[0]) & set().union(*map(names_in, after)):
                continue  # the rest of the body reads it, in the `try`
        shown = ast.unparse(call)
        annotated = "" if name == "gen" else f", or say what {name} returns, as in `-> str`"
        yield finding_at(
            file,
            NAME,
            call,
            f"`{shown}` is a future here: its failure is raised where it is read, and the `try` on "
            f"line {guard.lineno} does not catch it",
            f"write `str({shown})` or `{shown}.result()`{annotated}",
        )
