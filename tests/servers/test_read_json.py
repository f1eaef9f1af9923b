"""The JSON of servers: what is read, what is refused, and a number of thousands of digits."""

from __future__ import annotations

import json
import math

import pytest

from appl.backend.check import LEVELS, read_json

ONES = "1" * 5000


@pytest.mark.parametrize(
    "body", ["{}", "[]", '{"a": [1, 2.5, null]}', ' {"a": 1} ', '"x"', "5", "\ud800".join('""')]
)
def test_json_is_read_as_python_reads_it(body: str) -> None:
    assert read_json(body) == json.loads(body)
    if body.isascii():
        assert read_json(body.encode()) == read_json(body.encode("utf-16")) == json.loads(body)


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_of_thousands_of_digits_is_infinite_and_the_rest_is_there(sign: str) -> None:
    body = f'{{"text": "hello", "usage": {{"tokens": {sign}{ONES}, "other": 7}}}}'
    for given in (body, body.encode(), f" {body} "):
        found = read_json(given)
        assert found["text"] == "hello" and found["usage"]["other"] == 7
        assert found["usage"]["tokens"] == float(f"{sign}inf")
    assert math.isinf(read_json("[1e999]")[0])


@pytest.mark.parametrize(
    "body",
    ["", "{", "nothing", '{"a": 1}}', f'{{"a": {ONES}', f'{{"a": {ONES}x}}', b"\xff", "[" * 5000,
     "[" * (LEVELS + 1) + "]" * (LEVELS + 1), f"{'[' * 5000}{ONES}"],
)  # fmt: skip
def test_what_is_no_json_is_a_value_error_and_nothing_else(body: str | bytes) -> None:
    with pytest.raises(ValueError, match="JSON") as caught:
        read_json(body)
    assert type(caught.value) is ValueError and caught.value.__cause__ is None
