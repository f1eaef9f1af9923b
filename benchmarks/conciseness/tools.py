"""The tools of the ReAct programs, the same for all; not counted."""

from __future__ import annotations

import ast
import operator

_PAGES = {"river ost": "The Ost is 412 kilometres long.", "velmora": "Velmora has 3 rivers."}
_SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def search(query: str) -> str:
    """Search the encyclopedia."""
    return _PAGES[query.lower()]


def calculate(expression: str) -> str:
    """Compute an arithmetic expression."""
    return str(_value(ast.parse(expression, mode="eval").body))


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.BinOp):
        return int(_SIGNS[type(node.op)](_value(node.left), _value(node.right)))
    return int(ast.literal_eval(node))
