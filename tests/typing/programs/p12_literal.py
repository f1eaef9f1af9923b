"""Choices: a literal, an enum, a number, perhaps nothing."""

from __future__ import annotations

from enum import Enum
from typing import Literal, assert_type

from appl import gen, ppl


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


@ppl
def vote() -> Literal["yes", "no"]:
    "Yes or no?"
    return gen(response_format=Literal["yes", "no"])


@ppl
def mood() -> Mood:
    "Which mood?"
    return gen(response_format=Mood)


@ppl
def age() -> int | None:
    "How old?"
    return gen(response_format=int | None)


@ppl
def sure() -> bool:
    "Sure?"
    return gen(response_format=bool)


assert_type(vote(), Literal["yes", "no"])
assert_type(mood(), Mood)
assert_type(age(), int | None)
assert_type(sure(), bool)
age() + 1  # type: ignore[operator]
