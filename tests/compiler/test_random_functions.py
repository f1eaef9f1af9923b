"""Plain functions behave the same lowered as they are, also where their values are futures."""

from __future__ import annotations

import asyncio
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from appl.compiler.passes import rebuild, translate

from .support import NOTES, define

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")
NAMES = ["a", "b", "c"]


def atoms() -> st.SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(NAMES),
        st.integers(-3, 9).map(str),
        st.sampled_from(["'x'", "'yy'", "None", "True", "f'<{a!r:>4}>'", "zs", "ks", "note(1)"]),
    )


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def form(template: str) -> st.SearchStrategy[str]:
        count = template.count("@")
        return st.tuples(*[inner] * count).map(lambda parts: _filled(template, parts))

    templates = [
        "(@ + @)", "(@ * @)", "(@ % @)", "(-@)", "(not @)", "(@ < @)", "(@ == @ != @)", "(@ in @)",
        "(@ and @)", "(@ or @)", "(@ if @ else @)", "[@, @]", "(@, *[@])", "{@: @}", "{@, @}",
        "note(@)", "note(@, k=@)", "note(*[@], **{'k': @})", "str(@)", "len(@)", "zs[@]", "ks.get(@)",
        "[q for q in @ if @]", "{q: @ for q in @}", "sum(note(q) for q in @)", "(lambda p: @)(@)",
        "'-'.join(str(q) for q in [@, @])", "@[0:@]", "sorted([@, @], key=str)",
    ]  # fmt: skip
    return st.sampled_from(templates).flatmap(form)


def _filled(template: str, parts: tuple[str, ...]) -> str:
    for part in parts:
        template = template.replace("@", part, 1)
    return template


EXPRESSIONS = st.recursive(atoms(), _compound, max_leaves=8)


@st.composite
def blocks(draw: st.DrawFn, depth: int = 2) -> str:
    """A few statements, one a line, none of them an expression."""
    return "\n".join(draw(statements(depth)) for _ in range(draw(st.integers(1, 3))))


@st.composite
def statements(draw: st.DrawFn, depth: int) -> str:
    e = functools.partial(draw, EXPRESSIONS)
    name = draw(st.sampled_from(NAMES))
    simple = [
        lambda: f"{name} = {e()}",
        lambda: f"{name} += {e()}",
        lambda: f"{name}, *w = {e()}",
        lambda: f"zs[{e()}] = {e()}",
        lambda: f"ks[{e()}] = {e()}",
        lambda: f"del ks[{e()}]",
        lambda: f"assert {e()}, {e()}",
        lambda: f"return {e()}",
        lambda: f"raise ValueError({e()})",
        lambda: f"_ = note((w := {e()}), w)",
    ]
    if depth == 0:
        return draw(st.sampled_from(simple))()
    inner = functools.partial(lambda: textwrap.indent(draw(blocks(depth - 1)), "    "))
    nested = [
        lambda: f"if {e()}:\n{inner()}\nelse:\n{inner()}",
        lambda: f"for {name} in {e()}:\n{inner()}\n    if note(2): break\nelse:\n{inner()}",
        lambda: f"for i in range(2):\n{inner()}\n    {name} = i",
        lambda: f"try:\n{inner()}\nexcept (ValueError, TypeError) as x:\n    c = str(x)\n{inner()}",
        lambda: f"try:\n{inner()}\nfinally:\n{inner()}",
        lambda: f"with manager({e()}) as {name}:\n{inner()}",
        lambda: (
            f"match {e()}:\n  case [{name}, *_]:\n{inner()}\n  case str():\n{inner()}\n  case _:\n{inner()}"
        ),
        lambda: f"def h(p={e()}):\n    nonlocal b\n{inner()}\n    return p\nc = h()",
    ]
    return draw(st.sampled_from(simple + nested))()


class manager:
    """Notes when it is entered and left."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __enter__(self) -> object:
        RECORD.append(("enter", repr(self.value)))
        return self.value

    def __exit__(self, *error: object) -> bool:
        RECORD.append(("exit", str(error[0])))
        return False

    def __repr__(self) -> str:
        return "manager"


RECORD: list[Any] = []


def note(*args: Any, **kwargs: Any) -> Any:
    """An ordinary function: what it is given is part of what a program does."""
    RECORD.append((repr(args), repr(kwargs)))
    return args[0] if args else None


def outcome(f: Callable[..., Any]) -> Any:
    """All that can be seen of a run."""
    RECORD.clear()
    zs, ks = [1, "two", [3]], {"x": 1, 2: "b"}
    try:
        result = f(1, "text", [2, 3], zs, ks)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        return repr(result), repr(zs), repr(ks), list(RECORD)
    except Exception as error:
        return type(error), _message(error), repr(zs), repr(ks), list(RECORD)


def _message(error: Exception) -> str:
    return str(error).replace("functools.partial", "").split(" argument")[0]


def program(body: str, word: str) -> Any:
    source = f"{word} f(a, b, c, zs, ks):\n    w = None\n{textwrap.indent(body, '    ')}\n"
    return define(source, note=note, manager=manager)


@settings(max_examples=80, deadline=None)
@given(blocks())
def test_a_plain_function_is_unchanged(body: str) -> None:
    f = program(body, "def")
    assert outcome(rebuild(f, translate(f), NOTES)) == outcome(f)


@settings(max_examples=60, deadline=None)
@given(blocks())
def test_a_plain_async_function_is_unchanged(body: str) -> None:
    f = program(body, "async def")
    assert outcome(rebuild(f, translate(f), NOTES)) == outcome(f)


@settings(max_examples=20, deadline=None)
@given(blocks())
def test_every_function_has_a_graph(body: str) -> None:
    f = program(body, "def")
    assert translate(f).graph.text()
