"""A generic function: the type is an argument."""

from __future__ import annotations

from typing import TypeVar, assert_type

from appl import Generation, gen, ppl

T = TypeVar("T")


@ppl
def extract(text: str, kind: type[T]) -> Generation[T]:
    f"{text}"
    return gen(response_format=kind)


assert_type(extract("x", int).result(), int)
assert_type(extract("x", list[str]).result(), list[str])
