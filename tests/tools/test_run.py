"""Running the calls of a model: what reaches the function, what comes back, and in which order."""

from __future__ import annotations

import asyncio
import datetime
import sys
import threading
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest

from appl import (
    Image,
    SchemaTool,
    Secret,
    ToolMessage,
    as_tool,
    as_tool_choice,
    gen,
    ppl,
    timeout,
)
from appl.errors import RunError, ToolError, Unsupported
from appl.testing import Echo, Held, Run, Scripted, calling, running

from .support import said, script, texts, until_told


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def results(tools: Any, *calls: tuple[str, object], **how: Any) -> list[ToolMessage]:
    with running(script(calling(*calls))):
        return gen(messages="go", tools=tools).run_tool_calls(**how)


# -- what comes back


def test_results_stand_in_the_order_of_the_calls():
    found = results([add], ("add", {"a": 1}), ("add", {"a": 2, "b": 3}))
    assert texts(found) == ["2", "5"]
    assert [m.tool_call_id for m in found] == ["call_0", "call_1"]
    assert not any(m.has_error for m in found)


@dataclass
class Point:
    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (3, "3"),
        (2.5, "2.5"),
        (True, "true"),
        (None, "null"),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
        (Point(1, 2.0), '{"x":1,"y":2.0}'),
        ((1, {2}), "[1,[2]]"),
        (b"\xff", "_w=="),
        (Path("a/b"), "a/b"),
        (datetime.date(2026, 2, 3), "2026-02-03"),
        ([Path("a/b")], '["a/b"]'),
        (types.SimpleNamespace(a=1), "namespace(a=1)"),
        (ToolMessage("own words"), "own words"),
    ],
)
def test_a_result_is_text_or_json(value, text):
    def give():
        return value

    assert texts(results([give], ("give", {}))) == [text]


def test_a_tool_can_say_itself_that_it_failed():
    def look():
        return ToolMessage("nothing there", has_error=True)

    (message,) = results([look], ("look", {}))
    assert (message.content, message.has_error, message.tool_call_id) == (
        "nothing there", True, "call_0",
    )  # fmt: skip


def test_a_tool_may_return_an_image():
    def draw():
        return Image("https://example.org/a.png")

    (message,) = results([draw], ("draw", {}))
    assert [part.url for part in message.parts] == ["https://example.org/a.png"]


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("add", '{"a": "1"}', 'add was not called: a: Input should be a valid integer, got "1"'),
        ("add", "{}", "add was not called: a is missing"),
        ("add", '{"a": 1, "c": 2}', 'add was not called: unknown argument "c" (it takes a, b)'),
        ("add", '{"a": 1', "add was not called: the arguments are not valid JSON: Expecting ',' "),
        ("add", "[1]", "add was not called: the arguments must be one JSON object, got [1]"),
        ("add", '{"a": 1, "a": 2}', 'add was not called: the name "a" stands twice in one object'),
        ("add", '{"a": NaN}', "add was not called: the arguments are not valid JSON: NaN is no JS"),
        ("adb", "{}", "there is no tool \"adb\" (there are: add); did you mean 'add'?"),
    ],
)
def test_a_wrong_call_is_answered_with_what_is_wrong(name, arguments, problem):
    (message,) = results([add], (name, arguments))
    assert message.has_error
    assert message.content.startswith(problem)


def test_an_exception_of_a_tool_is_a_message_that_says_it():
    def fail(why: str):
        raise KeyError(why)

    (message,) = results([fail], ("fail", {"why": "gone"}))
    assert (message.content, message.has_error) == ("fail failed: KeyError: 'gone'", True)


def test_an_exception_that_cannot_say_what_it_is_has_a_name():
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fail():
        raise Mute

    assert texts(results([fail], ("fail", {}))) == ["fail failed: Mute"]


def look_up(value: int) -> int:
    return {1: 1}[value]


def test_a_validator_that_fails_refuses_the_call():
    def count(n: Annotated[int, pydantic.AfterValidator(look_up)]) -> int:
        return n

    found = results([count], ("count", {"n": 1}), ("count", {"n": 2}))
    assert texts(found) == ["1", "count was not called: KeyError: 2"]


