"""Generators as agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from typing import assert_type

from appl import Generation, gen, ppl


@ppl(auto_prime=True)
def chat(name: str) -> Generator[Generation | None, str, None]:
    reply = None
    while True:
        yield reply
        (reply := gen())


@ppl
def several(count: int) -> Iterator[Generation]:
    for _ in range(count):
        yield gen()


@ppl
async def later(count: int) -> AsyncIterator[Generation]:
    for _ in range(count):
        yield gen()


assert_type(chat("Ann").send("hi"), Generation | None)
for each in several(3):
    assert_type(each, Generation)
chat("Ann").send(3)  # type: ignore[arg-type]
