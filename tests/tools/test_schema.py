"""What a model is told of a function: name, description, parameters."""

from __future__ import annotations

import datetime
import enum
import functools
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
import pytest

from appl import SchemaTool, Secret, Tool, as_tool, as_tool_choice, gen, ppl
from appl.errors import InvalidOption, ToolError


def properties(f: Any, **fixed: Any) -> dict[str, Any]:
    return as_tool(f, **fixed).parameters["properties"]


def google(w: float, h: float = 1.0) -> float:
    """Area of a rectangle.

    For any unit.

    Args:
        w: The width,
            in metres.
        h (float, optional): The height.

    Returns:
        float: The area.
    """
    return w * h


def numpy(w: float, h: float = 1.0) -> float:
    """Area of a rectangle.

    For any unit.

    Parameters
    ----------
    w : float
        The width,
        in metres.
    h : float, optional
        The height.

    Returns
    -------
    float
        The area.
    """
    return w * h


def sphinx(w: float, h: float = 1.0) -> float:
    """Area of a rectangle.

    For any unit.

    :param w: The width,
        in metres.
    :param float h: The height.
    :returns: The area.
    """
    return w * h


@pytest.mark.parametrize("f", [google, numpy, sphinx])
def test_three_styles_of_docstrings_say_the_same(f):
    assert as_tool(f).schema() == {
        "name": f.__name__,
        "description": "Area of a rectangle.\n\nFor any unit.",
        "parameters": {
            "type": "object",
            "properties": {
                "w": {"type": "number", "description": "The width, in metres."},
                "h": {"type": "number", "description": "The height.", "default": 1.0},
            },
            "required": ["w"],
        },
    }


def test_a_function_that_says_nothing_is_described_by_its_signature():
    def now(): ...

    assert as_tool(now).schema() == {
        "name": "now",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    }


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(pydantic.BaseModel):
    """Somewhere."""

    city: str = pydantic.Field(description="its name")
    floor: int = 0


@dataclass
class Point:
    x: int
    y: float = 0.5


def test_annotations_become_types():
    def f(
        city: str, unit: Unit, days: int | None = None, kind: Literal["a", "b"] = "a",
        at: datetime.date | None = None, tags: list[str] = (), table: dict[str, int] | None = None,
        pair: tuple[int, str] = (1, "x"), *, exact: bool = False, anything: Any = None,
    ): ...  # fmt: skip

    found = properties(f)
    null = {"type": "null"}
    assert list(found) == [
        "city", "unit", "days", "kind", "at", "tags", "table", "pair", "exact", "anything",
    ]  # fmt: skip
    assert found["days"] == {"anyOf": [{"type": "integer"}, null], "default": None}
    assert found["kind"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert found["at"]["anyOf"] == [{"type": "string", "format": "date"}, null]
    assert found["tags"] == {"type": "array", "items": {"type": "string"}, "default": []}
    assert found["table"]["anyOf"][0]["additionalProperties"] == {"type": "integer"}
    assert found["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert found["exact"] == {"type": "boolean", "default": False}
    assert found["anything"] == {"default": None}
    assert as_tool(f).parameters["$defs"]["Unit"]["enum"] == ["celsius", "fahrenheit"]
    assert as_tool(f).parameters["required"] == ["city", "unit"]


def test_models_and_dataclasses_nest():
    def f(place: Place, path: list[Point]): ...

    definitions = as_tool(f).parameters["$defs"]
    assert definitions["Place"]["description"] == "Somewhere."
    assert definitions["Place"]["properties"]["city"]["description"] == "its name"
    assert definitions["Point"] == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.5}},
        "required": ["x"],
    }


def test_types_may_stand_in_the_docstring():
    def f(a, b, c, d, e):
        """F.

        Args:
            a (int): one
            b (list of str): two
            c (float or None): three
            d (sqlite3.Connection): nothing a model can write
            e: five
        """

    assert properties(f) == {
        "a": {"type": "integer", "description": "one"},
        "b": {"type": "array", "description": "two", "items": {"type": "string"}},
        "c": {"description": "three", "anyOf": [{"type": "number"}, {"type": "null"}]},
        "d": {"description": "nothing a model can write"},
        "e": {"description": "five"},
    }


