"""Coroutine functions, and awaiting run and map."""

from __future__ import annotations

import asyncio
from typing import assert_type

import appl
from appl import Text, gen, ppl


@ppl
async def answer(question: str) -> str:
    f"{question}"
    return await gen()


@ppl
def plain(question: str) -> list[str]:
    return [question]


async def main() -> None:
    assert_type(await answer("Why?"), str)
    assert_type(await gen(), Text)
    assert_type(await appl.run(plain, "x"), list[str])
    assert_type(await appl.run(answer, "x"), str)
    assert_type(await appl.map(answer, ["a"]), list[str])
    both = await asyncio.gather(answer("a"), answer("b"))
    assert_type(both[0], str)
    await appl.run(plain, 3)  # type: ignore[call-overload]


value: list[str] = appl.run(plain, "x")
