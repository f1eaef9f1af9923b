"""What a model writes reaches a function only when it is valid, as another validator judges it."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import sys
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema_rs
import pydantic
import pytest
import typing_extensions

from appl import SchemaTool, Secret, Tool, as_tool, gen
from appl.backend import Response, Sample
from appl.prompt import ToolCall
from appl.testing import Log, Scripted, running

from .fuzz import Writer


class Colour(enum.Enum):
    RED = "red"
    ONE = 1


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: float = 0.5


class Node(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1, max_length=20)
    children: list[Node] = []


class Closed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    kind: Literal["a", "b", 3]
    at: datetime.datetime | None = None


class Table(typing_extensions.TypedDict):
    rows: typing_extensions.NotRequired[list[list[int]]]
    name: str


REACHED: list[dict[str, Any]] = []


def reached(**given: Any) -> str:
    REACHED.append(given)
    return "ok"


def search(
    query: str, limit: int = 5, api_key: str = "", unit: str = "m", *, exact: bool | None = None
) -> str:
    assert api_key == "hush-hush" and unit == "km"
    assert type(query) is str and type(limit) is int and type(exact) in (bool, type(None))
    return reached(query=query)


def paint(what: Point, colour: Colour, level: Level = Level.LOW, how: Literal["wet", 1] = 1) -> str:
    assert type(what) is Point and type(what.x) is int and type(what.y) is float
    assert type(colour) is Colour and type(level) is Level and how in ("wet", 1)
    return reached(what=what)


def plant(root: Node, closed: Closed, more: list[Closed] = []) -> str:  # noqa: B006
    assert type(root) is Node and type(closed) is Closed and all(type(m) is Closed for m in more)
    return reached(root=root)


def mix(
    number: Annotated[float, pydantic.Field(ge=0, lt=1e6)],
    code: Annotated[str, pydantic.Field(pattern=r"^[a-z]{2}-\d{2}$")],
    tags: set[str],
    pair: tuple[int, str],
    table: dict[str, int],
    either: int | str | None,
    typed: Table,
    /,
    anything: Any = None,
) -> str:
    assert type(number) is float and 0 <= number < 1e6 and type(tags) is set
    assert type(pair) is tuple and [*map(type, pair)] == [int, str]
    assert all(type(k) is str and type(v) is int for k, v in table.items())
    assert type(either) in (int, str, type(None)) and isinstance(typed, dict)
    return reached(number=number)


def moment(
    day: datetime.date, at: datetime.datetime, price: decimal.Decimal, key: uuid.UUID | None = None
) -> str:
    assert type(day) is datetime.date and type(at) is datetime.datetime
    assert price.is_finite() and type(key) in (uuid.UUID, type(None))
    return reached(day=day)


def nothing() -> str:
    return reached()


WRITTEN = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "pattern": "^[a-z/]*$", "maxLength": 30},
        "mode": {"enum": ["r", "w", 0, None]},
        "size": {"type": "integer", "minimum": 0, "maximum": 10},
        "parts": {
            "type": "array",
            "items": {"anyOf": [{"type": "number"}, {"type": "object", "required": ["a"]}]},
            "minItems": 1,
        },
    },
    "required": ["path", "mode"],
}
TOOLS: list[Tool] = [
    as_tool(search, api_key=Secret("hush-hush"), unit="km"),
    *map(as_tool, (paint, plant, mix, moment, nothing)),
    SchemaTool({"name": "written", "parameters": WRITTEN}, lambda **given: reached(**given)),
]
ORACLES = {tool.name: jsonschema_rs.Draft202012Validator(tool.parameters) for tool in TOOLS}


def allowed(name: str, text: str) -> bool:
    """Whether the announced schema allows *text*, and the tool was told of every name in it."""
    if not text.strip():
        text = "{}"
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        value = json.loads(text, parse_constant=_refused)
        known = TOOLS_BY_NAME[name].parameters.get("properties", {})
        return (
            isinstance(value, dict) and set(value) <= set(known) and ORACLES[name].is_valid(value)
        )
    except (ValueError, RecursionError):
        return False
    finally:
        sys.set_int_max_str_digits(before)


TOOLS_BY_NAME = {tool.name: tool for tool in TOOLS}


def _refused(name: str) -> Any:
    raise ValueError(name)


def fuzzed(seed: int, count: int, batch: int = 100) -> Counter[str]:
    """Have *count* calls written and run; what became of them, by kind."""
    writer, sums = Writer(seed), Counter[str]()
    for start in range(0, count, batch):
        calls = []
        for number in range(start, min(start + batch, count)):
            tool = writer.dice.choice(TOOLS)
            name = tool.name if writer.dice.random() > 0.03 else writer.dice.choice(["", "x/../y"])
            calls.append(ToolCall(f"c{number}", name, writer.text(tool.parameters)))
        answer = Response((Sample("", "tool_calls", tool_calls=tuple(calls)),))
        REACHED.clear()
        with running(Scripted([answer]), instruments=[log := Log()]):
            results = gen(messages="go", tools=TOOLS).run_tool_calls(
                parallel=writer.dice.random() < 0.2
            )
        assert [m.tool_call_id for m in results] == [call.id for call in calls]
        for call, result in zip(calls, results, strict=True):
            sums[_judged(call, result)] += 1
        assert len(REACHED) == sum(not m.has_error for m in results)
        assert "hush-hush" not in repr(log.events) + repr(results)
    return sums


def _judged(call: ToolCall, result: Any) -> str:
    """What became of a call; a wrong call that reached its function fails the test."""
    if call.name not in TOOLS_BY_NAME:
        assert result.has_error and result.content.startswith("there is no tool")
        return "unknown tool"
    valid = allowed(call.name, call.arguments)
    if result.has_error:
        assert result.content.startswith(f"{call.name} was not called: "), result.content
        return "refused, though the schema allows it" if valid else "refused"
    assert result.content == "ok"
    assert valid, f"{call.name} was called with {call.arguments!r:.500}"
    return "reached"


@pytest.mark.parametrize("seed", range(2))
def test_only_valid_arguments_reach_a_function(seed):
    sums = fuzzed(seed, 1000)
    assert sums["reached"] > 100 and sums["refused"] > 300


@pytest.mark.long
def test_only_valid_arguments_reach_a_function_20000_times():
    total = Counter[str]()
    for seed in range(100, 110):
        total += fuzzed(seed, 2000)
    print(f"{total.total()} calls with arguments from 10 seeds, {len(TOOLS)} tools")
    for kind, count in total.most_common():
        print(f"  {count:6}  {kind}")
    print("  none reached a function that the schema does not allow; none crashed")
    assert total.total() == 20_000
