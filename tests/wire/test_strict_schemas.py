"""What is sent as strict lies in the subset that the provider publishes, and means the user's type.

Random types go through the schemas that a run sends; the published rules judge their form, and a
JSON Schema validator of others, and pydantic, what they mean.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from random import Random
from typing import Any

import jsonschema_rs
import pytest

from appl.backend import Profile
from appl.runtime import shape_of
from appl.runtime.answers.demand import is_wrapped, schema_for, unwrapped
from appl.runtime.answers.shape import ByType, Mismatch
from appl_backends.openai.strict_schema import AZURE, CLAUDE, LOCAL, OPENAI, Subset, strict_schema
from tests.drawn import counts
from tests.wire import anthropic_subset, openai_subset
from tests.wire.instances import Instances, spoilt
from tests.wire.random_types import RandomType, random_type

HOSTED = Profile("hosted", frozenset({"schema", "schema_object"}))
LOCALLY = Profile("local", frozenset({"schema"}))
EACH = 4
"""Values of each type that are tried."""


@functools.cache
def drawn(count: int) -> tuple[tuple[int, Any, str, str], ...]:
    """Shapes of random types, with the schemas that a run asks hosted and local servers for."""
    found = []
    for seed in range(count):
        written = random_type(seed)
        with written.kind() as kind:
            shape = ByType(kind)
        shape.name = f"number {seed}: {written.annotation}"
        schemas = (str(schema_for(shape, profile)) for profile in (HOSTED, LOCALLY))
        found.append((seed, shape, *schemas))
    return tuple(found)


def valid(schema: str) -> Any:
    return jsonschema_rs.validator_for(json.loads(schema), validate_formats=True).is_valid


# -- the form


@counts(500, 20_000)
def test_no_random_type_is_strict_outside_of_the_subset_and_most_are_strict(count: int) -> None:
    strict = dict.fromkeys((OPENAI, AZURE), 0)
    rules = {OPENAI: openai_subset.OPENAI_RULES, AZURE: openai_subset.AZURE_RULES}
    for _, shape, wanted, _ in drawn(count):
        for subset in strict:
            sent, is_strict = strict_schema(wanted, subset)
            strict[subset] += is_strict
            found = openai_subset.problems(json.loads(sent), rules[subset]) if is_strict else []
            assert not found, (shape.name, sent, found)
    assert strict[OPENAI] >= 0.7 * count and strict[AZURE] >= 0.25 * count, strict


@counts(500, 20_000)
def test_what_is_not_strict_has_its_definitions_at_the_root_as_well(count: int) -> None:
    for _, shape, wanted, _ in drawn(count):
        sent, is_strict = strict_schema(wanted, OPENAI)
        if not is_strict:
            names = json.loads(sent).get("$defs", {})
            leads = {node.get("$ref", "#") for node in openai_subset._nodes(json.loads(sent))}
            assert leads <= {"#", *(f"#/$defs/{name}" for name in names)}, (shape.name, sent)


# -- the meaning


@counts(500, 5_000)
@pytest.mark.parametrize("subset", [OPENAI, LOCAL], ids=["hosted", "local"])
def test_what_is_sent_allows_neither_more_nor_less_than_the_type(
    subset: Subset, count: int
) -> None:
    """Fields that may be left out are there as null or as an empty list, where all must be."""
    for seed, shape, hosted, local in drawn(count):
        wanted = hosted if subset is OPENAI else local
        sent, is_strict = strict_schema(wanted, subset)
        before, after, random = valid(wanted), valid(sent), Random(seed)
        for number in range(EACH):
            said = Instances(json.loads(sent), random).value()
            assert after(said) and before(said), (shape.name, said)
            wrong = spoilt(said, random)
            assert before(wrong) or not after(wrong), (shape.name, wrong)
            whole = is_strict and not subset.optional
            value = Instances(json.loads(wanted), Random(f"{seed}.{number}"), whole).value()
            assert before(value) and after(value), (shape.name, value)


@counts(500, 5_000)
def test_what_a_model_may_say_is_read_as_the_type(count: int) -> None:
    """But for decimals: the pattern of their texts looks ahead, and is not sent."""
    read = 0
    for seed, shape, wanted, _ in drawn(count):
        sent, _ = strict_schema(wanted, OPENAI)
        for _ in range(EACH):
            text = json.dumps(Instances(json.loads(sent), Random(seed)).value())
            try:
                shape.object_of(unwrapped(text) if is_wrapped(shape, HOSTED) else text)
                read += 1
            except Mismatch as wrong:
                assert "decimal" in str(wrong), (shape.name, text, wrong)
    assert read > 0.9 * EACH * count


# -- each kind


MODELS = """
from __future__ import annotations
import datetime, enum
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar
from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict
T = TypeVar("T")
class Color(enum.Enum):
    RED = "red"
