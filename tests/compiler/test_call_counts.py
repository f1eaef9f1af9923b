"""The calls that a graph counts are those that an activation makes."""

from __future__ import annotations

import random
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings, strategies as st

from appl import gen, ppl
from appl.compiler.graph_source import graph_of
from appl.compiler.ir import CallBounds, CallCounts
from appl.compositor import NumberedList
from appl.testing import CallStarted, Instant, Log, Run

from .support import define

ROUNDS = 24
"""A number that the functions here see from outside."""


def counts(f: Any) -> CallCounts:
    return graph_of(f).calls


def in_words(f: Any) -> str:
    return counts(f).total.in_words


def flip() -> bool:
    """Stands for what a program decides when it runs."""
    return True


@ppl(ctx="same")
def asked_twice() -> None:
    gen()
    for _ in range(1):
        gen()


@ppl
def apart() -> str:
    return str(gen())


@ppl(ctx="same")
def itself(depth: int) -> None:
    gen()
    if depth:
        itself(depth - 1)


def test_loops_of_a_known_number_of_rounds_are_exact() -> None:
    @ppl
    def agent() -> Any:
        for _ in range(ROUNDS):
            with NumberedList():
                str(gen())
        for _ in (1, 2):
            [gen() for _ in [1, 2, 3]]
        return gen()

    assert in_words(agent) == "exactly 31 calls"


def test_what_is_not_known_is_at_least() -> None:
    @ppl
    def agent(items: list[str]) -> Any:
        gen()
        for item in items:
            f"{item}"
            gen()
        while flip():
            gen()
        return gen()

    assert in_words(agent) == "at least 2 calls"


def test_a_loop_that_ends_early_has_its_rounds_as_the_most() -> None:
    @ppl
    def agent() -> Any:
        for _ in range(ROUNDS):
            answer = str(gen())
            if "done" in answer:
                break
        return gen()

    found = counts(agent)
    assert found.total == CallBounds(2, 25)
    first, second = sorted(found.after)
    assert found.remaining(1, first) == CallBounds(1, 24)
    assert found.remaining(24, first) == CallBounds(1, 1)
    assert found.remaining(3, second) == CallBounds(0, 0)


def test_of_branches_one_is_taken() -> None:
    @ppl
    def agent() -> Any:
        if flip():
            return gen()
        gen() if flip() else asked_twice()
        return gen()

    assert counts(agent).total == CallBounds(1, 3)


def test_calls_on_the_same_prompt_count_and_those_on_others_do_not() -> None:
    @ppl
    def agent() -> Any:
        asked_twice()
        f"{apart()}"
        return gen()

    assert in_words(agent) == "exactly 3 calls"
    assert in_words(itself) == "at least 1 call"


def test_an_answer_that_may_take_several_calls_has_no_most() -> None:
    @ppl
    def agent() -> Any:
        gen(response_format=int)
        return gen()

    assert in_words(agent) == "at least 2 calls"


def test_an_error_may_skip_what_is_tried() -> None:
    @ppl
    def agent() -> Any:
        try:
            gen()
            str(gen())
        except ValueError:
            gen()
        return gen()

    assert counts(agent).total == CallBounds(2, 4)


def test_the_lines_of_calls_are_those_of_the_counts() -> None:
    @ppl
    def agent() -> Any:
        gen(
            max_tokens=
                3
        )  # fmt: skip
        (
            gen
            (stop="x")
        )  # fmt: skip
        f"""a
        {gen()} and
        {gen(max_tokens=2)!s}"""
        [gen(max_tokens=number)
         for number in (1, 2)]  # fmt: skip
        return str(
            gen()
        )  # fmt: skip

    log = Log()
    with Run(Instant(), instruments=[log]):
        agent()
    lines = [each.line for each in log.of(CallStarted)]
    found = counts(agent)
    assert found.total == CallBounds(7, 7)
    assert {found.remaining(number, line).least for number, line in enumerate(lines, 1)} == set(
        range(7)
    )


# -- against plain executions of random functions

