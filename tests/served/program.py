"""A program whose functions are served: it asks a model in steps, people, and itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel

import appl
from appl import gen, ppl


class Trip(BaseModel):
    city: str
    days: int


@ppl
def ask(question: str) -> str:
    """Answer one question."""
    f"first {question}"
    return gen()


@ppl
def steps(question: str, more: int = 1) -> list[str]:
    """Ask one thing after the other."""
    return [str(step(f"{number} {question}")) for number in range(more + 1)]


@ppl
def step(text: str) -> str:
    f"step {text}"
    return gen()


@ppl
def plan(trip: Trip, by: float = 1.0) -> Trip:
    """Plan a trip."""
    f"plan {trip.city}"
    str(gen())
    return Trip(city=trip.city.upper(), days=int(trip.days * by))


@ppl
def tell(about: str) -> Iterator[str]:
    f"tell {about}"
    return gen(stream=True).text_stream


@ppl
def parts(question: str) -> Iterator[str]:
    for number in range(2):
        yield str(part(f"{number} {question}"))


@ppl
def part(text: str) -> str:
    f"part {text}"
    return gen()


@ppl
async def later(question: str) -> str:
    f"later {question}"
    return await gen()


@ppl
def refund(order: int) -> str:
    """Refund an order, if a person agrees."""
    f"refund {order}"
    word = str(gen())
    agreed = appl.ask_person(f"Refund order {order}?", bool)
    return f"{word}: {'refunded' if agreed else 'kept'}"


@ppl
def talk(messages: list[dict[str, Any]]) -> str:
    for message in messages:
        f"{message['role']} says {message['content']}"
    return gen()


@ppl
def fail(word: str) -> str:
    f"fail {word}"
    str(gen())
    raise LookupError(f"nothing is called {word}")


@ppl
def slow(seconds: float) -> float:
    "slow"
    str(gen())
    time.sleep(seconds)
    return seconds


@ppl
def vectors(texts: list[str], dimensions: int | None = None) -> Sequence[Sequence[float]]:
    """The vectors of texts."""
    return appl.embed(texts, dimensions=dimensions)


def halves(texts: list[str]) -> list[list[float]]:
    """Vectors that are no model's."""
    return [[len(text) / 2, 0.1] for text in texts]


def too_few(texts: list[str]) -> list[list[float]]:
    return [[0.5]]


def plain(a: int, b: int = 2) -> int:
    return a + b


def _hidden() -> int:
    return 1
