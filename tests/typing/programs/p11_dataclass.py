"""A dataclass, and lists of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from appl import gen, ppl


@dataclass
class Place:
    name: str


@ppl
def place() -> Place:
    "Name a place."
    return gen(response_format=Place)


@ppl
def places() -> list[Place]:
    "Name places."
    return gen(response_format=list[Place])


@ppl
def each() -> list[Place]:
    return [place() for _ in range(3)]


assert_type(place().name, str)
assert_type(places()[0].name, str)
assert_type(each(), list[Place])
place().nam  # type: ignore[attr-defined]
