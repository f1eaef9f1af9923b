"""Coroutines that another library than asyncio runs, as trio does."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.errors import RunError
from appl.testing import Echo, running


def driven(coroutine: Coroutine[Any, Any, Any]) -> object:
    """The value of *coroutine*, run without asyncio; what it awaits must be done at once."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits for something")


@ppl
async def ask(question: str) -> str:
    f"{question}"
    return await gen()


@ppl
async def bounded() -> str:
    "Who?"
    async with appl.timeout(5):
        return str(await gen())


async def recorded() -> None:
    async with appl.record(backend="appl.testing:Echo"):
        pass


@pytest.mark.parametrize("program", [lambda: ask("x"), bounded, recorded])
def test_an_async_program_outside_of_asyncio_says_what_to_write(program: Any) -> None:
    with running(Echo()), pytest.raises(RunError, match=r"trio.*plain `def`.*run_sync"):
        driven(program())


@ppl
def plainly(question: str) -> str:
    f"{question}"
    return str(gen())


def test_a_plain_program_in_a_thread_is_what_to_write() -> None:
    found: list[str] = []
    with running(Echo()):
        thread = threading.Thread(target=lambda: found.append(plainly("x")))
        thread.start()
        thread.join()
    assert len(found) == 1