_SIMPLE = [
    "ask()", "ask()", "str(ask())", "flip() and ask()", "ask() if flip() else (ask(), ask())",
    "[ask() for _ in range(3)]", "[ask() for _ in range(2) if flip()]", "any(ask() for _ in (1, 2))",
    "helper()", "helper(); ask()", "[(ask(), helper()) for _ in some()]", "pass", "boom()",
    "{ask(): [ask() for _ in [1]] for _ in (1, 2, 3)}", "(x := ask())", "ask() < ask() < ask()",
]  # fmt: skip


@st.composite
def blocks(draw: st.DrawFn, depth: int = 3, loop: bool = False) -> str:
    return "\n".join(draw(statements(depth, loop)) for _ in range(draw(st.integers(1, 3))))


@st.composite
def statements(draw: st.DrawFn, depth: int, loop: bool) -> str:
    leaving = ["if flip(): return ask()", "if flip(): raise ValueError"]
    leaving += ["if flip(): break", "if flip(): continue", "break"] * loop
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*_SIMPLE, *leaving]))

    def inner(loop: bool = loop) -> str:
        return textwrap.indent(draw(blocks(depth - 1, loop)), "    ")

    count = draw(st.integers(0, 4))
    nested: list[Callable[[], str]] = [
        lambda: f"if flip():\n{inner()}",
        lambda: f"if flip():\n{inner()}\nelif ask():\n{inner()}\nelse:\n{inner()}",
        lambda: f"for _ in range({count}):\n{inner(True)}",
        lambda: f"for _ in range({count}):\n{inner(True)}\nelse:\n{inner()}",
        lambda: f"for _ in some():\n{inner(True)}",
        lambda: f"while flip():\n{inner(True)}\nelse:\n{inner()}",
        lambda: f"while True:\n{inner(True)}\n    if flip(): break",
        lambda: f"try:\n{inner()}\nexcept ValueError:\n{inner()}\nelse:\n{inner()}",
        lambda: f"try:\n{inner()}\nfinally:\n{inner(False)}",
        lambda: f"with quiet():\n{inner()}",
        lambda: f"match flip():\n  case True:\n{inner()}\n  case _ if ask():\n{inner()}",
    ]
    return draw(st.sampled_from(nested))()


class quiet:
    """Hides errors."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, *rest: object) -> bool:
        return kind is ValueError


class Dice:
    """Decides at random, and counts the calls of one execution by line, from its last ``throw``."""

    def throw(self, seed: int) -> None:
        self.random, self.lines = random.Random(seed), list[tuple[str, int]]()

    def flip(self) -> bool:
        return self.random.random() < 0.5

    def boom(self) -> None:
        if self.random.random() < 0.3:
            raise ValueError

    def some(self) -> range:
        return range(self.random.randrange(4))

    def ask(self) -> int:
        frame = sys._getframe(1)
        self.lines.append((frame.f_code.co_filename, frame.f_lineno))
        if len(self.lines) > 10_000:
            raise KeyboardInterrupt  # it goes on for ever
        return self.random.randrange(2)


_HELPER = "@ppl(ctx='same')\ndef helper():\n    for _ in range(2):\n        ask()\n"
_PLAIN = "def helper():\n    for _ in range(2):\n        ask()\n"


@settings(max_examples=90, deadline=None)
@given(blocks(), st.integers(0, 10**6))
def test_executions_keep_to_the_bounds(body: str, seed: int) -> None:
    text = f"def f():\n{textwrap.indent(body, '    ')}\n"
    names: dict[str, Any] = {"flip": flip, "boom": flip, "some": flip, "quiet": quiet}
    helper = define(_HELPER, ppl=ppl, ask=gen)
    found = counts(ppl(define(text, ask=gen, helper=helper, **names)))
    dice = Dice()
    decided = {name: getattr(dice, name) for name in ("flip", "boom", "some", "ask")}
    plain = define(text, helper=define(_PLAIN, **decided), quiet=quiet, **decided)
    for number in range(20):
        dice.throw(seed + number)
        try:
            plain()
        except (ValueError, KeyboardInterrupt):
            continue
        made = len(dice.lines)
        _within(found.total, made)
        for at, (file, line) in enumerate(dice.lines, 1):
            own = file == plain.__code__.co_filename
            _within(found.remaining(at, line if own else None), made - at)


def _within(bounds: CallBounds, made: int) -> None:
    assert bounds.least <= made <= (made if bounds.most is None else bounds.most)
