"""Hostile answers: each is an object of the type, is asked for again, or is an error with a type.

Every answer is followed by a good one, so that a text which ends a program, and not only an
attempt, fails the test.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import time
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hostile_texts import ONES, HostileTexts
from typing_extensions import TypedDict

import appl
from appl import gen, ppl
from appl.errors import OutputError
from appl.runtime import Checker, shape_of
from appl.runtime.answers.nesting import MOST, branching, most_levels, too_deep
from appl.session import replayed
from appl.testing import Run, Scripted, calling, running
from appl.tracing import Recorder, profile_data
from tests.drawn import counts


class Model(pydantic.BaseModel):
    b: int = 0


class Floats(pydantic.BaseModel):
    b: float
    c: list[Annotated[float, pydantic.Field(multiple_of=0.1)]] = []


class Moments(pydantic.BaseModel):
    b: datetime.date
    c: datetime.datetime | None = None
    t: datetime.timedelta | None = None


class Addresses(pydantic.BaseModel):
    b: pydantic.AnyUrl | None = None
    i: pydantic.IPvAnyAddress | None = None
    raw: bytes = b""


class Tree(pydantic.BaseModel):
    b: list[Tree] = []
    n: int = 0


class Checked(pydantic.BaseModel):
    b: int

    @pydantic.field_validator("b")
    @classmethod
    def half(cls, value: int) -> int:
        assert value / 2.0 < 1e300
        return value


class Add(pydantic.BaseModel):
    op: Literal["add"]
    left: int | Add | Mul = 0


class Mul(pydantic.BaseModel):
    op: Literal["mul"]
    left: int | Add | Mul = 0


class Plus(pydantic.BaseModel):
    op: Literal["plus"]
    left: Annotated[Plus | Times, pydantic.Field(discriminator="op")] | None = None


class Times(pydantic.BaseModel):
    op: Literal["times"]
    left: Annotated[Plus | Times, pydantic.Field(discriminator="op")] | None = None


@dataclasses.dataclass
class Data:
    b: int


class Table(TypedDict):
    b: int


class Word(enum.Enum):
    A = "a"
    B = "b"


Price = Annotated[decimal.Decimal, pydantic.Field(max_digits=5, multiple_of=decimal.Decimal("0.1"))]
DOUBLING = {
    "$ref": "#/$defs/x",
    "$defs": {"x": {"anyOf": [
        {"type": "object", "required": ["op"],
         "properties": {"op": {"const": op}, "left": {"$ref": "#/$defs/x"}}}
        for op in ("add", "mul")]}},
}  # fmt: skip
KINDS: list[tuple[Any, str]] = [
    (Model, '{"b": 1}'), (Floats, '{"b": 1}'), (Moments, '{"b": "2020-01-01"}'), (Addresses, "{}"),
    (Tree, "{}"), (Checked, '{"b": 1}'), (Add | Mul, '{"op": "add"}'), (Data, '{"b": 1}'),
    (Table, '{"b": 1}'), (Word, "a"), (int, "1"), (float, "1"), (bool, "true"), (str, "x"),
    (list[int], "[1]"), (set[float], "[1]"), (set[Any], "[1]"), (tuple[int, str], '[1, "a"]'),
    (dict[str, int], "{}"), (dict[float, Any], "{}"), (decimal.Decimal, "1"), (Price, "1.1"),
    (datetime.date, "2020-01-01"), (datetime.datetime, "2020-01-01T00:00:00Z"),
    (datetime.time, "10:00:00"), (datetime.timedelta, "P1D"), (uuid.UUID, str(uuid.UUID(int=1))),
    (Literal["a", 1], "a"), (int | list[Model] | None, "1"), (pydantic.Json[Any], '"1"'),
    ("json", "{}"), ({"type": "integer", "multipleOf": 3}, "3"), ({"type": "number", "multipleOf": 0.3}, "0"),
    ({"type": "object", "properties": {"b": {"multipleOf": 0.1, "maximum": 5}}}, "{}"),
    ({"type": "array", "uniqueItems": True}, "[]"), ({"enum": [1, 2.5, "a", None]}, "a"), (DOUBLING, '{"op": "add"}'),
]  # fmt: skip
PLAIN = frozenset({"n", "prefill", "seed", "stream", "tools"})
FEATURES = [PLAIN, PLAIN | {"schema"}, PLAIN | {"schema", "schema_object"}]
LONGEST_S = 60.0


def tried(texts: HostileTexts, count: int) -> Counter[str]:
    """What became of *count* hostile answers, each followed by a good one."""
    sums = Counter[str]()
    for _ in range(count):
        began = time.thread_time()
        sums[
            texts.dice.choice([_typed, _typed, _streamed, _streamed, _chosen, _called])(texts)
        ] += 1
        assert time.thread_time() - began < LONGEST_S
    return sums


def _typed(texts: HostileTexts, stream: bool = False) -> str:
    kind, good = texts.dice.choice(KINDS)
    features = texts.dice.choice(FEATURES)
    schema = shape_of(kind).schema
    good = (
        f'{{"value": {_quoted(good, schema)}}}'
        if "schema_object" in features and _is_wrapped(kind)
        else good
    )
    script = [texts.text(schema), good]
    with running(Scripted(script, features=features, pieces=texts.pieces)) as backend:
        answer: Any = gen(messages="?", response_format=kind, stream=stream)
        for _ in answer.text_stream if stream else ():
            pass
        answer.result()
    how = "a stream" if stream else "a typed answer"
    return f"{how} was {'an object' if len(backend.requests) == 1 else 'asked for again'}"


def _is_wrapped(kind: Any) -> bool:
    schema = shape_of(kind).schema
    return schema is not None and schema.get("type") != "object"


def _quoted(good: str, schema: Any) -> str:
    """The JSON of *good*, which may stand without its quotes."""
    try:
        json.loads(good)
    except ValueError:
        return json.dumps(good)
    return good


def _streamed(texts: HostileTexts) -> str:
    return _typed(texts, stream=True)


def _chosen(texts: HostileTexts) -> str:
    features = PLAIN | texts.dice.choice([set(), {"schema"}, {"regex"}])  # type: ignore[operator]
    asked = "schema" not in features and "regex" not in features
    script = [texts.text({"enum": ["yes", "no"]}), "1" if asked else "yes"]
    with running(Scripted(script, features=features)) as backend:
        answer = gen(messages="?", choices=["yes", "no"])
        try:
            assert str(answer) in ("yes", "no")
        except appl.errors.ChoiceError:
            assert not asked
            return "a choice that a server must not make was refused"
    return f"a choice was {'made' if len(backend.requests) == 1 else 'asked for again'}"


def _tool(b: int, c: Add | Mul | None = None, d: datetime.date | None = None) -> str:
    """A tool.

    Args:
        b: A number.
    """
    return "ran"


_SCHEMA = appl.as_tool(_tool).parameters


def _called(texts: HostileTexts) -> str:
    with running(Scripted([calling(("_tool", texts.text(_SCHEMA)))])):
        (message,) = gen(messages="?", tools=[_tool]).run_tool_calls()
    assert message.content == "ran" or message.content.startswith("_tool was not called: ")
    return f"a tool {'ran' if not message.has_error else 'was not called'}"


@counts(2500, 200_000)
def test_a_hostile_answer_is_an_object_or_asked_for_again(count: int) -> None:
    sums = tried(HostileTexts(count), count)
    print(f"{count} hostile answers, {len(KINDS)} types:")
    for what, number in sorted(sums.items()):
        print(f"  {number:7}  {what}")
    assert sums.total() == count and len(sums) >= 8


@counts(1, 40, "seed")
def test_hostile_answers_are_recorded_and_replayed(tmp_path: Path, seed: int) -> None:
    texts = HostileTexts(seed)
    kinds = [texts.dice.choice(KINDS) for _ in range(60)]
    script = [text for kind, good in kinds for text in (texts.text(shape_of(kind).schema), good)]

    def program() -> list[str]:
        return [str(_either(kind)) for kind, _ in kinds]

    path = tmp_path / "t.trace"
    backend = Scripted(script)
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    with closing(recorder), Run(backend, instruments=[recorder], gate=recorder.gate):
        values = program()
    with replayed(path):
        assert program() == values


def _either(kind: Any) -> object:
    """An object of *kind* in words, or the error in place of it."""
    try:
        return repr(gen(messages="?", response_format=kind, max_asks=1).result())[:500]
    except OutputError as error:
        return error


@pytest.mark.parametrize("kind", [Model, Data, Table, list[int], "json", dict[str, int]])
def test_one_bad_answer_of_a_thousand_does_not_end_the_map(kind: Any) -> None:
    @ppl
    def ask(number: int) -> Any:
        f"{number}"
        return gen(response_format=kind)

    def answer(request: Any) -> str:
        good = "[1]" if kind == list[int] else '{"b": 1}'
        return f'{{"b": {ONES}}}' if str(request.messages.message.content) == "500" else good

    good: Any = [1] if kind == list[int] else {"b": 1}
    with running(Scripted(answer)):
        found = appl.map(ask, range(1000), on_error="collect")
    assert not any(isinstance(each, Exception) for each in found)
    assert shape_of(kind).object_of(json.dumps(good)) == found[500]


def test_what_is_wrong_with_a_number_is_said_to_the_model() -> None:
    with (
        running(Scripted([f'{{"b": {ONES}}}'] * 3)) as backend,
        pytest.raises(OutputError, match="digits"),
    ):
        gen(messages="?", response_format={"type": "object"}).result()
    assert "a number with thousands of digits" in str(backend.requests[1].messages.message)


# -- types and schemas that hold themselves


def test_a_union_that_holds_itself_is_read_to_a_depth_that_ends() -> None:
    union: Any = Add | Mul
    assert branching(pydantic.TypeAdapter(union).core_schema) == 2
    levels = most_levels(2)
    assert 2**levels <= MOST < 2 ** (levels + 1)

    def deep(count: int) -> str:
        return '{"op": "mul", "left": ' * count + "1" + "}" * count

    assert not too_deep(deep(levels), levels) and too_deep(deep(levels), levels - 1)
    assert shape_of(union).object_of(deep(12)) is not None
    with pytest.raises(ValueError, match="without a discriminator"):
        shape_of(union).object_of(deep(levels + 1))


def test_types_that_can_be_read_in_one_way_have_no_such_depth() -> None:
    for kind in (Tree, Model, list[Model], int | str, Model | Data, Plus, dict[str, Any]):
        assert branching(pydantic.TypeAdapter(kind).core_schema) == 1, kind
    nested = '{"a": "{{{", "b\\\\": {"c": "\\"{"}}'
    assert not too_deep(nested, 2) and too_deep(nested, 1) and not too_deep('"{', 0)


def test_a_schema_that_holds_itself_takes_no_exponential_time() -> None:
    value: Any = {"op": "none"}
    for _ in range(80):
        value = {"op": "mul", "left": value}
    began = time.thread_time()
    assert Checker(DOUBLING).errors(value) is not None
    assert (
        Checker({"uniqueItems": True}).errors([{"a": [number]} for number in range(20_000)]) is None
    )
    assert time.thread_time() - began < 30


@pytest.mark.parametrize(
    ("items", "unique"),
    [([1, True], True), ([0, False], True), ([1, 1.0], False), (["1", 1], True), ([[1], [1.0]], False),
     ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False), ([[], {}], True), ([None, 0, ""], True),
     ([[1, 2], [2, 1]], True), ([{"a": [1]}, {"a": [True]}], True)],
)  # fmt: skip
def test_items_are_compared_as_json(items: list[Any], unique: bool) -> None:
    assert (Checker({"uniqueItems": True}).errors(items) is None) == unique
