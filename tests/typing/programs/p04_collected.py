"""Collected errors stand in the type of the list."""

from __future__ import annotations

from typing import assert_type

from appl import gen, map as side_by_side, ppl


@ppl
def answer(question: str) -> str:
    f"{question}"
    return gen()


sure: list[str] = side_by_side(answer, ["a", "b"])
collected: list[str | Exception] = side_by_side(answer, ["a", "b"], on_error="collect")
for each in collected:
    each.upper()  # type: ignore[union-attr]
    if isinstance(each, Exception):
        continue
    assert_type(each, str)
mixed: list[str] = side_by_side(answer, ["a"], on_error="collect")  # type: ignore[assignment]
side_by_side(answer, ["a"], on_error="ignore")  # type: ignore[call-overload]
