"""Lowered code that breaks the rules of the other passes does not get through."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from appl.compiler.hooks import AWAITED_HOOKS, HOOK_NAMES, PLACEHOLDER
from appl.compiler.verify import InvalidCode, verify_lowered

from .support import NOTES

ORIGINAL: Any = ast.parse("def f(a):\n    a\n    return a").body[0]


def with_body(source: str, **moved: int) -> Any:
    """``def f`` with another body; ``HOOKS`` stands for the hooks."""
    node: Any = ast.parse(f"async def f(a):\n    {source}\n    return a").body[0]
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and getattr(inner.value, "id", "") == "HOOKS":
            inner.value = ast.copy_location(ast.Constant(PLACEHOLDER), inner.value)
    node.body[0].__dict__.update(moved)
    return node


@pytest.mark.parametrize(
    "source",
    ["HOOKS.text('a')", "await HOOKS.await_(a)", "(await HOOKS.aprep(a, HOOKS.wait(a)))()"],
)
def test_right_code_passes(source: str) -> None:
    verify_lowered(with_body(source), ORIGINAL)


@pytest.mark.parametrize(
    ("source", "moved", "message"),
    [
        ("HOOKS.unknown(a)", {}, "unknown is no hook"),
        ("HOOKS.await_(a)", {}, "await_ is not awaited"),
        ("await a(HOOKS.aprep(a))", {}, "aprep is not awaited"),
        ("a", {"lineno": 4}, "Expr at line 4, not in 1..3"),
        ("a", {"lineno": 0}, "Expr at line 0"),
    ],
)
def test_wrong_code_does_not(source: str, moved: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidCode, match=message):
        verify_lowered(with_body(source, **moved), ORIGINAL)


def test_a_node_without_a_position_does_not() -> None:
    node = with_body("a")
    del node.body[0].value.lineno
    with pytest.raises(InvalidCode, match="Name at line None"):
        verify_lowered(node, ORIGINAL)


def test_the_notes_of_these_tests_implement_every_hook() -> None:
    assert {name for name in HOOK_NAMES if hasattr(NOTES, name)} == HOOK_NAMES
    assert AWAITED_HOOKS <= HOOK_NAMES
