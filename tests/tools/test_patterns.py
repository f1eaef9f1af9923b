"""Patterns of a stranger's schema: they are matched in linear time, wherever they stand."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from appl import SchemaTool
from appl.errors import InvalidOption, ToolError
from appl.mcp import ArgumentReader
from appl.runtime import Checker
from appl.runtime.tools.arguments import BadArguments

EVIL = ["^(a+)+$", "^(a|a)*$", "(a*)*b", "(.*a){25}$", "^(([a-z])+.)+[A-Z]([a-z])+$"]
LONG = "a" * 20_000 + "!"


def seconds(schema: Any, value: Any) -> float:
    checker = Checker(schema)
    began = time.thread_time()
    checker.errors(value)
    return time.thread_time() - began


@pytest.mark.parametrize("pattern", EVIL)
def test_no_pattern_takes_long_wherever_it_stands(pattern: str) -> None:
    """A backtracking engine would need longer than the universe exists for most of these."""
    by = {"type": "object", "patternProperties": {pattern: {"type": "integer"}}}
    for schema, value in (
        ({"type": "string", "pattern": pattern}, LONG),
        (by, {LONG: 1}),
        ({**by, "additionalProperties": False}, {LONG: 1}),
        ({"propertyNames": {"pattern": pattern}}, {LONG: 1}),
        ({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"pattern": pattern}}}, LONG),
    ):
        assert seconds(schema, value) < 5


def test_arguments_of_a_tool_are_checked_in_linear_time() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": EVIL[0]}}}
    tool = SchemaTool({"name": "t", "parameters": schema})
    assert tool.reader.read('{"a": "aaa"}') == {"a": "aaa"}
    with pytest.raises(BadArguments, match="a: 'aaa"):
        tool.reader.read(f'{{"a": "{LONG}"}}')


@pytest.mark.parametrize(
    "pattern", [r"^\d{3}-\d{4}$", "b", "^$", r"[\w.-]+@x", "^(?:a|b){2,3}$", "é", r"\/a\-b"]
)
@pytest.mark.parametrize(
    "text", ["", "b", "123-4567", "1123-4567", "ab", "abab", "é", "m@x", "/a-b"]
)
def test_ordinary_patterns_mean_what_they_mean_elsewhere(pattern: str, text: str) -> None:
    fits = re.search(pattern, text) is not None
    assert (Checker({"pattern": pattern}).errors(text) is None) == fits
    named = Checker({"patternProperties": {pattern: True}, "additionalProperties": False})
    assert (named.errors({text: 1}) is None) == fits
    inner = Checker({"patternProperties": {pattern: {"type": "integer"}}})
    assert (inner.errors({text: "x"}) is not None) == fits


def test_further_properties_are_checked_beside_patterns() -> None:
    checker = Checker({
        "properties": {"n": {"type": "integer"}}, "patternProperties": {"^x": True},
        "additionalProperties": {"type": "string"},
    })  # fmt: skip
    assert checker.errors({"n": 1, "x1": 2, "other": "text"}) is None
    assert "other" in str(checker.errors({"n": 1, "x1": 2, "other": 3}))


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "(", "((a{1000}){1000}){1000}"])
def test_a_pattern_that_cannot_be_matched_so_is_refused_at_once(pattern: str) -> None:
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: True}}):
        with pytest.raises(InvalidOption, match="cannot be checked"):
            Checker(schema)
    parameters = {"type": "object", "properties": {"a": {"pattern": pattern}}}
    with pytest.raises(ToolError, match="cannot be checked"):
        SchemaTool({"name": "t", "parameters": parameters})
    reader = ArgumentReader("t", parameters, lambda tool, parts: None)
    assert reader.read('{"a": "b"}') == {"a": "b"}  # the MCP server checks it


def test_names_that_the_schema_describes_are_no_patterns() -> None:
    schema = {"properties": {"pattern": {"type": "string"}}, "examples": [{"pattern": "("}]}
    assert Checker(schema).errors({"pattern": "("}) is None
