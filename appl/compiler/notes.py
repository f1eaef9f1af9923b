"""Notes on what is sure to be lost in a prompt function: told when it is first called.

Invariant: no code of the user is run; only what is certain is claimed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from appl.compiler.names import FunctionNames, origin
from appl.compiler.nodes import TEMPLATES, call_of, own_statements
from appl.compiler.source import Def, FunctionSource

MESSAGES = frozenset({"SystemMessage", "UserMessage", "AIMessage", "ToolMessage", "Message"})


def assigned_text(statement: ast.stmt) -> str | None:
    """The name to which *statement* assigns a text or a message that it makes."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    [target] = targets if len(targets) == 1 else [None]
    return target.id if isinstance(target, ast.Name) and is_text(statement.value) else None


def is_text(value: ast.expr | None) -> bool:
    """True if an expression is sure to make a text of several words, or a message."""
    if isinstance(value, TEMPLATES):
        return True
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and " " in value.value.strip()
    if isinstance(value, ast.BinOp):
        return is_text(value.left) or is_text(value.right)
    if isinstance(value, ast.List | ast.Tuple):
        return any(map(is_text, value.elts))
    if isinstance(value, ast.Call):
        return is_message(value) or is_text(getattr(value.func, "value", None))
    return False


def is_message(value: ast.expr | None) -> bool:
    """True if an expression makes a message, judged by the name that it calls."""
    func = value.func if isinstance(value, ast.Call) else None
    return getattr(func, "attr", getattr(func, "id", "")) in MESSAGES


def notes_of(function: FunctionSource, names: FunctionNames, *, keeps: bool) -> tuple[str, ...]:
    """Notes on everything that is sure to be lost in a prompt function, a sentence each.

    *keeps* says that somebody else sees its prompt when it has returned.
    """
    file, notes = function.source.file, []
    for statement, name in unread_texts(function.node):
        notes.append(
            f"{file}:{statement.lineno}: nothing says or reads `{name}`; to say it, leave out "
            f"`{name} =`"
        )
    call = call_of(function.node.body[-1])
    asks = call is not None and origin(names.object_of(call.func)) in ("gen", "select")
    if call is not None and asks and not keeps and not hands_out(function.node):
        notes.append(
            f"{file}:{call.lineno}: {function.node.name}() returns nothing, so this answer is "
            f"lost; write return {ast.unparse(call)[:60]}"
        )
    return tuple(notes)


def unread_texts(node: Def) -> Iterator[tuple[ast.stmt, str]]:
    """The statements that assign a text to a name that nothing reads, with the name."""
    named = [(part, assigned_text(part)) for part in own_statements(node)]
    read = read_names(node) if any(name for _, name in named) else set()
    for statement, name in named:
        if name is not None and name not in read and not name.startswith("_"):
            yield statement, name


def read_names(node: ast.AST) -> set[str]:
    """The names that *node* reads, or shares with others."""
    read: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Global | ast.Nonlocal):
            read.update(inner.names)
        elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Store):
            read.add(inner.id)
    return read


def hands_out(node: Def) -> bool:
    """True if a function may hand out something of its prompt."""
    names = {getattr(inner, "attr", getattr(inner, "id", "")) for inner in ast.walk(node)}
    outward = any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))
    return outward or bool(names & _READERS)


_READERS = frozenset({"records", "convo", "context_here", "need_ctx", "locals", "_ctx"})