def test_a_result_that_cannot_be_shown_is_an_error():
    def loop():
        found: list[Any] = []
        found.append(found)
        return found

    (message,) = results([loop], ("loop", {}))
    assert message.has_error and message.content.startswith("loop failed: ValueError")


def test_secrets_are_in_no_result_and_no_error():
    def fetch(url: str, key: str) -> str:
        if url == "bad":
            raise ValueError(f"401 for {key}")
        return f"{url}?key={key.replace('/', '%2F')}"

    tool = as_tool(fetch, key=Secret("hush/hush"))
    found = results([tool], ("fetch", {"url": "x"}), ("fetch", {"url": "bad"}))
    assert texts(found) == ["x?key=***", "fetch failed: ValueError: 401 for ***"]


def test_a_tool_without_a_function_is_for_others_to_answer():
    sense = SchemaTool({"name": "sense", "parameters": {"type": "object", "properties": {}}})
    with pytest.raises(ToolError, match="the tool 'sense' has no function: answer its calls"):
        results([sense, add], ("sense", {}), ("add", {"a": 1}))
    only = results(
        [sense, add], ("sense", {}), ("add", {"a": 1}), filter=lambda call: call.name == "add"
    )
    assert texts(only) == ["2"]


# -- in a program


@ppl
def conversation(question: str) -> Any:
    f"{question}"
    (answer := gen(tools=[add], tool_choice=as_tool_choice(add)))
    answer.run_tool_calls()
    return gen(tools=[add], tool_choice="none")


def test_calls_and_results_are_said_as_messages():
    with running(until_told(("add", {"a": 4}))) as backend:
        assert conversation("4 + 1?") == "done"
    call_message = {
        "role": "assistant", "content": None, "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "add", "arguments": '{"a": 4}'}}
        ],
    }  # fmt: skip
    assert said(backend) == [
        {"role": "user", "content": "4 + 1?"},
        call_message,
        {"role": "tool", "content": "5", "tool_call_id": "call_0"},
    ]
    first, second = (request.sampling for request in backend.requests)
    assert first.tools == second.tools == (as_tool(add).text,)
    assert (first.tool_choice, second.tool_choice) == ("add", "none")


def test_tools_are_part_of_the_content_of_a_request():
    def other(a: int): ...

    with running(Echo()) as backend:
        (
            str(gen(messages="x")),
            str(gen(messages="x", tools=add)),
            str(gen(messages="x", tools=other)),
        )
        str(gen(messages="x", tools=[add], tool_choice="required"))
    assert len({request.digest for request in backend.requests}) == 4


def test_a_backend_without_tools_refuses_before_any_call():
    with running(Echo(features={"n"})) as backend, pytest.raises(Unsupported, match="tools"):
        gen(messages="x", tools=[add])
    assert backend.requests == []


def test_an_answer_that_was_asked_without_tools_has_none_to_run():
    with running(script("x")), pytest.raises(RunError, match="asked without tools"):
        gen(messages="x").run_tool_calls()


def test_no_calls_are_no_results():
    with running(script("just text")):
        answer = gen(messages="x", tools=[add])
        assert answer.tool_calls == ()
        assert answer.run_tool_calls() == []


def test_every_sample_can_run_its_own_calls():
    one, two = calling(("add", {"a": 1})), calling(("add", {"a": 2}))
    both = type(one)((*one.samples, *two.samples))
    with running(script(both)):
        samples = gen(messages="x", tools=[add], n=2).samples
        assert [texts(sample.run_tool_calls()) for sample in samples] == [["2"], ["3"]]


def test_tool_calls_have_addresses_by_name():
    seen: list[str] = []

    @ppl
    def inner():
        seen.append(gen(messages="inner").call_id)
        return "x"

    @ppl
    def outer():
        "go"
        gen(messages="go", tools=[inner, add]).run_tool_calls()
        gen(messages="go", tools=[inner, add]).run_tool_calls()

    def answer(request: Any) -> Any:
        if said_last(request) == "inner":
            return "ok"
        return calling(("inner", {}), ("add", {"a": 1}), ("inner", {}))

    with running(Scripted(answer)):
        outer()
    assert seen == [f"/outer.0/inner.{number}/inner.0/gen.0" for number in range(4)]


