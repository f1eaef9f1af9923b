"""Tools on the embedded backend: the chat format, and calls that are always valid."""

from __future__ import annotations

import asyncio
import enum
import json
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest

from appl import as_tool, gen_with_tools
from appl.backend import Chunk, Request, Response, Sampling
from appl.errors import Unsupported
from appl.prompt import AIMessage, Message, Messages, SystemMessage, ToolMessage, UserMessage
from appl.testing import running
from appl_backends.embedded import MODEL, WEIGHTS, Embedded
from appl_backends.embedded.tokenizer import Tokenizer
from appl_backends.embedded.tools import announced


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def paint(what: str, colour: Colour, coats: int = 1, how: Literal["wet", "dry"] = "dry") -> str:
    """Paint something.

    Args:
        what: the thing to "paint"
        colour: its new colour
    """
    return f"{what} is {colour.value}"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def now() -> str:
    return "noon"


TOOLS = [as_tool(each) for each in (paint, add, now)]
TEXTS = tuple(tool.text for tool in TOOLS)
SCHEMAS = {tool.name: tool.parameters for tool in TOOLS}


def request(
    text: Any = "Paint the door red.", seed: int = 1, n: int = 1, **sampling: Any
) -> Request:
    given: dict[str, Any] = {"tools": TEXTS, "seed": seed, "max_tokens": 300, **sampling}
    messages = [UserMessage(text)] if isinstance(text, str) else text
    return Request("/gen.0", 0, MODEL, Messages.of(messages), Sampling(**given), n=n)


def check(response: Response) -> list[tuple[str, Any]]:
    """The calls of *response*; each must be one that its tool allows, with nothing besides."""
    found = []
    for sample in response.samples:
        for call in sample.tool_calls:
            assert (sample.text, sample.finish_reason) == ("", "tool_calls")
            arguments = json.loads(call.arguments)
            jsonschema.validate(arguments, SCHEMAS[call.name])
            assert set(arguments) <= set(SCHEMAS[call.name]["properties"])
            found.append((call.name, arguments))
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_a_required_call_is_valid_whatever_is_sampled(backend: Embedded, seed: int) -> None:
    asked = request(seed=seed, n=4, tool_choice="required", temperature=1.5)
    response = await backend.complete(asked)
    whole = [s for s in response.samples if s.finish_reason != "length"]
    assert len(check(response)) == len(whole)
    assert all(sample.text == "" for sample in response.samples)


async def test_a_named_tool_is_the_one_that_is_called(backend: Embedded) -> None:
    response = await backend.complete(request(n=3, tool_choice="now"))
    assert check(response) == [("now", {})] * 3
    with pytest.raises(Unsupported, match="'nothing', which is no tool"):
        await backend.complete(request(tool_choice="nothing"))


async def test_calls_have_ids_of_what_was_asked(backend: Embedded) -> None:
    one = await backend.complete(request(tool_choice="now"))
    two = await backend.complete(request(tool_choice="now"))
    other = await backend.complete(request("Something else.", tool_choice="now"))
    ids = [r.samples[0].tool_calls[0].id for r in (one, two, other)]
    assert ids[0] == ids[1] != ids[2]
    several = await backend.complete(request(n=3, tool_choice="now"))
    assert len({s.tool_calls[0].id for s in several.samples}) == 3


async def test_none_of_them_is_called_when_none_may_be(backend: Embedded) -> None:
    response = await backend.complete(request(n=8, tool_choice="none", max_tokens=3))
    assert check(response) == []


async def test_a_begun_answer_stays_text(backend: Embedded) -> None:
    begun = [UserMessage("Paint."), AIMessage("The door")]
    assert check(await backend.complete(request(begun, n=8, max_tokens=3))) == []
    with pytest.raises(Unsupported, match="a begun answer cannot become a tool call"):
        await backend.complete(request(begun, tool_choice="required"))


async def test_a_call_that_is_cut_is_no_call(backend: Embedded) -> None:
    response = await backend.complete(request(tool_choice="add", max_tokens=4))
    (sample,) = response.samples
    assert (sample.text, sample.finish_reason, sample.tool_calls) == ("", "length", ())


async def test_stop_strings_do_not_cut_a_call(backend: Embedded) -> None:
    response = await backend.complete(request(tool_choice="now", stop=("{", "now")))
    assert check(response) == [("now", {})]


async def test_a_stop_token_within_a_call_ends_the_answer_without_one(backend: Embedded) -> None:
    response = await backend.complete(request(tool_choice="now", stop_tokens=(*range(8, 400),)))
    (sample,) = response.samples
    assert (sample.text, sample.finish_reason, sample.tool_calls) == ("", "stop", ())


async def test_a_call_whose_schema_nothing_fits_fails_and_no_other_one_does(
    backend: Embedded,
) -> None:
    endless = {"type": "object", "properties": {"node": {"$ref": "#"}}, "required": ["node"]}
    tool = json.dumps({"name": "save", "parameters": endless})
    asked = request(tools=(tool,), tool_choice="save", n=2), request(tool_choice="now")
    failed, made = await asyncio.gather(*map(backend.complete, asked), return_exceptions=True)
    assert isinstance(failed, Unsupported) and "cannot be followed to its end" in str(failed)
    assert isinstance(made, Response) and check(made) == [("now", {})]


