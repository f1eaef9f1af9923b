"""Functions call themselves as deep as plain Python's do, and no deeper than without an end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from appl import call, ppl
from appl.testing import Echo, running

PLAIN = 997  # levels of a plain function under Python's own limit of 1,000 frames


@ppl
def down(levels: int) -> int:
    f"{levels} to go"
    return 1 + down(levels - 1) if levels else 0


@ppl(ctx="same")
def guarded(levels: int) -> int:
    try:
        return 1 + guarded(levels - 1) if levels else 0
    finally:
        "Up again."


@ppl
async def awaited(levels: int) -> int:
    return 1 + await awaited(levels - 1) if levels else 0


@ppl
def items(levels: int) -> Iterator[int]:
    yield levels
    if levels:
        yield from items(levels - 1)


class Tree:
    @ppl
    def deep(self, levels: int) -> int:
        return 1 + self.deep(levels - 1) if levels else 0


def in_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


WAYS: dict[str, Callable[[int], Any]] = {
    "a function": down,
    "on its caller's prompt": guarded,
    "a coroutine function": lambda levels: asyncio.run(awaited(levels)),
    "a generator": lambda levels: len(list(items(levels))) - 1,
    "a method": Tree().deep,
    "beside its caller": lambda levels: int(call(down, levels)),
    "in a thread": lambda levels: in_thread(lambda: int(call(down, levels))),
}


def go_down() -> None:
    """Print of each way how many levels of 90% of a plain function's come back, and what ends it."""
    with running(Echo()):
        for way in WAYS.values():
            levels, ended = way(PLAIN * 9 // 10), "nothing"
            try:
                way(10_000_000)
            except RecursionError as error:
                ended = type(error).__name__
            print(json.dumps([levels, ended]), flush=True)


@pytest.fixture(scope="module")
def told() -> dict[str, list[Any]]:
    """What each way has printed, in a process of its own."""
    code = "from tests.runtime.test_recursion import go_down; go_down()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(WAYS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_recursion_is_as_deep_as_that_of_plain_functions(told: Any, way: str) -> None:
    assert told[way] == [PLAIN * 9 // 10, "RecursionError"]
