"""What type checkers know of typed answers; checked by mypy and pyright, never run."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict, assert_type

import pydantic

from appl import (
    Conversation,
    Future,
    Generation,
    Text,
    TextStream,
    embed,
    evaluate,
    gen,
    keep,
    passages,
    ppl,
)
from appl.parts.evaluation import Evaluation


class Person(pydantic.BaseModel):
    name: str
    age: int


@dataclass
class Place:
    name: str


class Options(TypedDict):
    loud: bool


class Color(Enum):
    RED = "red"


assert_type(embed("one"), Future[array[float]])
assert_type(embed(["one", "two"]), Future[list[array[float]]])
assert_type(embed("one").result(), array[float])
assert_type(passages(["one"], order="shared"), list[str])
assert_type(keep([("a", "b")], [1.0], 1, share=0.5), list[tuple[str, str]])
assert_type(Conversation.load("chat.json"), Conversation)
as_future: Generation[Person] = gen(response_format=Person)
as_value: Person = gen(response_format=Person)
assert_type(gen(response_format=Person).response_obj, Person)
assert_type(gen(response_format=Person).text_stream, TextStream[Person])
assert_type(gen(stream=True).text_stream, TextStream[str])
assert_type(gen(stream=True).reasoning_stream, TextStream[str])
assert_type(next(iter(gen(stream=True).text_stream)), str)
assert_type(gen(response_format=Person).result(), Person)
assert_type(gen(response_format=Person).result(timeout=5).age, int)
assert_type(gen(response_format=Place).result(), Place)
assert_type(gen(response_format=Options).result(), Options)
assert_type(gen(response_format=Color).result(), Color)
assert_type(gen(response_format=int).result(), int)
assert_type(gen(response_format=list[Person]).result(), list[Person])
assert_type(gen(response_format=dict[str, int]).result(), dict[str, int])
assert_type(gen("small", response_format=bool, max_asks=2, n=3, cache="run").result(), bool)

assert_type(gen(response_format=Person, check=lambda who: who.age).result(), Person)

# what is no class for a type checker needs an annotation to be known
assert_type(gen(response_format="json").result(), Any)


@ppl
def vote() -> Generation[Literal["yes", "no"]]:
    return gen(response_format=Literal["yes", "no"])


@ppl
def votes() -> list[Literal["yes", "no"]]:
    return gen(response_format=list[Literal["yes", "no"]])


@ppl
def maybe() -> int | None:
    return gen(response_format=int | None)


@ppl
def small() -> int:
    return gen(response_format=Annotated[int, pydantic.Field(lt=9)])


assert_type(vote().result(), Literal["yes", "no"])
assert_type(votes(), list[Literal["yes", "no"]])
assert_type(maybe(), int | None)
assert_type(small(), int)
assert_type(gen(response_format=Literal["yes", "no"]).result(), Any)
assert_type(gen(response_format=int | str).result(), Any)

assert_type(gen(), Generation)
assert_type(gen().result(), Text)
assert_type(gen().response_obj, None)
assert_type(gen().samples, tuple[Text, ...])


async def awaited() -> Person:
    assert_type(await gen(), Text)
    return await gen(response_format=Person)


@ppl
def person(text: str) -> Generation[Person]:
    f"{text}"
    return gen(response_format=Person)


def several(texts: list[str]) -> Sequence[Generation[object]]:
    return [person(text) for text in texts]


def shouted(answer: Generation) -> str:
    return answer.upper()


assert_type(evaluate(vote, [("a", "b")], scores=["exact", str]).mean(), float)


async def evaluated() -> Evaluation:
    return await evaluate(vote, "cases.jsonl", samples=2)
