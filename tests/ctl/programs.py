"""Programs that tests look at while they run."""

from __future__ import annotations

from typing import Any

import appl
from appl import call, gen, ppl
from appl.errors import CallCancelled


@ppl
def answer(question: str) -> Any:
    f"{question}"
    return gen()


@ppl
def spoken(question: str) -> Any:
    f"{question}"
    return gen(stream=True)


@ppl
def urgent(question: str, priority: int) -> Any:
    f"{question}"
    return gen(priority=priority)


@ppl
def twice(question: str) -> Any:
    first = answer(question)
    f"You said {first}. Again?"
    return gen()


@ppl
def longer(question: str) -> Any:
    f"{'A long beginning that all of them share. ' * 100}"
    f"{question}"
    return gen()


def said(value: Any) -> str:
    """The text of an answer, or that it was cancelled."""
    try:
        return str(value)
    except CallCancelled:
        return "cancelled"


def three() -> list[str]:
    return [str(each) for each in [answer("a"), answer("b"), answer("c")]]


def tolerant() -> list[str]:
    return [said(each) for each in [answer("a"), answer("b"), answer("c")]]


def chained() -> list[str]:
    last, other = twice("first"), answer("other")
    return [said(other), said(last)]


def asking(name: str) -> str:
    first = str(answer(f"{name} 1"))
    return f"{first} {answer(f'{name} 2')}"


def beside() -> list[str]:
    """Functions in threads; one of them may be ended."""
    return [said(each) for each in [call(asking, "left"), call(asking, "right")]]


@ppl
def inner(name: str) -> Any:
    first = str(answer(f"{name} 1"))
    f"{first}"
    return gen()


async def in_tasks() -> list[str]:
    """The same as asyncio tasks."""

    async def one(name: str) -> str:
        first = await answer(f"{name} 1")
        return f"{first} {await answer(f'{name} 2')}"

    started = [call(one, "left"), call(one, "right")]
    found = []
    for each in started:
        try:
            found.append(str(await each))
        except CallCancelled:
            found.append("cancelled")
    return found


def forgotten() -> str:
    """One call is not waited for."""
    answer("nobody waits")
    return str(answer("waited for"))


def budgeted() -> list[str]:
    return [outcome_of(each) for each in [answer("a"), answer("b"), answer("c")]]


def outcome_of(value: Any) -> str:
    try:
        return str(value)
    except appl.ApplError as error:
        return type(error).__name__


@ppl
def told(name: str) -> Any:
    return f"{answer(f'{name} 1')} {answer(f'{name} 2')}"


def fibers() -> list[str]:
    return [said(each) for each in [call(told, str(i)) for i in range(2)]]


@ppl
def chat(name: str, turns: int) -> Any:
    return " ".join([str(answer(f"{name} {turn}")) for turn in range(turns)])


def busy() -> list[str]:
    """Much that comes and goes: fibers, threads, calls that wait for others."""
    threads = [call(asking, f"thread {i}") for i in range(10)]
    return [str(each) for each in [*[call(chat, str(i), 20) for i in range(60)], *threads]]
