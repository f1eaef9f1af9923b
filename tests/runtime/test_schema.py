"""The JSON Schema checker: what fits, what is said of what does not, which schemas are refused."""

from __future__ import annotations

import pytest

from appl.errors import InvalidOption
from appl.runtime import Checker

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "ages": {"type": "array", "items": {"$ref": "#/$defs/age"}},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"age": {"type": "integer", "minimum": 0}},
}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"name": "Ann", "ages": [1, 2]}, None),
        ([], "[] is not of type 'object'"),
        ({}, "'name' is a required property"),
        ({"name": 1}, "name: 1 is not of type 'string'"),
        ({"name": "Ann", "ages": [1, -2]}, "ages[1]: -2 is less than the minimum of 0"),
        ({"name": "Ann", "ages": [True]}, "ages[0]: True is not of type 'integer'"),
    ],
)
def test_a_problem_names_its_place(value, problem):
    assert Checker(PERSON).errors(value) == problem


def test_problems_are_told_at_once_but_not_all_of_a_hundred_and_not_at_length():
    found = Checker({"items": {"type": "string"}}).errors(list(range(100)))
    assert found is not None and found.count(";") == 4
    found = Checker({"type": "string"}).errors(["x" * 10_000])
    assert found is not None and len(found) < 300


@pytest.mark.parametrize(
    "schema",
    [
        3, "object", {"type": "text"}, {"minimum": "1"}, {"pattern": "("}, {"properties": []},
        {"items": 3}, {"anyOf": []}, {"required": "name"}, {"minLength": -1},
        {"$ref": "https://example.com/schema"}, {"$ref": "#/$defs/missing"},
        {"properties": {"a": {"items": {"type": "text"}}}},
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(InvalidOption, match="JSON schema"):
        Checker(schema)


def test_data_in_a_schema_is_not_taken_for_a_reference():
    assert Checker({"enum": [{"$ref": "#/nowhere"}, 3]}).errors(3) is None


def test_a_schema_that_refers_to_itself_ends():
    assert Checker({"$ref": "#"}).errors(1) == "it is nested too deeply"
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert Checker(tree).errors({"child": {"child": {}}}) is None
    assert Checker(tree).errors({"child": 3}) == "child: 3 is not of type 'object'"
