"""Typed answers of the embedded model: constrained decoding gives what validates, at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from shapes import Color, schemas, types

from appl import AIRole, gen, ppl
from appl.errors import OutputError, Unsupported
from appl.testing import running
from appl_backends.embedded import Embedded


@pytest.fixture(scope="module")
def shipped() -> Embedded:
    return Embedded(seed=7)


@settings(max_examples=6, deadline=None)
@given(st.lists(types, min_size=4, max_size=4))
def test_an_answer_of_any_type_validates_without_asking_again(
    shipped: Embedded, wanted: Any
) -> None:
    with running(shipped):
        answers = [
            gen(messages="Answer.", response_format=each.kind, max_tokens=300) for each in wanted
        ]
        assert all(answer.result() is not NotImplemented for answer in answers)
        assert all("/ask" not in answer._pending.answered_by()[0] for answer in answers)


@settings(max_examples=5, deadline=None)
@given(st.lists(schemas, min_size=4, max_size=4))
def test_an_answer_of_any_schema_validates(shipped: Embedded, wanted: Any) -> None:
    with running(shipped):
        answers = [
            gen(messages="Answer.", response_format=each[0], max_tokens=300) for each in wanted
        ]
        assert all(isinstance(answer.result(), dict | list) for answer in answers)


def test_the_answer_goes_on_where_the_assistant_was_speaking(shipped: Embedded) -> None:
    @ppl
    def program():
        "What is your favourite colour?"
        with AIRole():
            f"My favourite colour is {(color := gen(response_format=Color))}"
        return color

    with running(shipped):
        assert program().result() in Color


def test_an_answer_that_cannot_end_in_time_says_so(shipped: Embedded) -> None:
    with running(shipped), pytest.raises(OutputError, match="cut by the token limit, max_tokens=3"):
        gen(messages="Go", response_format={"type": "array", "minItems": 50}, max_tokens=3).result()


def test_a_schema_that_nothing_satisfies_is_refused(shipped: Embedded) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 1}},
              "required": ["n"]}  # fmt: skip
    with running(shipped), pytest.raises(Unsupported, match="minimum"):
        gen(messages="Go", response_format=schema).result()
