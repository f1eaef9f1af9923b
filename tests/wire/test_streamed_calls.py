"""Tool calls in the pieces that servers send: each shape gives the calls of the whole answer."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from appl.backend import Chunk, Response
from appl.prompt import AIMessage, Messages, ToolCall, ToolMessage, UserMessage
from appl_backends.http.events import EventParser
from appl_backends.openai.answer import ChatReader
from appl_backends.openai.streamed import Assembly
from tests.drawn import counts
from tests.providers.asking import request

OSLO, ROME = '{"city": "Oslo"}', '{"city": "Rome"}'
ASKED = request(tools=('{"name": "weather"}',))
ONE = [("weather", OSLO)]
TWO = [("weather", OSLO), ("weather", ROME)]


def call(
    arguments: Any = None,
    name: str | None = None,
    id: str | None = "-",
    index: Any = "-",
    **more: Any,
) -> dict[str, Any]:
    """A piece of a call; what is not given is missing."""
    function: dict[str, Any] = {} if name is None else {"name": name}
    if arguments is not None:
        function["arguments"] = arguments
    piece = {**more, "function": function}
    piece |= {} if id == "-" else {"id": id}
    return piece if index == "-" else {**piece, "index": index}


def halves(text: str, **about: Any) -> list[dict[str, Any]]:
    return [call(text[:7], **about), call(text[7:], **about)]


SHAPES: dict[str, tuple[list[Any], list[tuple[str, str]]]] = {
    "as OpenAI does": ([call("", "weather", "a", 0), call(OSLO[:5], index=0), call(OSLO[5:], index=0)], ONE),
    "two by index": ([call("", "weather", "a", 0), call(OSLO, index=0), call("", "weather", "b", 1),
                      call(ROME, index=1)], TWO),
    "interleaved": ([call("", "weather", "a", 0), call("", "weather", "b", 1), call(OSLO[:6], index=0),
                     call(ROME[:6], index=1), call(OSLO[6:], index=0), call(ROME[6:], index=1)], TWO),
    "a gap in the indexes": ([call(OSLO, "weather", "a", 0), call(ROME, "weather", "b", 5)], TWO),
    "from 1 on": ([call(OSLO, "weather", "a", 1), call(ROME, "weather", "b", 2)], TWO),
    "in the other order": ([call(ROME, "weather", "b", 1), call(OSLO, "weather", "a", 0)], TWO),
    "each whole": ([call(OSLO, "weather", "a", 0), call(ROME, "weather", "b", 1)], TWO),
    "each whole without index": ([call(OSLO, "weather", "a"), call(ROME, "weather", "b")], TWO),
    "each whole without index and id": ([call(OSLO, "weather"), call(ROME, "weather")], TWO),
    "index 0 for all": ([call(OSLO, "weather", "a", 0), call(ROME, "weather", "b", 0)], TWO),
    "index 0 for all in pieces": ([*halves(OSLO, id="a", index=0, name="weather"),
                                   *halves(ROME, id="b", index=0, name="weather")], TWO),
    "index 0 for all without id": ([call(OSLO, "weather", index=0), call(ROME, "weather", index=0)], TWO),
    "index 0 and other tools": ([call("{}", "time", index=0), call(OSLO, "weather", index=0)],
                                [("time", "{}"), ("weather", OSLO)]),
    "index 0 for all and an id for the second": ([call("{}", "time", "", 0), call(OSLO, "weather", "b", 0)],
                                                 [("time", "{}"), ("weather", OSLO)]),
    "the name in each piece": (halves(OSLO, id="a", index=0, name="weather"), ONE),
    "the name in each piece without id": (halves(OSLO, index=0, name="weather"), ONE),
    "the name in each piece and nothing else": ([*halves(OSLO, name="weather"),
                                                 *halves(ROME, name="weather")], TWO),
    "no index, then pieces": ([call(OSLO[:7], "weather", "a"), call(OSLO[7:])], ONE),
    "no index, the id in each": ([*halves(OSLO, id="a", name="weather"),
                                  *halves(ROME, id="b", name="weather")], TWO),
    "no index, the id null later": ([call(OSLO[:7], "weather", "a"), call(OSLO[7:], id=None),
                                     call(ROME[:7], "weather", "b"), call(ROME[7:], id="")], TWO),
    "an index as text": ([call(OSLO, "weather", "a", "0"), call(ROME, "weather", "b", "1")], TWO),
    "an index that is none": ([call(OSLO, "weather", "a", None), call(ROME, "weather", "b", -1)], TWO),
    "the arguments before the name": ([call(OSLO[:7], None, "a", 0), call(OSLO[7:], index=0),
                                       call(name="weather", index=0)], ONE),
    "the name in pieces": ([call("", "wea", "a", 0), call(None, "ther", index=0), call(OSLO, index=0)], ONE),
    "a whole call twice": ([call(OSLO, "weather", "a", 0), call(OSLO, "weather", "a", 0)], ONE),
    "pieces, then the whole": ([call("", "weather", "a", 0), call(OSLO, index=0),
                                call(OSLO, "weather", "a", 0)], ONE),
    "the object itself": ([call({"city": "Oslo"}, "weather", "a", 0)], ONE),
    "null for no arguments": ([call(None, "time", "a", 0), call("", index=0)], [("time", "{}")]),
    "one id for both": ([call(OSLO, "weather", "a", 0), call(ROME, "weather", "a", 1)], TWO),
}  # fmt: skip


def stream(pieces: list[Any], together: bool = False) -> bytes:
    """The events of an answer that calls; with *together*, all pieces are in one."""
    groups = [pieces] if together else [[piece] for piece in pieces]
    deltas = [
        {"role": "assistant", "content": None},
        *({"tool_calls": each} for each in groups),
        {},
    ]
    ends = [None] * (len(deltas) - 1) + ["tool_calls"]
    events = [
        {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(deltas, ends, strict=True)
    ]
    return (
        b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)
        + b"data: [DONE]\n\n"
    )


def read(body: bytes, cuts: list[int]) -> Response:
    chunks: list[Chunk] = []
    assembly, parser = Assembly(ChatReader(ASKED, "it"), chunks.append), EventParser()
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        for event in parser.feed(body[start:end]):
            assembly.take(event)
    return assembly.response()


def whole(wanted: list[tuple[str, str]]) -> Response:
    """The same calls, not streamed."""
    calls = [call(arguments, name, f"call_{at}") for at, (name, arguments) in enumerate(wanted)]
    choice = {"finish_reason": "tool_calls", "message": {"content": None, "tool_calls": calls}}
    return ChatReader(ASKED, "it").response({"choices": [choice]})


@counts(50, 1_000, "cuts")
@pytest.mark.parametrize("shape", SHAPES)
def test_pieces_give_the_calls_of_the_whole_answer(shape: str, cuts: int) -> None:
    pieces, wanted = SHAPES[shape]
    (right,) = whole(wanted).samples
    draw, body = random.Random(shape), stream(pieces)
    bodies = (
        [body]
        if len({piece.get("index") for piece in pieces}) == 1
        else [body, stream(pieces, True)]
    )
    for _ in range(cuts):
        for each in bodies:
            places = sorted(draw.randrange(len(each) + 1) for _ in range(draw.randint(1, 9)))
            (sample,) = read(each, places).samples
            assert [json.loads(c.arguments) for c in sample.tool_calls] == [
                json.loads(c.arguments) for c in right.tool_calls
            ]
            assert [c.name for c in sample.tool_calls] == [c.name for c in right.tool_calls]
            assert (sample.text, sample.finish_reason) == (right.text, right.finish_reason)
            assert len({c.id for c in sample.tool_calls}) == len(wanted)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_function_call_of_the_first_interface_is_a_call(streamed: bool) -> None:
    legacy = {"name": "weather", "arguments": OSLO}
    if streamed:
        pieces = [{"function_call": {"name": "weather", "arguments": OSLO[:4]}},
                  {"function_call": {"arguments": OSLO[4:]}}, {}]  # fmt: skip
        ends = [None, None, "function_call"]
        body = b"".join(
            f"data: {json.dumps({'choices': [{'delta': d, 'finish_reason': e}]})}\n\n".encode()
            for d, e in zip(pieces, ends, strict=True)
        )
        (sample,) = read(body, []).samples
    else:
        choice = {
            "finish_reason": "function_call",
            "message": {"content": None, "function_call": legacy},
        }
        (sample,) = ChatReader(ASKED, "it").response({"choices": [choice]}).samples
    (found,) = sample.tool_calls
    assert (found.name, found.arguments, sample.finish_reason) == ("weather", OSLO, "tool_calls")
    assert found.id


def test_a_call_has_an_id_that_no_call_of_the_prompt_has() -> None:
    said = [
        UserMessage("q"),
        AIMessage("", tool_calls=[ToolCall("call_0", "f", "{}")]),
        ToolMessage("1", "call_0"),
    ]
    asked = ASKED
    asked.messages = Messages.of(said)
    message = {"content": None, "tool_calls": [call("{}", "f", "call_0"), call("{}", "f", "")]}
    choice = {"finish_reason": "tool_calls", "message": message}
    (sample,) = ChatReader(asked, "it").response({"id": "x", "choices": [choice]}).samples
    assert [c.id for c in sample.tool_calls] == ["call_0_2", "call_x_1"]


def test_many_small_pieces_are_one_call() -> None:
    pieces = [call("}", "weather", index=0) for _ in range(30_000)]
    (found,) = read(stream(pieces, True), []).samples[0].tool_calls
    assert (found.name, len(found.arguments)) == ("weather", 30_000)
