"""``gen_with_tools``: asked until it stops calling, as one future that never blocks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from appl import AIRole, UserMessage, convo, gen, gen_with_tools, map, ppl
from appl.backend import Request, Response, Usage
from appl.errors import (
    BackendError,
    InvalidOption,
    ToolError,
    ToolLoopError,
    UnknownOption,
    Unsupported,
)
from appl.testing import Echo, Held, Scripted, Seeded, calling, response, running
from appl.tracing import Trace

from .support import again, recorded, script, tools_of


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def counting(request: Request) -> Response:
    """Adds 1 to what the tool said last, until that is 3."""
    last = request.messages.message if request.messages else None
    if last is None or last.role != "tool":
        return calling(("add", {"a": 0, "b": 1}))
    if last.content == "3":
        return response("three")
    return calling(("add", {"a": int(last.content), "b": 1}))


def test_it_asks_until_there_is_an_answer():
    with running(Scripted(counting)) as backend:
        answer = gen_with_tools(messages="count", tools=[add])
        assert str(answer) == "three"
    assert answer.call_id == "/gen_with_tools.0"
    assert [r.address for r in backend.requests] == [f"/gen_with_tools.0/gen.{n}" for n in range(4)]
    assert [m.role for m in backend.requests[-1].messages or ()] == [
        "user", *["assistant", "tool"] * 3,
    ]  # fmt: skip


def test_an_answer_without_calls_is_the_answer():
    with running(script("at once")) as backend:
        assert gen_with_tools(messages="x", tools=add) == "at once"
    assert len(backend.requests) == 1


def test_it_does_not_block_the_program():
    backend = Held(counting)

    @ppl
    def f() -> Any:
        "count"
        first = gen_with_tools(tools=[add])
        second = gen_with_tools(tools=[add])
        assert not first.done()
        return first, second

    with running(Seeded(3, counting)):
        first, second = f()
        assert (str(first), str(second)) == ("three", "three")
    assert backend.requests == []


def test_usage_is_that_of_all_steps():
    def counted(request: Request) -> Response:
        made = counting(request)
        return Response(made.samples, Usage(10, 2, None), cost=5)

    with running(Scripted(counted)):
        answer = gen_with_tools(messages="count", tools=[add])
        assert (answer.usage, answer.cost) == (Usage(40, 8, None), 20)


@ppl
def said(how: str) -> Any:
    "count"
    if how == "statement":
        gen_with_tools(tools=[add])
    elif how == "text":
        f"<{gen_with_tools(tools=[add])}>"
    elif how == "role":
        with AIRole():
            f"So: {gen_with_tools(tools=[add])}"
    else:
        _ = gen_with_tools(tools=[add])
    "next"
    return gen()


def asked(backend: Scripted) -> list[tuple[str, str]]:
    (last,) = (r.messages for r in backend.requests if r.address == "/said.0/gen.0")
    return [(m.role, m.shown) for m in last or ()]


@pytest.mark.parametrize("sequential", [False, True])
def test_as_a_statement_it_says_calls_results_and_answer(sequential):
    def answer(request: Request) -> Response:
        last = request.messages.message if request.messages else None
        return response("end") if last and last.content == "next" else counting(request)

    with running(Scripted(answer), sequential=sequential) as backend:
        str(said("statement"))
    assert asked(backend) == [
        ("user", "count"),
        ("assistant", '[call call_0: add({"a": 0, "b": 1})]'),
        ("tool", "1"),
        ("assistant", '[call call_0: add({"a": 1, "b": 1})]'),
        ("tool", "2"),
        ("assistant", '[call call_0: add({"a": 2, "b": 1})]'),
        ("tool", "3"),
        ("assistant", "three"),
        ("user", "next"),
    ]


@pytest.mark.parametrize(
    ("how", "messages"),
    [
        ("text", [("user", "count\n<three>\nnext")]),
        ("role", [("user", "count"), ("assistant", "So: three"), ("user", "next")]),
        ("not at all", [("user", "count\nnext")]),
    ],
)
def test_elsewhere_it_is_the_text_of_the_answer(how, messages):
    def answer(request: Request) -> Response:
        last = request.messages.message if request.messages else None
        return response("end") if last and "next" in last.content else counting(request)

    with running(Scripted(answer)) as backend:
        str(said(how))
    assert asked(backend) == messages


def test_the_prompt_of_the_caller_stays_as_it_is():
    @ppl
    def f() -> Any:
        "count"
        answer = gen_with_tools(tools=[add])
        return str(answer), len(convo())

    with running(Scripted(counting)):
        assert f() == ("three", 1)


def test_explicit_messages_begin_a_conversation_of_its_own():
    with running(Scripted(counting)) as backend:
        str(
            gen_with_tools(messages=[UserMessage("a"), {"role": "user", "content": "b"}], tools=add)
        )
    assert [m.content for m in backend.requests[0].messages or ()] == ["a", "b"]
    assert [m.content for m in backend.requests[-1].messages or ()][:2] == ["a", "b"]


def test_a_choice_holds_for_the_first_step_only():
    with running(Scripted(counting)) as backend:
        str(gen_with_tools(messages="x", tools=[add], tool_choice="required"))
    assert [r.sampling.tool_choice for r in backend.requests] == ["required", None, None, None]


def test_a_model_that_never_stops_is_stopped():
    runs: list[int] = []

    def add(a: int, b: int) -> int:
        runs.append(a)
        return 0

    with running(Scripted(counting)), pytest.raises(ToolLoopError) as caught:
        str(gen_with_tools(messages="x", tools=[add], max_steps=3))
    assert "still calls tools (add) at step 3, the last one: raise max_steps" in str(caught.value)
    assert len(runs) == 2


def test_at_the_limit_it_can_be_made_to_answer():
    def answer(request: Request) -> Response:
        return response("ok") if request.sampling.tool_choice == "none" else counting(request)

    with running(Scripted(answer)) as backend:
        assert gen_with_tools(messages="x", tools=add, max_steps=2, on_limit="answer") == "ok"
    assert [r.sampling.tool_choice for r in backend.requests] == [None, None, "none"]
    assert [m.content for m in backend.requests[-1].messages or () if m.role == "tool"] == [
        "1",
        "2",
    ]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"tools": []}, InvalidOption, "needs at least one tool"),
        ({"tools": [5]}, ToolError, "a tool is a function"),
        ({"max_steps": 0}, InvalidOption, "max_steps"),
        ({"on_limit": "stop"}, InvalidOption, "it is 'raise' or 'answer'"),
        ({"n": 2}, Unsupported, "write the loop with gen"),
        ({"stream": True}, Unsupported, "write the loop with gen"),
        ({"temprature": 1}, UnknownOption, "did you mean 'temperature'"),
        ({"tool_timeout": -1}, InvalidOption, "tool_timeout"),
    ],
)
def test_impossible_options_are_refused_at_once(wrong, error, words):
    with running(Echo()) as backend, pytest.raises(error, match=words):
        gen_with_tools(**{"messages": "x", "tools": [add], **wrong})
    assert backend.requests == []


def test_a_failed_call_fails_the_whole():
    backend = Scripted([calling(("add", {"a": 1, "b": 1})), BackendError("down")])
    with running(backend), pytest.raises(BackendError, match="down"):
        str(gen_with_tools(messages="x", tools=[add]))


def test_a_failing_tool_is_told_to_the_model():
    def fail() -> None:
        raise RuntimeError("no luck")

    with running(script(calling(("fail", {})), "sorry")) as backend:
        assert gen_with_tools(messages="x", tools=[fail]) == "sorry"
    last = backend.requests[-1].messages
    assert last and last.message.content == "fail failed: RuntimeError: no luck"


def test_the_answer_may_be_typed():
    with running(Scripted(lambda r: "41" if len(r.messages) > 2 else counting(r))):
        answer = gen_with_tools(messages="count", tools=[add], response_format=int)
        assert answer + 1 == 42
        assert answer.response_obj == 41


async def test_in_a_coroutine_it_is_awaited():
    async def slow_add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    slow_add.__name__ = "add"

    @ppl
    async def f() -> Any:
        "count"
        (answer := gen_with_tools(tools=[slow_add]))
        return await answer

    with running(Scripted(counting)):
        assert await f() == "three"
        assert await asyncio.gather(f(), f()) == ["three", "three"]


def test_cancelling_it_cancels_what_it_asks():
    backend = Held(counting)
    with running(backend):
        answer = gen_with_tools(messages="x", tools=[add])
        answer.cancel()
    assert answer.done()


def test_its_steps_are_replayed(tmp_path):
    path, runs = tmp_path / "a.trace", []

    def add(a: int, b: int) -> int:
        runs.append(a)
        return a + b

    @ppl
    def agent(n: int) -> Any:
        f"{n}"
        return gen_with_tools(tools=[add])

    def f() -> list[str]:
        return [str(each) for each in map(agent, range(3))]

    assert recorded(path, Seeded(1, counting), f) == ["three"] * 3
    assert again(path, f) == ["three"] * 3
    assert len(runs) == 9
    assert all("/gen_with_tools.0/add." in address for address, _, _ in tools_of(path))


def test_a_tool_may_be_an_agent_itself():
    @ppl
    def inner(question: str) -> Any:
        f"{question}"
        return gen_with_tools(tools=[add])

    def answer(request: Request) -> Response:
        first = next(iter(request.messages or ()))
        if first.content == "outer":
            last = request.messages.message if request.messages else first
            return response(last.content) if last.role == "tool" else calling(
                ("inner", {"question": "count"})
            )  # fmt: skip
        return counting(request)

    with running(Scripted(answer)) as backend:
        assert gen_with_tools(messages="outer", tools=[inner]) == "three"
    addresses = {r.address for r in backend.requests}
    assert "/gen_with_tools.0/inner.0/inner.0/gen_with_tools.0/gen.3" in addresses


def test_plain_text_around_it_waits_where_it_is_needed():
    with running(Scripted(counting)):
        assert f"{gen_with_tools(messages='x', tools=[add])}!" == "three!"
        assert gen(messages="x", tools=[add]).tool_calls


def test_every_step_is_recorded_with_the_line_of_the_program(tmp_path):
    path = tmp_path / "a.trace"
    recorded(path, Scripted(counting), lambda: str(gen_with_tools(messages="x", tools=[add])))
    lines = {call.where for call in Trace.open(path).calls}
    assert len(lines) == 1 and lines.pop().startswith(f"{__file__}:")


def test_a_slip_in_an_option_of_the_loop_names_the_nearest():
    def look() -> str:
        return "seen"

    with (
        running(Echo()),
        pytest.raises(UnknownOption, match="'max_stps'; did you mean 'max_steps'"),
    ):
        gen_with_tools(tools=[look], messages="x", max_stps=3)
