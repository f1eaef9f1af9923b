"""Checks lowered code for the properties that later passes rely on.

Invariant: after it, every node is on a line of the user's function, and the hooks are reached by
their names only, and awaited where they have to be.
"""

from __future__ import annotations

import ast

from appl.compiler.hooks import AWAITED_HOOKS, HOOK_NAMES, PLACEHOLDER
from appl.compiler.nodes import LEAVES
from appl.compiler.source import Def, first_line


class InvalidCode(AssertionError):
    """A pass of the compiler has a bug; it is never the user's fault."""


def verify_lowered(node: Def, original: Def) -> None:
    """Check the lowered *node*, including the parts that it shares with *original*."""
    first, last = first_line(original), original.end_lineno or original.lineno
    awaited: set[int] = set()
    todo: list[ast.AST] = [node]
    while todo:
        inner = todo.pop()
        fields = inner.__dict__
        line = fields.get("lineno")
        if not first <= (first if line is None and not inner._attributes else line or 0) <= last:
            raise InvalidCode(f"{type(inner).__name__} at line {line}, not in {first}..{last}")
        if type(inner) is ast.Await:
            awaited.add(id(inner.value))
        elif (
            type(inner) is ast.Call
            and isinstance(hook := inner.func, ast.Attribute)
            and type(hook.value) is ast.Constant
            and hook.value.value == PLACEHOLDER
        ):
            if hook.attr not in HOOK_NAMES:
                raise InvalidCode(f"{hook.attr} is no hook")
            if hook.attr in AWAITED_HOOKS and id(inner) not in awaited:
                raise InvalidCode(f"the hook {hook.attr} is not awaited")
            todo += [*inner.args, *inner.keywords]
            continue
        for value in fields.values():
            if type(value) is list:
                todo += [child for child in value if type(child) not in LEAVES]
            elif type(value) not in LEAVES:
                todo.append(value)