class P(BaseModel):
    name: str
class Q(BaseModel):
    p: P = Field(description="who")
    color: Color = Field(description="which")
class Node(BaseModel):
    kids: list[Node] = []
    other: Node | None = Field(None, description="beside")
class Dog(BaseModel):
    kind: Literal["dog"]
    owner: P
class Cat(BaseModel):
    kind: Literal["cat"]
class Box(BaseModel, Generic[T]):
    inside: T
@dataclass
class D:
    when: datetime.date
    of: list[P]
class Table(TypedDict):
    rows: dict[str, int]
class Some(TypedDict):
    name: NotRequired[str]
class Shared1(BaseModel):
    name: str
    a: int
class Shared2(BaseModel):
    name: str
    b: int
"""


def of(annotation: str, subset: Subset = OPENAI) -> tuple[Any, bool]:
    """The schema that is sent for a type of ``MODELS``, and whether it is strict."""
    with RandomType(MODELS, annotation).kind() as kind:
        wanted = schema_for(shape_of(kind), HOSTED)
    sent, strict = strict_schema(str(wanted), subset)
    return json.loads(sent), strict


@pytest.mark.parametrize(
    ("annotation", "strict"),
    [
        ("list[P]", True), ("P | None", True), ("Q", True), ("list[Q]", True), ("Node", True),
        ("list[Node]", True), ("Annotated[Dog | Cat, Field(discriminator='kind')]", True),
        ("list[Dog | Cat]", True), ("Box[P]", True), ("list[Box[list[P]]]", True), ("D", True),
        ("list[D]", True), ("tuple[P, P]", True), ("Literal[1, 'a', None]", True),
        ("Color | int", True), ("Annotated[int, Field(ge=0)] | None", True),
        ("tuple[int, str]", False), ("dict[str, P]", False), ("Table", False), ("Some", False),
        ("Annotated[str, Field(min_length=2)]", False), ("Shared1 | Shared2", False),
    ],
)  # fmt: skip
def test_a_type_is_strict_where_it_can_be_said(annotation: str, strict: bool) -> None:
    schema, is_strict = of(annotation)
    assert is_strict == strict
    assert not is_strict or openai_subset.problems(schema) == []


def test_definitions_of_a_wrapped_value_stand_at_the_root() -> None:
    person = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
              "additionalProperties": False}  # fmt: skip
    assert of("list[P]")[0] == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"$ref": "#/$defs/P"}}},
        "required": ["value"],
        "additionalProperties": False,
        "$defs": {"P": person},
    }


def test_a_described_reference_is_a_choice_of_one_and_a_described_enum_is_written_out() -> None:
    assert of("Q")[0]["properties"] == {
        "p": {"anyOf": [{"$ref": "#/$defs/P"}], "description": "who"},
        "color": {"type": "string", "enum": ["red"], "description": "which"},
    }


def test_values_of_several_types_are_a_choice_among_the_types() -> None:
    assert of("Literal[1, 'a', None]")[0]["properties"]["value"] == {
        "anyOf": [{"type": "integer", "enum": [1]}, {"type": "string", "enum": ["a"]}, {"type": "null"}]
    }  # fmt: skip


def test_what_may_be_left_out_is_there_as_null_or_as_an_empty_list() -> None:
    node = of("Node")[0]["$defs"]["Node"]
    assert node["required"] == ["kids", "other"]


def test_azure_is_asked_without_the_constraints_that_it_does_not_publish() -> None:
    assert of("list[P]", AZURE)[1] and not of("list[D]", AZURE)[1]


def test_the_schema_that_a_request_is_known_by_is_as_it_was() -> None:
    """The form on the wire may change; a recorded run is found by the other one."""
    with RandomType(MODELS, "list[P]").kind() as kind:
        wanted = schema_for(shape_of(kind), HOSTED)
    assert wanted == (
        '{"type":"object","properties":{"value":{"$defs":{"P":{"properties":{"name":'
        '{"type":"string"}},"required":["name"],"type":"object","additionalProperties":false}},'
        '"items":{"$ref":"#/properties/value/$defs/P"},"type":"array"}},"required":["value"],'
        '"additionalProperties":false}'
    )


# -- schemas that a user writes


CLOSED = {"type": "object", "additionalProperties": False}


def closed(**properties: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": properties, "required": list(properties)}


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        inner = closed(a=inner)
    return inner


TEXT = {"type": "string"}
ODD: dict[str, tuple[Any, bool]] = {
    "several types": (closed(a={"type": ["string", "null"], "enum": ["x", None]}), True),
    "definitions": (closed(a={"$ref": "#/definitions/x"}) | {"definitions": {"x": TEXT}}, True),
    "a name with a slash": (closed(a={"$ref": "#/$defs/a~1b%20c"}) | {"$defs": {"a/b c": TEXT}}, True),
    "a part of it": (closed(a=closed(b=TEXT), c={"$ref": "#/properties/a/properties/b"}), True),
    "a part of a definition": (
        closed(a={"$ref": "#/$defs/x/properties/b"}) | {"$defs": {"x": closed(b=TEXT)}}, True),
    "the root": (closed(a={"anyOf": [{"$ref": "#"}, {"type": "null"}]}), True),
    "a limit beside a reference": (
        closed(a={"$ref": "#/$defs/x", "maxItems": 3})
        | {"$defs": {"x": {"type": "array", "items": TEXT}}}, True),
    "a limit beside another": (
        closed(a={"$ref": "#/$defs/x", "minimum": -5}) | {"$defs": {"x": {"type": "integer", "minimum": 0}}},
        False),
    "a way back with a remark": (
        closed(a={"$ref": "#/$defs/x", "description": "first"})
        | {"$defs": {"x": closed(b={"type": "array", "items": {"$ref": "#/$defs/x", "description": "next"}})}},
        True),
    "one of all": (closed(a={"allOf": [{"$ref": "#/$defs/x"}], "description": "d"}) | {"$defs": {"x": TEXT}}, True),
    "a root that refers": ({"$ref": "#/$defs/x", "$defs": {"x": closed(a=TEXT)}}, True),
    "remarks": (closed(a={**TEXT, "title": "T", "default": "", "examples": ["b"]}), True),
    "a property called $ref": (closed(**{"$ref": TEXT, "$defs": TEXT}), True),
    "no properties": (closed(), True),
    "ten levels": (nested(10), True),
    "eleven levels": (nested(11), False),
    "1000 values": (closed(a={"enum": [*map(str, range(1000))]}), True),
    "1001 values": (closed(a={"enum": [*map(str, range(1001))]}), False),
    "long values": (closed(a={"enum": ["x" * 70 + str(each) for each in range(251)]}), False),
    "long names": (closed(**{"x" * 61_000 + each: TEXT for each in "ab"}), False),
    "5001 properties": (closed(**{f"p{each}": TEXT for each in range(5001)}), False),
    "look-ahead": (closed(a={**TEXT, "pattern": "^(?!a)b"}), False),
    "an unknown format": (closed(a={**TEXT, "format": "uri"}), False),
    "all of two": (closed(a={"allOf": [TEXT, {"maxLength": 3}]}), False),
    "one of two": (closed(a={"oneOf": [TEXT, {"type": "null"}]}), False),
    "a list of anything": (closed(a={"type": "array"}), False),
    "anything": (closed(a={}), False),
    "nothing": (closed(a=False), False),
    "another one's": (closed(a={"$ref": "https://example.org/x"}), False),
    "a way round": (closed(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": {"$ref": "#/$defs/x"}}}, False),
    "a way round through a choice": (
        closed(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": {"anyOf": [TEXT, {"$ref": "#/$defs/x"}]}}}, False),
    "objects as values": (closed(a={"enum": [{"b": 1}]}), False),
    "an anchor": (closed(a={"$ref": "#x"}) | {"$defs": {"x": {**TEXT, "$anchor": "x"}}}, False),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_a_schema_of_the_users_own_is_strict_where_it_can_be_said(name: str) -> None:
    wanted, strict = ODD[name]
    sent, is_strict = strict_schema(json.dumps(wanted), OPENAI)
    assert is_strict == strict
    assert not strict or openai_subset.problems(json.loads(sent)) == []
    if name not in ("another one's", "a way round", "a way round through a choice"):
        before, after, random = valid(json.dumps(wanted)), valid(sent), Random(0)
        for _ in range(20):
            value = Instances(json.loads(sent), random).value() if strict else {"a": "b"}
            for each in (value, spoilt(value, random)):
                assert before(each) == after(each), each


@pytest.mark.parametrize("beside", [{}, {"description": "d"}, {"maxItems": 9}])
@pytest.mark.parametrize("subset", [OPENAI, LOCAL, CLAUDE], ids=["openai", "local", "claude"])
def test_a_schema_that_grows_when_it_is_written_out_is_sent_as_it_is(
    beside: dict[str, Any], subset: Subset
) -> None:
    """Thirty definitions, each of which refers to the next one twice."""
    names = {
        f"d{at}": closed(a={"$ref": f"#/$defs/d{at + 1}", **beside}, b={"$ref": f"#/$defs/d{at + 1}", **beside})
        for at in range(30)
    }  # fmt: skip
    bomb = {**closed(a={"$ref": "#/$defs/d0"}), "$defs": {**names, "d30": closed()}}
    sent, strict = strict_schema(json.dumps(bomb), subset)
    assert len(sent) < 10_000 and strict == (subset is not CLAUDE and "maxItems" not in beside)


def test_the_same_schema_is_always_written_the_same() -> None:
    """Names are given in an order that no hash decides: a provider caches what is made of a schema."""
    parts = {f"p{at}": {"$ref": f"#/properties/q{at}"} for at in range(6)}
    wanted = json.dumps(closed(**parts, **{f"q{at}": closed(a=TEXT) for at in range(6)}))
    code = f"from appl_backends.openai.strict_schema import strict_schema; print(strict_schema({wanted!r}))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(said) == 1 and "True" in said.pop()


# -- the checkers themselves


WRONG = {
    "a root of anyOf": {"anyOf": [closed(), closed(a=TEXT)]},
    "a list as root": {"type": "array", "items": TEXT},
    "an open object": {"type": "object", "properties": {}, "required": []},
    "a map": {"type": "object", "properties": {}, "required": [], "additionalProperties": TEXT},
    "an optional field": {**closed(a=TEXT), "required": []},
    "no required": {**CLOSED, "properties": {}},
    "a nested definition": closed(a={"$ref": "#/properties/b/$defs/x"}, b={**TEXT, "$defs": {"x": TEXT}}),
    "a described reference": {**closed(a={"$ref": "#/$defs/x", "description": "d"}), "$defs": {"x": TEXT}},
    "a reference to nothing": closed(a={"$ref": "#/$defs/x"}),
    "a default": closed(a={**TEXT, "default": ""}),
    "minLength": closed(a={**TEXT, "minLength": 1}),
    "uri": closed(a={**TEXT, "format": "uri"}),
    "look-behind": closed(a={**TEXT, "pattern": "(?<!a)b"}),
    "prefixItems": closed(a={"type": "array", "items": TEXT, "prefixItems": [TEXT]}),
    "no items": closed(a={"type": "array"}),
    "any items": closed(a={"type": "array", "items": {}}),
    "no type": closed(a={"enum": ["x"]}),
    "two kinds": closed(a={"type": "string", "anyOf": [TEXT]}),
    "a value of another type": closed(a={"type": "null", "enum": ["x"]}),
    "allOf": closed(a={"allOf": [TEXT]}),
    "eleven levels": nested(11),
    "eleven levels of lists": closed(a=[*range(1)] and {"type": "array", "items": nested(10)}),
    "1001 values": closed(**{f"p{at}": {**TEXT, "enum": [*map(str, range(91))]} for at in range(11)}),
    "5001 properties": closed(**{f"p{at}": TEXT for at in range(5001)}),
    "long names": closed(**{"x" * 61_000 + each: TEXT for each in "ab"}),
    "one first key": closed(a={"anyOf": [closed(n=TEXT), closed(n=TEXT, b=TEXT)]}),
    "one first value": closed(
        a={"anyOf": [closed(k={**TEXT, "const": "x"}), closed(k={**TEXT, "enum": ["y", "x"]})]}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_the_checker_finds_what_the_published_rules_forbid(name: str) -> None:
    assert openai_subset.problems(WRONG[name])


@pytest.mark.parametrize("at", [0, 1])
def test_the_checker_takes_the_examples_of_the_guide(at: int) -> None:
    attribute = closed(name=TEXT, value=TEXT)
    window = closed(
        type={**TEXT, "description": "its kind", "enum": ["div", "button"]}, label=TEXT,
        children={"type": "array", "items": {"$ref": "#"}},
        attributes={"type": "array", "items": attribute},
        unit={"type": ["string", "null"], "enum": ["F", "C"]},
        value={"type": "number", "minimum": -130, "maximum": 130},
    )  # fmt: skip
    next_one = {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}
    chain = closed(list={"$ref": "#/$defs/node"})
    chain["$defs"] = {"node": closed(value={"type": "number"}, next=next_one)}
    assert openai_subset.problems((window, chain)[at]) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {}},
        closed(a={"type": "integer", "minimum": 1}),
        closed(a={"type": "array", "items": TEXT, "minItems": 2}),
        closed(a={"$ref": "/$defs/x"}) | {"$defs": {"x": TEXT}},
        closed(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": closed(a={"$ref": "#/$defs/x"})}},
        closed(a={"type": ["string", "null"], "enum": ["x", None]}),
        closed(**{f"p{at}": {"anyOf": [TEXT, {"type": "null"}]} for at in range(17)}),
        {**closed(**{f"p{at}": TEXT for at in range(25)}), "required": []},
        closed(a={**TEXT, "pattern": r"\bx"}),
        closed(a={}),
    ],
)
def test_the_checker_finds_what_anthropic_forbids(schema: Any) -> None:
    assert anthropic_subset.problems(schema)
