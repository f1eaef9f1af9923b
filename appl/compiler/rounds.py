"""The number of rounds of a loop, as far as its source and known values tell it.

Invariant: nothing is run; a number that is not sure is ``None``.
"""

from __future__ import annotations

import ast
from typing import Protocol

_SAME_LENGTH = ("enumerate", "reversed", "sorted", "list", "tuple")


class NameValues(Protocol):
    """The values of names that are known."""

    def get(self, name: str, /) -> object:
        """The value of *name*; ``None`` if it is not known."""


def rounds_over(node: ast.expr, names: NameValues) -> int | None:
    """The number of rounds of a loop over *node*; ``None`` if it is not known."""
    if isinstance(node, ast.Name):
        value = names.get(node.id)
        return len(value) if isinstance(value, list | tuple | dict | set | str) else None
    if isinstance(node, ast.List | ast.Tuple):
        starred = any(isinstance(element, ast.Starred) for element in node.elts)
        return None if starred else len(node.elts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in _SAME_LENGTH and node.args:
            return rounds_over(node.args[0], names)
        if node.func.id == "range":
            values = [
                names.get(argument.id)
                if isinstance(argument, ast.Name)
                else getattr(argument, "value", None)
                for argument in node.args
            ]
            whole = [number for number in values if type(number) is int]
            sure = len(whole) == len(values) in (1, 2, 3) and whole[2:] != [0]
            return len(range(*whole)) if sure else None
    return None