def said_last(request: Any) -> str:
    return str(request.messages.message.content)


# -- side by side


def meeting(parties: int) -> tuple[Any, threading.Barrier]:
    barrier = threading.Barrier(parties, timeout=20)

    def meet(who: str) -> str:
        barrier.wait()
        return f"{who} on {threading.current_thread().name}"

    return meet, barrier


def test_plain_tools_run_side_by_side_on_worker_threads():
    meet, _ = meeting(3)
    found = results([meet], *[("meet", {"who": who}) for who in "abc"], parallel=True)
    assert [text[0] for text in texts(found)] == ["a", "b", "c"]
    assert all(" on appl-worker" in text for text in texts(found))


def test_unless_told_otherwise_they_run_one_after_the_other_on_worker_threads():
    order: list[tuple[str, str]] = []

    def note(n: int) -> str:
        order.append((f"begins {n}", threading.current_thread().name))
        order.append((f"ends {n}", threading.current_thread().name))
        return str(n)

    results([note], *[("note", {"n": n}) for n in range(3)])
    told = [word for word, _ in order]
    assert told == [f"{word} {n}" for n in range(3) for word in ("begins", "ends")]
    assert all(name.startswith("appl-worker") for _, name in order)


def test_one_after_the_other_they_run_where_the_caller_runs():
    def where() -> str:
        return threading.current_thread().name

    found = results([where], ("where", {}), ("where", {}), parallel=False)
    assert texts(found) == [threading.current_thread().name] * 2


