"""What a dry run says of typed answers, against what the rerun then asks."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Le, MultipleOf
from pydantic import BaseModel, Field, TypeAdapter, field_validator
from test_rerunning import recorded_in

import appl
from appl import Generation, gen, ppl
from appl.session.rerunning import foreseen
from appl.testing import Fake, Run
from appl.tracing import Predictor, Rerunner
from appl.tracing.explaining import Prediction
from appl.tracing.replaying.made_up_values import value_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str = Field(min_length=2)
    age: int = Field(ge=0, lt=150)
    colour: Colour | None = None


class Parity(BaseModel):
    even: int

    @field_validator("even")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value


TYPES: list[Any] = [
    int, float, bool, str, date, Person, list[Person], dict[str, int], tuple[int, str], Colour,
    Literal["a", "b"], Annotated[int, Ge(3), Le(5)], Annotated[int, MultipleOf(7)], int | None,
    Annotated[list[int], Field(min_length=4)], Annotated[str, Field(max_length=2)],
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_made_up_values_are_of_their_type(kind: Any) -> None:
    adapter = TypeAdapter(kind)
    schema = adapter.json_schema()
    for number in range(8):
        adapter.validate_json(json.dumps(value_of(schema, number)))


@ppl
def typed(word: str, kind: Any) -> Generation:
    f"{word}"
    return gen(response_format=kind)


def refusing(request: Any) -> str:
    """A good answer to every question but those with x: there it is none of the type."""
    word = str(request.messages.links()[0].message.content)
    return "no" if "x" in word else "2"


def mapped(kind: Any) -> Callable[[], Any]:
    def program() -> Any:
        words = ["1", "x2", "3", "x4"]
        return appl.map(lambda word: typed(word, kind).result(), words, on_error="collect")

    return program


def asked(path: Path, program: Callable[[], Any], backend: Fake) -> int:
    rerunner = Rerunner(path, anew=["failed"])
    into = path.with_suffix(".again")
    recorded_in(into, program, backend, watching=[rerunner], world=rerunner)
    return len(backend.requests)


def foretold(path: Path, program: Callable[[], Any], features: Iterable[str] = ()) -> Prediction:
    def performed(number: int) -> tuple[Predictor, None]:
        predictor = Predictor(path, rehearsal=number, anew=["failed"])
        nobody = Fake(lambda _: AssertionError("asked"), features=frozenset(features))
        with Run(nobody, instruments=[predictor], world=predictor):
            program()
        return predictor, None

    return foreseen(performed)


@pytest.mark.parametrize("features", [(), ("schema",), ("schema", "schema_object")])
def test_of_failed_typed_answers_the_number_is_exact(
    tmp_path: Path, features: tuple[str, ...]
) -> None:
    path, program = tmp_path / "a.trace", mapped(int)
    recorded_in(path, program, Fake(refusing, features=frozenset(features)))
    found = foretold(path, program, features)
    good = '{"value": 8}' if "schema_object" in features else "8"
    backend = Fake(lambda _: good, features=frozenset(features))
    assert found.live == (2, 2) == (asked(path, program, backend),) * 2
    assert "agree on 2 live: more if types refuse answers again" in found.lines()[-2]
    assert found.lines()[-1].startswith("2 of 4 calls would be live")


def test_what_a_new_value_decides_is_no_exact_number(tmp_path: Path) -> None:
    def program() -> Any:
        found = mapped(bool)()
        return [typed("more", str).result() for each in found if each is True]

    recorded_in(tmp_path / "a.trace", program, Fake(refusing))
    assert foretold(tmp_path / "a.trace", program).live[1] is None


def test_a_type_that_refuses_what_is_made_up_is_not_rehearsed(tmp_path: Path) -> None:
    recorded_in(tmp_path / "a.trace", mapped(Parity), Fake(refusing))
    found = foretold(tmp_path / "a.trace", mapped(Parity))
    assert found.live[1] is None and "a typed answer" in found.open
