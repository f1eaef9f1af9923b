"""Whether a plain function may ask a model is told from its code; nothing is called."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import appl
from appl.runtime.tools.reach import may_ask

NOTES: dict[str, object] = {"count": 1}


@appl.ppl
def ask(question: str) -> str:
    f"{question}"
    return str(appl.gen())


ASKERS = {"ask": ask}


class Agent:
    def ask(self) -> str:
        return ask("who")


def shout(text: str) -> str:
    return text.upper() + json.dumps(sorted(NOTES)) + str(Path(text))


def fail(text: str) -> str:
    raise ValueError(f"no {text}")


def calls_a_quiet_one(text: str) -> list[str]:
    return [shout(word) for word in text.split()]


def never_ends(text: str) -> str:
    return never_ends(text)


def asks(text: str) -> str:
    return ask(text)


def asks_in_a_helper(text: str) -> str:
    return asks(text)


def asks_from_a_table(text: str) -> str:
    return str(ASKERS["ask"](text))


def asks_in_a_lambda(text: str) -> str:
    return (lambda: ask(text))()


def imports(text: str) -> str:
    from appl import gen

    return str(gen())


def evaluates(text: str) -> str:
    return str(eval(text))


def closure(over: object) -> Callable[[], str]:
    return lambda: str(over)


@functools.wraps(shout)
def wrapped(text: str) -> str:
    return asks(text)


QUIET = [shout, fail, calls_a_quiet_one, functools.partial(shout, "a"), closure("text"), len, None]
ASKING = [
    ask, asks, asks_in_a_helper, asks_from_a_table, asks_in_a_lambda, imports, evaluates, wrapped,
    closure(ask), functools.partial(asks, "a"), Agent, Agent().ask,
]  # fmt: skip


@pytest.mark.parametrize("function", QUIET)
def test_a_function_that_uses_only_python_asks_nothing(function: object) -> None:
    assert not may_ask(function)


@pytest.mark.parametrize("function", ASKING)
def test_a_function_that_reaches_a_prompt_may_ask(function: object) -> None:
    assert may_ask(function)


def test_a_function_that_calls_itself_is_looked_at_to_an_end() -> None:
    assert may_ask(never_ends), "its code does not tell"