def test_coroutine_functions_run_in_a_synchronous_program_too():
    async def slowly(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    assert texts(results([slowly], ("slowly", {"n": 1}), ("slowly", {"n": 2}))) == ["2", "3"]


async def test_in_a_coroutine_all_kinds_are_awaited():
    meet, _ = meeting(2)
    arrived = asyncio.Event()

    async def first() -> str:
        await arrived.wait()
        return "first"

    async def second() -> str:
        arrived.set()
        return "second"

    @ppl
    def program() -> Any:
        "think"
        return gen()

    @ppl
    async def main() -> Any:
        "go"
        answer = gen(tools=[first, second, meet, program])
        return await answer.run_tool_calls(parallel=True)

    wanted = [("first", {}), ("second", {}), ("program", {})] + [("meet", {"who": w}) for w in "ab"]
    backend = Scripted(
        lambda request: "thought" if said_last(request) == "think" else calling(*wanted)
    )
    with running(backend):
        found = texts(await main())
    assert found[:3] == ["first", "second", "thought"]
    assert [text[0] for text in found[3:]] == ["a", "b"]


async def test_a_text_in_a_coroutine_runs_its_calls_too():
    with running(script(calling(("add", {"a": 1})))):
        text = await gen(messages="x", tools=[add])
        assert texts(await text.run_tool_calls(parallel=False)) == ["2"]


class Together(Scripted):
    """Answers a question that begins with ``?`` only when *parties* of them are there."""

    def __init__(self, parties: int, script: Any) -> None:
        super().__init__(script)
        self._missing, self._all = parties, asyncio.Event()

    async def complete(self, request: Any, emit: Any = None) -> Any:
        if said_last(request).startswith("?"):
            self._missing -= 1
            if not self._missing:
                self._all.set()
            await self._all.wait()
        return await super().complete(request, emit)


def test_prompt_functions_are_tools_that_wait_side_by_side():
    @ppl
    def ask(who: str) -> Any:
        f"?{who}"
        return gen()

    def answer(request: Any) -> Any:
        text = said_last(request)
        return f"<{text}>" if text != "go" else calling(*[("ask", {"who": w}) for w in "abc"])

    with running(Together(3, answer)):
        found = gen(messages="go", tools=[ask]).run_tool_calls(parallel=True)
    assert texts(found) == ["<?a>", "<?b>", "<?c>"]


# -- time

AMPLE = 2.0  # seconds in which all that does not hang has begun, and ended, on a busy machine too


def test_a_tool_that_takes_too_long_is_answered_for():
    never = threading.Event()

    def hang() -> None:
        never.wait(20)

    hung, added = results([hang, add], ("hang", {}), ("add", {"a": 1}), timeout=AMPLE)
    never.set()
    assert (hung.content, hung.has_error) == ("hang did not finish within 2.0 s", True)
    assert (added.content, added.has_error) == ("2", False)


def test_a_coroutine_that_takes_too_long_is_cancelled():
    ended = threading.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    (hung,) = results([hang], ("hang", {}), timeout=AMPLE)
    assert hung.content == "hang did not finish within 2.0 s"
    assert ended.wait(20)


def test_a_prompt_function_that_takes_too_long_is_cancelled_with_its_calls():
    @ppl
    def think() -> Any:
        "think"
        return str(gen())

    class Slow(Held):
        async def complete(self, request: Any, emit: Any = None) -> Any:
            if said_last(request) == "go":
                return calling(("think", {}))
            return await super().complete(request, emit)

    backend = Slow()
    with Run(backend):
        (hung,) = gen(messages="go", tools=[think]).run_tool_calls(timeout=AMPLE)
    assert hung.content == "think did not finish within 2.0 s"
    assert backend.aborted == ["/think.0/think.0/gen.0"]


def test_a_plain_function_that_waits_for_a_call_is_cancelled_with_it():
    def think() -> str:
        return str(gen(messages="think"))

    class Slow(Held):
        async def complete(self, request: Any, emit: Any = None) -> Any:
            if said_last(request) == "go":
                return calling(("think", {}))
            return await super().complete(request, emit)

    backend = Slow()
    with Run(backend):
        answer = gen(messages="go", tools=[think])
        str(answer)
        with pytest.raises(TimeoutError), timeout(AMPLE):
            answer.run_tool_calls()
    assert backend.aborted == ["/think.0/gen.0"]


def test_an_impossible_time_limit_is_refused():
    with running(script(calling(("add", {"a": 1})))), pytest.raises(ValueError, match="timeout"):
        gen(messages="x", tools=[add]).run_tool_calls(timeout=-1)


def test_a_filter_is_a_function():
    with running(script(calling(("add", {"a": 1})))), pytest.raises(ValueError, match="filter"):
        gen(messages="x", tools=[add]).run_tool_calls(5)  # type: ignore[arg-type]


async def test_cancelling_who_waits_cancels_the_tools():
    ended = asyncio.Event()
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def main() -> None:
        await gen(messages="x", tools=[hang]).run_tool_calls()

    async with Run(script(calling(("hang", {})))):
        task = asyncio.get_running_loop().create_task(main())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(ended.wait(), 20)


def test_a_sequential_run_gives_the_same():
    values = []
    for sequential in (False, True):
        with running(
            until_told(("add", {"a": 4}), ("add", {"a": "x"})), sequential=sequential
        ) as b:
            values.append((str(conversation("?")), [r.digest for r in b.requests]))
    assert values[0] == values[1]


def leave() -> None:
    sys.exit("no such city")


async def leave_later() -> None:
    leave()


@pytest.mark.parametrize("how", [{}, {"parallel": False}, {"timeout": 60}])
@pytest.mark.parametrize("tool", [leave, leave_later])
def test_a_tool_that_exits_has_failed_and_the_program_goes_on(tool, how):
    (result,) = results([tool], (tool.__name__, {}), **how)
    assert result.content == f"{tool.__name__} failed: SystemExit: no such city"
    assert result.has_error


async def test_a_tool_that_exits_leaves_the_loop_alone():
    with running(script(calling(("leave_later", {})))):
        answer = gen(messages="go", tools=[leave_later])
        assert texts(await answer.run_tool_calls()) == [
            "leave_later failed: SystemExit: no such city"
        ]
