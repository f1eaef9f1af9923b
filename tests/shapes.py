"""Random types and JSON schemas, each with values of it, for the tests of typed answers."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, make_dataclass
from enum import Enum
from typing import Annotated, Any, Literal

from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, create_model
from typing_extensions import TypedDict

NAMES = ("name", "why", "answer", "z", "a b")
WORDS = ("red", "green", "dark blue")
_count = itertools.count()


@dataclass(frozen=True)
class Typed:
    """A type, and plain data that is of it."""

    kind: Any
    value: Any

    @property
    def object(self) -> Any:
        return TypeAdapter(self.kind).validate_json(self.text)

    @property
    def text(self) -> str:
        return json.dumps(self.value, ensure_ascii=False)


def _each(kind: Any, values: Any) -> st.SearchStrategy[Typed]:
    return st.builds(Typed, st.just(kind), values)


Small = Annotated[int, Field(ge=0, le=99)]
Short = Annotated[str, Field(max_length=4)]
Color = Enum("Color", {word.replace(" ", "_"): word for word in WORDS})

scalars = st.one_of(
    _each(Small, st.integers(0, 99)),
    _each(bool, st.booleans()),
    _each(Literal["red", "green"], st.sampled_from(WORDS[:2])),
    _each(Color, st.sampled_from(WORDS)),
    _each(Small | None, st.none() | st.integers(0, 99)),
    _each(Literal[1, 2, None], st.sampled_from([1, 2, None])),
)
texts = _each(Short, st.text(max_size=4).filter(lambda text: text.isprintable()))


def _fields(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[list[tuple[str, Typed]]]:
    return st.lists(
        st.tuples(st.sampled_from(NAMES[:4]), inner),
        min_size=1,
        max_size=3,
        unique_by=lambda f: f[0],
    )


def _record(fields: list[tuple[str, Typed]], how: str) -> Typed:
    name, kinds = f"Made{next(_count)}", [(field, each.kind) for field, each in fields]
    if how == "model":
        kind: Any = create_model(name, **{field: (each, ...) for field, each in kinds})  # type: ignore[call-overload]
    elif how == "dataclass":
        kind = make_dataclass(name, kinds)
    else:
        make: Any = TypedDict
        kind = make(name, dict(kinds))
    return Typed(kind, {field: each.value for field, each in fields})


def _listed(one: Typed, times: int) -> Typed:
    return Typed(Annotated[list[one.kind], Field(max_length=2)], [one.value] * times)  # type: ignore[name-defined]


def _grown(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        st.builds(_record, _fields(inner), st.sampled_from(["model", "dataclass", "typed dict"])),
        st.builds(_listed, inner, st.integers(0, 2)),
        st.builds(
            lambda one, two: Typed(tuple[one.kind, two.kind], [one.value, two.value]), inner, inner
        ),
    )


types = st.recursive(scalars | texts, _grown, max_leaves=5).filter(
    lambda typed: typed.kind is not Short
)
"""Types with a value each; a plain text is none, as every answer is of it."""


def _object(properties: dict[str, tuple[Any, Any]], required: int) -> tuple[Any, Any]:
    schema = {
        "type": "object",
        "properties": {name: each[0] for name, each in properties.items()},
        "required": list(properties)[:required],
    }
    return schema, {name: each[1] for name, each in properties.items()}


_schema_scalars = st.one_of(
    st.tuples(st.just({"type": "integer", "minimum": 0, "maximum": 9}), st.integers(0, 9)),
    st.tuples(st.just({"type": "boolean"}), st.booleans()),
    st.tuples(st.just({"enum": [1, "one", None]}), st.sampled_from([1, "one", None])),
    st.tuples(st.just({"const": "fixed"}), st.just("fixed")),
    st.tuples(st.just({"type": ["null", "boolean"]}), st.sampled_from([None, True])),
    st.tuples(st.just({"type": "string", "maxLength": 3, "not": {"const": "no"}}), st.sampled_from(["", "ab"])),
    st.tuples(
        st.just({"oneOf": [{"type": "integer", "maximum": 3, "minimum": 0}, {"type": "null"}]}),
        st.sampled_from([0, 3, None]),
    ),
)  # fmt: skip

schemas = st.recursive(
    _schema_scalars,
    lambda inner: st.one_of(
        st.builds(_object, st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3), st.integers(0, 3)),
        inner.map(lambda pair: ({"type": "array", "items": pair[0], "maxItems": 2}, [pair[1]])),
    ),
    max_leaves=4,
).filter(lambda pair: pair[0].get("type") in ("object", "array"))  # fmt: skip
"""JSON schemas of objects and arrays, with a value each."""
