"""Plain data goes in and comes out the same, whatever it is; everything else is refused."""

from __future__ import annotations

import math
from typing import Any

import msgpack
import pytest
from hypothesis import given, strategies as st

from appl.tracing.format import codec

texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=20)
)
keys = texts | st.integers() | st.booleans() | st.none() | st.tuples(texts, st.integers())
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
    ),
    max_leaves=20,
)


def there_and_back(value: Any) -> Any:
    (found,) = codec.unpack(codec.pack(codec.plain(value)))
    return codec.revive(found)


def typed(value: Any) -> Any:
    """*value* with its types made visible: 1, 1.0 and True differ."""
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    if isinstance(value, dict):
        return [(typed(key), typed(item)) for key, item in value.items()]
    return type(value), repr(value)


@given(values)
def test_plain_data_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    assert typed(there_and_back(value)) == typed(value)


@pytest.mark.parametrize(
    "value",
    ["\ud800", "a\x00b", "\ud83d\ude00 \udc80", 2**70, -(2**200), math.inf, -math.inf, b"\xff", "\u2028", 2**63, -(2**63) - 1,
     {"$int": "0x1"}, {"$blob": [1, 2, True]}, {1: "a"}, {(1, 2): ("a",)}, {"": 1}, "x" * 3_000_000],
)  # fmt: skip
def test_difficult_values_survive(value: Any) -> None:
    assert typed(there_and_back(value)) == typed(value)


def test_nan_survives() -> None:
    assert math.isnan(there_and_back(math.nan))


@pytest.mark.parametrize("value", [object(), {1, 2}, print, range(3), [object()], {"a": {2}}])
def test_what_is_not_plain_data_is_refused_with_its_type(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be recorded"):
        codec.plain(value)


def test_deep_nesting_is_refused() -> None:
    value: Any = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(ValueError, match="deep"):
        codec.plain(value)


@pytest.mark.parametrize(
    "data",
    [
        msgpack.packb(msgpack.ExtType(5, b"x")),
        msgpack.packb(msgpack.Timestamp(1)),
        b"\xdd\xff\xff\xff\xff",  # an array that claims 2**32 - 1 items
        b"\xdf\x7f\xff\xff\xff",
        b"\x91" * 4000,  # nested 4,000 deep
        b"\xc1",
        b"\xa5ab",
        b"\x81\x01\x02",  # a map whose key is no string
    ],
)
def test_hostile_bytes_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        for value in codec.unpack(data):
            codec.revive(value)


@given(st.binary(max_size=200))
def test_any_bytes_are_data_or_a_value_error(data: bytes) -> None:
    try:
        for value in codec.unpack(data):
            codec.revive(value)
    except ValueError:
        pass


@pytest.mark.parametrize("size", range(1, 41))
def test_a_record_that_is_cut_off_is_named_wherever_it_is_cut(size: int) -> None:
    whole = codec.pack(["S", 70_000, 1.5, b"bytes", {"key": ["a text", None]}, "\u00e9"])
    assert len(whole) == 41 and len(list(codec.unpack(whole + whole))) == 2
    for data in (whole[:size], whole + whole[:size]):
        with pytest.raises(ValueError, match="the last record is cut off"):
            list(codec.unpack(data))