def test_a_remark_in_the_annotation_describes_a_parameter():
    def f(
        a: Annotated[int, "how many"], b: Annotated[str, pydantic.Field(description="own", min_length=2)]
    ):  # fmt: skip
        """F.

        Args:
            a: from the docstring
            b: from the docstring
        """

    assert properties(f)["a"] == {"type": "integer", "description": "how many"}
    assert properties(f)["b"] == {"type": "string", "description": "own", "minLength": 2}


def test_annotations_as_text_are_looked_up_where_the_function_is_defined():
    class Local(enum.Enum):
        A = "a"

    def f(x: Local, y: list[Point]):
        return Local, x

    assert as_tool(f).parameters["$defs"]["Local"]["enum"] == ["a"]

    def g(x: Nowhere): ...  # noqa: F821

    with pytest.raises(ToolError, match="annotation of 'x' names 'Nowhere', which is not known"):
        as_tool(g)


class Shop:
    def __init__(self, price: int) -> None:
        self.price = price

    def cost(self, count: int) -> int:
        """What some cost."""
        return self.price * count

    @classmethod
    def named(cls, name: str) -> str: ...

    @staticmethod
    def tax(amount: float) -> float: ...

    def __call__(self, count: int) -> int:
        """Buy some."""
        return count


def test_methods_objects_and_partials_are_functions_too():
    assert as_tool(Shop(3).cost).schema()["name"] == "cost"
    assert list(properties(Shop(3).cost)) == ["count"]
    assert list(properties(Shop.named)) == ["name"]
    assert list(properties(Shop.tax)) == ["amount"]
    buy = as_tool(Shop(3))
    assert (buy.name, buy.description, list(buy.parameters["properties"])) == (
        "Shop", "Buy some.", ["count"],
    )  # fmt: skip
    half = as_tool(functools.partial(google, h=0.5))
    assert half.name == "google" and list(half.parameters["properties"]) == ["w"]
    assert half.invoke({"w": 4.0}) == 2.0


def test_a_prompt_function_is_described_by_what_was_written():
    @ppl
    def ask(question: str) -> str:
        """Ask somebody.

        Args:
            question: what to ask
        """

    tool = as_tool(ask)
    assert tool.effect == "program" and tool.description == "Ask somebody."
    assert tool.parameters["properties"]["question"]["description"] == "what to ask"


def test_what_is_predefined_is_neither_seen_nor_set():
    def search(query: str, key: str, limit: int = 5) -> str:
        """Search.

        Args:
            query: what
            key: the secret key
            limit: how many
        """
        return f"{query}:{key}:{limit}"

    tool = as_tool(search, key=Secret("hush-hush"), limit=3)
    assert list(tool.parameters["properties"]) == ["query"]
    assert "key" not in tool.text and "hush" not in repr(tool)
    assert tool.invoke(tool.reader.read('{"query": "x"}')) == "x:hush-hush:3"
    with pytest.raises(ValueError, match='unknown argument "key" \\(it takes query\\)'):
        tool.reader.read('{"query": "x", "key": "mine"}')
    again = as_tool(as_tool(search, key=Secret("hush-hush")), limit=1)
    assert list(again.parameters["properties"]) == ["query"]


def test_a_secret_shows_nowhere_but_to_who_asks():
    secret = Secret("hush-hush")
    assert f"{secret} {secret!r} {secret:>5}" == "*** Secret(***) ***"
    assert secret.reveal() == "hush-hush"
    with pytest.raises(TypeError, match="cannot be pickled"):
        __import__("pickle").dumps(secret)
    with pytest.raises(InvalidOption, match="at least 4 characters, got a text of 3"):
        Secret("abc")


