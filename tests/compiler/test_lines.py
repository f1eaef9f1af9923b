"""Errors, breakpoints and coverage point at the user's file and line."""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import Any

import pytest

from .support import define, lowered, module, ppl


def fail(*_: object) -> Any:
    raise LookupError("here")


def failing_line(f: Any, *args: Any) -> str:
    """The text of the line of *f* where it fails."""
    with pytest.raises(LookupError) as caught:
        ppl(f)(*args)
    frames = traceback.extract_tb(caught.value.__traceback__)
    return str([frame.line for frame in frames if frame.name != "fail"][-1])


@pytest.mark.parametrize(
    "source",
    [
        "x = fail()  # !",
        "x = [1,\n     fail(2),  # !\n     3]",
        'f"""\n    a\n    {fail()} # !\n    b"""',
        'f"a" f"{1}" \\\n    f"{fail()}"  # !',
        "with fail():  # !\n    pass",
        "try:\n    fail()  # !\nfinally:\n    pass",
        "try:\n    pass\nfinally:\n    fail()  # !",
        "for i in range(2):\n    if i:\n        fail(i)  # !",
        "(a.b(1)\n  .b(2)\n  .c(3)  # !\n  .b(4))",
        "x = {1: 2,\n     fail(): 3}  # !",
        "x = lambda: (\n    fail()  # !\n)\nx()",
        "match fail():  # !\n    case 1:\n        pass",
        "a.b(\n    1,\n    fail(1),  # !\n)",
        "raise (\n    fail()  # !\n)",
        "assert fail(), 'x'  # !",
        "return (1 +\n        fail() +  # !\n        2)",
    ],
)
def test_a_traceback_points_at_the_line(source: str) -> None:
    body = source.replace("\n", "\n    ")
    f = define(f"def f(a):\n    {body}\n    return a", fail=fail)

    class Chain:
        def b(self, _: object) -> Chain:
            return self

        c = fail

    assert "!" in failing_line(f, Chain())


def test_lines_of_the_trace_are_those_of_plain_python() -> None:
    f = define(
        """
        @ppl
        @ppl
        def f(xs):
            '''Documentation.'''
            "text"
            total = 0
            for x in xs:
                if x:
                    total += len([x])
                else:
                    continue
            with open('/dev/null'):
                pass
            return (total,
                    max(xs))
    """,
        ppl=lambda f: f,
    )
    assert traced(ppl(f), [1, 0, 2]) == traced(f, [1, 0, 2])


def traced(f: Any, *args: Any) -> list[int]:
    lines: list[int] = []

    def local(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            lines.append(frame.f_lineno)
        return local

    def tracer(frame: FrameType, event: str, _: object) -> Any:
        return local if frame.f_code.co_filename == f.__code__.co_filename else None

    sys.settrace(tracer)
    try:
        f(*args)
    finally:
        sys.settrace(None)
    return lines


def test_every_line_of_the_source_can_have_a_breakpoint() -> None:
    source = """
        def f(a):
            "text"
            f"{a}"
            try:
                "body"
                a.b(a)
            except ValueError:
                "handler"
            finally:
                "finally"
            with a:
                "inside"
            for i in a:
                "loop"
            def inner():
                "nested"
            return a
    """
    f = define(source)
    assert lines_of(ppl(f).__code__) >= lines_of(f.__code__)


def lines_of(code: Any) -> set[int]:
    found = {line for *_, line in code.co_lines() if line is not None}
    for constant in code.co_consts:
        if hasattr(constant, "co_lines"):
            found |= lines_of(constant)
    return found


def test_columns_underline_the_users_call() -> None:
    f = define("def f(a):\n    x = 1; y = fail(a)", fail=fail)
    with pytest.raises(LookupError) as caught:
        ppl(f)(1)
    frame = next(x for x in traceback.extract_tb(caught.value.__traceback__) if x.name == "f")
    assert (frame.colno, frame.end_colno) == (15, 22)


def test_a_wrong_value_in_the_hooks_shows_the_statement() -> None:
    space = module("""
        @ppl
        def f():
            "fine"
            unknown
    """)
    with pytest.raises(NameError) as caught:
        space["f"]()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "unknown"


def test_the_printed_form_can_be_had() -> None:
    assert lowered(define("def f(a):\n    'x'\n    a(a)")) == (
        "def f(a):\n    @appl.text('x')\n    @appl.said(@appl.prep(a, a)())"
    )