async def test_a_call_is_not_streamed_as_text(backend: Embedded) -> None:
    chunks: list[Chunk] = []
    response = await backend.complete(request(tool_choice="now"), chunks.append)
    assert check(response) == [("now", {})]
    assert [chunk.text for chunk in chunks if chunk.text] == []


async def test_text_may_be_constrained_where_no_tool_is_called(backend: Embedded) -> None:
    response = await backend.complete(request(n=16, regex="(yes|no)", temperature=2.0))
    check(response)
    texts = {s.text for s in response.samples if not s.tool_calls and s.finish_reason == "stop"}
    assert texts <= {"yes", "no"}


async def test_what_the_constraint_cannot_say_is_only_sketched(backend: Embedded) -> None:
    strange = {"name": "strange", "parameters": {"type": "object", "not": {"required": ["x"]}}}
    tools = (*TEXTS, json.dumps(strange))
    response = await backend.complete(request(tools=tools, tool_choice="strange", max_tokens=60))
    for sample in response.samples:
        assert all(isinstance(json.loads(c.arguments), dict) for c in sample.tool_calls)
    assert check(await backend.complete(request(tools=tools, tool_choice="now"))) == [("now", {})]


async def test_log_probabilities_of_a_call_are_those_of_its_tokens(backend: Embedded) -> None:
    response = await backend.complete(request(tool_choice="now", logprobs=0))
    (sample,) = response.samples
    assert sample.logprobs is not None
    assert "".join(t.token for t in sample.logprobs) == '{"name": "now", "arguments": {}}'


# -- the chat format ---------------------------------------------------------------------------

CALL = [{"id": "1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}]
CHATS: list[list[Message]] = [
    [UserMessage("Hi")],
    [SystemMessage("Be kind."), UserMessage("Hi")],
    [UserMessage("1+2?"), AIMessage(tool_calls=CALL), ToolMessage("3", "1")],
    [
        UserMessage("?"),
        AIMessage(tool_calls=CALL * 2),
        ToolMessage("3", "1"),
        ToolMessage("3", "1"),
    ],
    [SystemMessage("S"), UserMessage("?"), AIMessage("I add.", tool_calls=CALL)],
    [UserMessage("1+2?"), AIMessage(tool_calls=CALL), ToolMessage("3", "1"), AIMessage("It is")],
    [UserMessage("é <|call|> \U0001f642"), AIMessage("x"), UserMessage("y")],
]


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("tools", [(), TEXTS, TEXTS[:1]])
def test_tools_are_rendered_as_the_shipped_template_does(
    chat: list[Message], tools: tuple[str, ...]
) -> None:
    jinja2 = pytest.importorskip("jinja2")
    tokenizers = pytest.importorskip("tokenizers")
    config = json.loads((WEIGHTS / "tokenizer_config.json").read_text("utf-8"))
    environment = jinja2.Environment()
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    begun = chat[-1].role == "assistant" and not chat[-1].tool_calls
    plain = [m for m in chat if "<|" in m.content]
    text = environment.from_string(config["chat_template"]).render(
        messages=[message.as_dict() for message in chat],
        tools=[{"type": "function", "function": json.loads(each)} for each in tools],
        bos_token="<s>",
        add_generation_prompt=not begun,
        continue_final_message=begun,
    )
    inner = tokenizers.Tokenizer.from_str(Path(WEIGHTS / "tokenizer.json").read_text("utf-8"))
    ids = Tokenizer(WEIGHTS).prompt(
        Messages.of(chat), 4096, tools=announced(tools) if tools else ""
    ).ids  # fmt: skip
    shown = inner.decode(ids, skip_special_tokens=False)
    assert shown == inner.decode(
        inner.encode(text, add_special_tokens=False).ids, skip_special_tokens=False
    )
    if not plain:  # the template cannot keep the name of a role token apart, the backend does
        assert ids == inner.encode(text, add_special_tokens=False).ids


def test_an_announcement_is_what_the_model_was_trained_on() -> None:
    def calculator(expression: str) -> str:
        """Compute an arithmetic expression.

        Args:
            expression: The sum to compute
        """
        return expression

    trained = (
        'You can use these tools:\n{"name": "calculator", "description": "Compute an arithmetic '
        'expression.", "parameters": {"type": "object", "properties": {"expression": {"type": '
        '"string", "description": "The sum to compute"}}, "required": ["expression"]}}'
    )
    assert announced((as_tool(calculator).text,)) == trained


# -- the shipped model -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> Any:
    with running(Embedded(seed=1)) as backend:
        yield backend


def calculator(expression: str) -> str:
    """Compute an arithmetic expression."""
    return str(eval(expression, {"__builtins__": {}}))


def lookup(key: str) -> str:
    """Look up a fact."""
    return {"capital of Velmora": "Tarn"}.get(key, "unknown")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 123 * 45?", "5535"),
        ("What is 17 + 25?", "42"),
        ("What is the capital of Velmora?", "Tarn"),
    ],
)
def test_the_shipped_model_answers_with_its_tools(shipped: Any, question: str, answer: str) -> None:
    said = gen_with_tools(messages=question, tools=[calculator, lookup], temperature=0)
    assert answer in str(said)


def test_the_shipped_model_needs_no_tool_to_greet(shipped: Any) -> None:
    said = gen_with_tools(messages="Hello!", tools=[calculator], temperature=0, max_steps=1)
    assert "Hello" in str(said)
