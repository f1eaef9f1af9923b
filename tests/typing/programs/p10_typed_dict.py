"""A typed answer that is a TypedDict."""

from __future__ import annotations

from typing import TypedDict, assert_type

from appl import gen, ppl


class Row(TypedDict):
    name: str
    age: int


@ppl
def row(text: str) -> Row:
    f"{text}"
    return gen(response_format=Row)


assert_type(row("x")["age"], int)
row("x")["agee"]  # type: ignore[misc]