def test_names_and_descriptions_can_be_given():
    tool = as_tool(google, name="area", description="A times B")
    assert (tool.name, tool.description) == ("area", "A times B")
    assert tool.renamed("size").schema()["name"] == "size"

    def named(name: str, size: int): ...

    assert list(as_tool(named, predefined={"name": "x"}).parameters["properties"]) == ["size"]
    with pytest.raises(ToolError, match="'name', which is also an option of as_tool"):
        as_tool(named, name="x")


def variadic(*args: int): ...
def open_ended(**kwargs: int): ...
def generator():
    yield 1


async def agenerator():
    yield 1


def takes_a_callback(f: functools.partial[int], n: int): ...
@ppl
def chat():
    yield


@ppl(ctx="same")
def aloud(question: str):
    f"{question}"


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (aloud, "says its text in its caller's prompt, ctx='same'"),
        (variadic, r"takes \*args, which cannot be described"),
        (open_ended, r"takes \*\*kwargs, which cannot be described"),
        (generator, "is a generator"),
        (agenerator, "is a generator"),
        (chat, "is a generator"),
        (Shop.cost, "is a method without its object"),
        (takes_a_callback, r"no model can write a .*partial.*'f' takes; set it yourself"),
        (lambda x: x, "is no name for a tool"),
        (5, "a tool is a function"),
    ],
)
def test_what_cannot_be_told_to_a_model_is_refused(f, said):
    with pytest.raises(ToolError, match=said):
        as_tool(f)


def test_an_unknown_predefined_parameter_is_refused():
    with pytest.raises(ToolError, match=r"google has no parameter 'width' to predefine .*w, h"):
        as_tool(google, width=1)


def test_a_schema_can_be_given_instead():
    schema = {
        "name": "find",
        "description": "Find it.",
        "parameters": {
            "type": "object",
            "properties": {"q": {"type": "string"}},
            "required": ["q"],
        },
    }
    tool = SchemaTool(schema, lambda q: f"found {q}")
    assert isinstance(tool, Tool) and tool.schema() == schema
    assert SchemaTool({"type": "function", "function": schema}).schema() == schema
    assert tool.invoke(tool.reader.read('{"q": "x"}')) == "found x"
    for wrong in ('{"q": 5}', "{}", '{"q": "x", "other": 1}'):
        with pytest.raises(ValueError):
            tool.reader.read(wrong)
    with pytest.raises(ToolError, match=r"the parameters of bad: .*no JSON schema"):
        SchemaTool({"name": "bad", "parameters": {"type": "nothing"}})
    with pytest.raises(ToolError, match="a tool's schema is"):
        SchemaTool({"parameters": {}})


def test_positional_only_parameters_are_given_by_position():
    def f(a: int, b: int = 2, /, *, c: int = 3):
        return a, b, c

    tool = as_tool(f)
    assert tool.invoke(tool.reader.read('{"a": 1, "c": 9}')) == (1, 2, 9)


def test_a_tool_is_still_its_function():
    assert as_tool(google, h=3.0)(2.0) == 6.0


@pytest.mark.parametrize("choice", ["google", google, as_tool(google), as_tool(google).as_dict()])
def test_a_choice_is_a_word_or_a_tool(choice):
    assert as_tool_choice(choice) == "google"


def test_a_choice_that_is_not_there_names_the_nearest():
    with pytest.raises(InvalidOption, match="no such tool; did you mean 'google'"):
        gen(messages="x", tools=[google], tool_choice="gogle")
    with pytest.raises(InvalidOption, match="needs tools: write gen"):
        gen(messages="x", tool_choice="required")
    with pytest.raises(ToolError, match="two tools are called 'google'"):
        gen(messages="x", tools=[google, as_tool(numpy, name="google")])


def test_the_text_of_a_tool_keeps_the_order_of_its_parameters():
    def f(zebra: int, apple: int): ...

    assert as_tool(f).text == (
        '{"name":"f","description":"","parameters":{"type":"object","properties":{"zebra":'
        '{"type":"integer"},"apple":{"type":"integer"}},"required":["zebra","apple"]}}'
    )
