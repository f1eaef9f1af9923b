"""What a run that is over leaves to the garbage collector: next to nothing.

A server with a run for each request would else be stopped again and again by collections, each of
which goes through all that the server holds.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.errors import RunClosed

RUNS = 10
FEW = 3
"""Objects in circles that a run may leave."""


@pytest.fixture(autouse=True)
def settings_of_all() -> Iterator[None]:
    appl.init(backend="appl.testing:Echo")
    yield
    appl.init(backend=None)


@ppl
def ask(question: str) -> str:
    f"What is {question}?"
    return str(gen())


@ppl
def chat() -> str:
    for turn in range(3):
        f"Question {turn}"
        f"Answer: {gen()}"
    return str(gen())


def left(act: Callable[[], object]) -> float:
    """The number of objects that one more run of *act* leaves in circles, on average."""
    for _ in range(3):  # what is made once in a process
        act()
    gc.collect()
    gc.disable()
    try:
        for _ in range(RUNS):
            act()
        return gc.collect() / RUNS
    finally:
        gc.enable()


def recorded(act: Callable[[], object], **settings: Any) -> Callable[[], object]:
    """*act* in a run of its own."""

    def run() -> None:
        with appl.record(**settings):
            act()

    return run


@pytest.mark.parametrize(
    "settings", [{}, {"trace": False}, {"privacy": "digests"}], ids=["full", "none", "digests"]
)
def test_a_run_leaves_nothing_to_the_garbage_collector(settings: dict[str, object]) -> None:
    assert left(recorded(lambda: ask("it"), **settings)) <= FEW


def test_answers_in_the_prompt_are_freed_with_it() -> None:
    assert left(recorded(chat)) <= FEW


async def test_a_run_of_a_server_leaves_nothing_to_the_garbage_collector() -> None:
    async def act() -> None:
        assert await appl.run(ask, "it")

    for _ in range(3):
        await act()
    gc.collect()
    gc.disable()
    try:
        for _ in range(RUNS):
            await act()
        assert gc.collect() / RUNS <= FEW
    finally:
        gc.enable()


async def test_a_task_that_outlives_its_run_is_refused_again_and_again() -> None:
    over, answers = asyncio.Event(), list[str]()

    async def late() -> None:
        await over.wait()
        for _ in range(2):
            gc.collect()
            with pytest.raises(RunClosed):
                answers.append(str(ask("it")))

    async with appl.record():
        ask("it")
        task = asyncio.create_task(late())
    over.set()
    await task
    assert not answers
