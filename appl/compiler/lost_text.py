"""Finds text that was meant for a prompt and does not reach it, with advice what to write.

Invariant: no code of the user is run; only what is certain is claimed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from appl.compiler.bindings import Survey
from appl.compiler.callee import static_names
from appl.compiler.dedent import is_triple_quoted
from appl.compiler.names import FunctionNames, ppl_decorator
from appl.compiler.nodes import TEMPLATES, called, names_in, own_statements
from appl.compiler.notes import assigned_text, is_message, is_text
from appl.compiler.source import Def, FunctionSource, Module, parse

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Cause:
    """A text that no prompt holds: its place, the reason, and what to write."""

    node: ast.AST
    what: str
    hint: str


@dataclass(frozen=True, slots=True)
class Caller:
    """The function around a line, with the plain functions of its file by name."""

    function: FunctionSource
    prompted: bool
    plain: Mapping[str, Def]

    @property
    def name(self) -> str:
        """The function's name with parentheses."""
        return f"{self.function.node.name}()"


def caller_at(file: str, line: int) -> Caller | None:
    """The innermost function around a line, if its source can be read."""
    lines = linecache.getlines(file)
    try:
        module = parse(file, lines)
    except (SyntaxError, ValueError):
        return None
    around = [
        function
        for function in module.functions.values()
        if function.node.lineno <= line <= (function.node.end_lineno or function.node.lineno)
    ]
    if not around:
        return None
    plain, names = plain_functions(module), FunctionNames(Survey(), static_names(module))
    innermost = max(around, key=lambda function: function.node.lineno)
    prompted = ppl_decorator(innermost.node, names) is not None
    return Caller(innermost, prompted, plain)


def plain_functions(module: Module) -> dict[str, Def]:
    """The functions at the top level of a file that are no prompt functions."""
    names = FunctionNames(Survey(), static_names(module))
    return {
        function.path: function.node
        for function in module.functions.values()
        if "." not in function.path and ppl_decorator(function.node, names) is None
    }


def cause_of(caller: Caller) -> Cause | None:
    """The cause of a function's empty prompt; ``None`` if the source does not show it."""
    node = caller.function.node
    statements = list(own_statements(node))
    values = [statement.value for statement in statements if isinstance(statement, ast.Expr)]
    for statement in statements:
        name = assigned_text(statement)
        uses = (v for v in values if name in names_in(v) and called(v) != "print")
        if name is not None and next(uses, None) is None:
            return Cause(
                statement,
                f"its text is assigned to `{name}`, which says nothing",
                f"write `{name}` on a line of its own before gen(), or the text without `{name} =`",
            )
    for value in values:
        helper = caller.plain.get(name := called(value))
        if helper is not None and (text := bare_text(helper)) is not None:
            return Cause(
                text,
                f"its text stands in {name}(), which is no prompt function",
                f'write @ppl(ctx="same") above `def {name}`',
            )
    for value in values:
        if not isinstance(value, ast.Call) or called(value) != "print":
            continue
        if any(map(is_text, value.args)):
            return Cause(
                value,
                "its text is printed, which shows it to you and to no model",
                f"write {_shown(value.args[0])} as a statement, without print()",
            )
    for value in values:
        text = value.value if isinstance(value, ast.Yield) else None
        if text is not None and is_text(text):
            return Cause(
                value,
                "its text is yielded, which hands it to the caller",
                f"write {_shown(text)} as a statement, without yield",
            )
    first = node.body[0].value if isinstance(node.body[0], ast.Expr) else None
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return None
    if not is_triple_quoted(first, caller.function.source):
        return None
    return Cause(
        first,
        "its text stands in the docstring, which is documentation",
        'write it as a statement in single quotes, or decorate with @ppl(docstring_as="user")',
    )


def bare_text(node: Def, *, docstring: bool = True) -> ast.expr | None:
    """The first text that is a statement of *node*; perhaps its *docstring*."""
    for statement in own_statements(node):
        value = statement.value if isinstance(statement, ast.Expr) else None
        documents = isinstance(value, ast.Constant) and statement is node.body[0]
        if is_prompt_part(value) and (docstring or not documents):
            return value
    return None


def is_prompt_part(value: ast.expr | None) -> bool:
    """True if a statement with *value* is text, or makes a message."""
    constant = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return constant or isinstance(value, TEMPLATES) or is_message(value)


def textless_names(module: Module) -> dict[str, str]:
    """Names of a file's top level whose values have no text, with the kind of each."""
    kinds: dict[str, str] = {}
    for node in module.tree.body:
        for name in _stored(node):
            kinds.pop(name, None)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [getattr(decorator, "func", decorator) for decorator in node.decorator_list]
            if all(getattr(name, "attr", getattr(name, "id", "")) == "ppl" for name in names):
                is_async = isinstance(node, ast.AsyncFunctionDef)
                kinds[node.name] = "async function" if is_async else "function"
        elif isinstance(node, ast.ClassDef) and not (node.bases or node.keywords):
            kinds[node.name] = "class"
        elif isinstance(node, ast.Import):
            kinds |= {
                alias.asname or alias.name.partition(".")[0]: "module" for alias in node.names
            }
    return kinds


def _stored(node: ast.stmt) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"`{text}`" if len(text) <= _SHOWN else "the text"
