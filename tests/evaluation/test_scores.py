"""The ready scores."""

from __future__ import annotations

import pytest

from appl.parts.evaluation import READY

RIGHT = {
    "exact": [("Paris", "Paris"), (" Paris\n", "Paris"), (3, 3), (3, "3"), ({"a": 1}, {"a": 1})],
    "contains": [("It is PARIS.", "Paris"), ("a and b", ["a", "b"]), ("x", "")],
    "regex": [("in 1999.", r"\b\d{4}\b"), ("ab", "^ab$")],
    "json": [('{"a": 1, "b": [2]}', {"b": [2], "a": 1}), ("[1]", "[1.0]"), ({"a": 1}, '{"a":1}')],
    "choice": [
        ("B", "B"), ("(b)", "B"), ("B) Rome", "B"), ("The answer is B.", "b"), ("Answer: (B)", "B"),
        ("A is wrong, so the answer is: **B**", "(B)"), ("b.", "B"),
    ],
}  # fmt: skip
WRONG = {
    "exact": [("paris", "Paris"), ("Paris.", "Paris"), (None, "Paris")],
    "contains": [("Rome", "Paris"), ("a", ["a", "b"])],
    "regex": [("99", r"\d{4}"), ("AB", "ab")],
    "json": [("[1, 2]", "[2, 1]"), ("no json", {"a": 1}), ('{"a": 1}', '{"a": 2}')],
    "choice": [("C", "B"), ("", "B"), ("Both are right", "B"), ("I'd say Rome", "I")],
}


def pairs(table: dict[str, list[tuple[object, object]]]) -> list[tuple[str, object, object]]:
    return [(name, *pair) for name in table for pair in table[name]]


@pytest.mark.parametrize(("name", "answer", "target"), pairs(RIGHT))
def test_right_answers(name: str, answer: object, target: object):
    assert READY[name](answer, target) is True


@pytest.mark.parametrize(("name", "answer", "target"), pairs(WRONG))
def test_wrong_answers(name: str, answer: object, target: object):
    assert READY[name](answer, target) is False
