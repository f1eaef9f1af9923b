"""Results of tools are effects: recorded with what was asked, and a replay runs no tool."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from appl import Message, Secret, as_tool, gen, map, ppl, timeout
from appl.errors import CallCancelled, DivergenceError, TraceWriteError, UnusedRecords
from appl.session import replayed
from appl.testing import Log, Run, Scripted, Seeded, calling, response
from appl.tracing import Recorder, Trace, records

from .support import again, recorded, script, texts, tools_of, until_told


class Counter:
    """A tool that counts how often it really runs."""

    def __init__(self) -> None:
        self.runs = 0

    def bump(self, by: int) -> int:
        self.runs += 1
        if by < 0:
            raise ValueError(f"cannot go back {-by}")
        return by * 10


def test_a_replay_does_not_run_the_tool_again(tmp_path):
    counter, path = Counter(), tmp_path / "a.trace"

    @ppl
    def f() -> Any:
        "go"
        (answer := gen(tools=[counter.bump]))
        results = answer.run_tool_calls()
        results
        return [m.content for m in results], [m.has_error for m in results], str(gen())

    calls = [("bump", {"by": 1}), ("bump", {"by": -2}), ("bump", {"by": "x"}), ("bomp", {})]
    first = recorded(path, until_told(*calls), f)
    assert first[0][:2] == ["10", "bump failed: ValueError: cannot go back 2"]
    assert first[1] == [False, True, True, True]
    assert counter.runs == 2
    assert again(path, f) == first
    assert counter.runs == 2
    used = Trace.open(path).tools
    assert [(u.effect, u.outcome, u.name) for u in used.values()] == [
        ("effect", "answered", "bump"),
        ("effect", "answered", "bump"),
        ("refused", "answered", "bump"),
        ("refused", "answered", "bomp"),
    ]
    assert list(used) == [f"/f.0/{n}" for n in ("bump.0", "bump.1", "bump.2", "unknown_tool.0")]
    assert used["/f.0/bump.0"].where.startswith(f"{__file__}:")


def test_the_start_of_a_tool_is_on_disk_before_it_runs(tmp_path):
    path, seen = tmp_path / "a.trace", []

    def act() -> str:
        seen.extend(Trace.open(path).tools)
        return "acted"

    @ppl
    def f() -> Any:
        return texts(gen(messages="go", tools=[act]).run_tool_calls())

    assert recorded(path, script(calling(("act", {}))), f) == ["acted"]
    assert seen == ["/f.0/act.0"]


@pytest.mark.parametrize("how", ["thread", "here", "coroutine"])
def test_a_tool_does_not_run_when_nothing_can_be_recorded(tmp_path, how):
    runs: list[str] = []

    def act() -> None:
        runs.append("plain")

    async def aact() -> None:
        runs.append("async")

    full = OSError(28, "No space left on device")
    at = {"fail": False}

    def fault(point: str) -> None:
        if point == "before-write" and at["fail"]:
            raise full

    recorder = Recorder(tmp_path / "a.trace", {}, durability="process", fault=fault)
    tool = as_tool(aact if how == "coroutine" else act, name="act")

    def program() -> Any:
        answer = gen(messages="go", tools=[tool])
        str(answer)
        at["fail"] = True
        return answer.run_tool_calls(parallel=how != "here")

    with pytest.raises(TraceWriteError, match="No space left"):  # noqa: SIM117 - the run's own end
        with Run(script(calling(("act", {}))), instruments=[recorder], gate=recorder.gate,
                 barrier=recorder.barrier):  # fmt: skip
            program()
    assert runs == []
    with pytest.raises(TraceWriteError):
        recorder.close()


def test_a_pure_tool_waits_for_nothing(tmp_path):
    def look() -> str:
        return "seen"

    barriers: list[None] = []
    tools = [as_tool(look, pure=True), as_tool(look, name="again", idempotent=True)]
    backend = script(calling(("look", {}), ("again", {})))
    with Run(backend, barrier=lambda: barriers.append(None)):
        assert texts(gen(messages="go", tools=tools).run_tool_calls()) == ["seen", "seen"]
    assert barriers == []


def test_calls_that_a_tool_made_are_not_asked_again(tmp_path):
    path, runs = tmp_path / "a.trace", []

    def research(topic: str) -> str:
        runs.append(topic)
        return str(gen(messages=f"about {topic}"))

    @ppl
    def f() -> Any:
        return texts(gen(messages="go", tools=[research]).run_tool_calls())

    backend = Scripted({
        "/f.0/gen.0": calling(("research", {"topic": "tea"})),
        "/f.0/research.0/gen.0": response("green"),
    })  # fmt: skip
    assert recorded(path, backend, f) == ["green"]
    assert again(path, f) == ["green"]
    assert runs == ["tea"]


def test_the_calls_of_a_prompt_function_are_replayed(tmp_path):
    path, runs = tmp_path / "a.trace", []

    @ppl
    def ask(who: str) -> Any:
        runs.append(who)
        f"?{who}"
        return gen()

    @ppl
    def f() -> Any:
        return texts(gen(messages="go", tools=[ask]).run_tool_calls())

    def answer(request: Any) -> Any:
        text = request.messages.message.content
        return f"<{text}>" if text != "go" else calling(*[("ask", {"who": w}) for w in "ab"])

    assert recorded(path, Scripted(answer), f) == ["<?a>", "<?b>"]
    with replayed(path) as replayer:
        assert f() == ["<?a>", "<?b>"]
    assert runs == ["a", "b", "a", "b"]
    assert [call.address for call in replayer.trace.calls] == [
        "/f.0/gen.0", "/f.0/ask.0/ask.0/gen.0", "/f.0/ask.1/ask.0/gen.0",
    ]  # fmt: skip
    assert [u.effect for u in replayer.trace.tools.values()] == ["program", "program"]


def test_a_coroutine_is_answered_for_too(tmp_path):
    path, counter = tmp_path / "a.trace", Counter()

    async def bump(by: int) -> int:
        await asyncio.sleep(0)
        return counter.bump(by)

    @ppl
    async def f() -> Any:
        answer = gen(messages="go", tools=[bump])
        return texts(await answer.run_tool_calls())

    backend = script(calling(("bump", {"by": 1}), ("bump", {"by": 2})))
    assert recorded(path, backend, lambda: asyncio.run(f())) == ["10", "20"]
    assert again(path, lambda: asyncio.run(f())) == ["10", "20"]
    assert counter.runs == 2


def test_time_that_was_up_is_up_again(tmp_path):
    path, never = tmp_path / "a.trace", threading.Event()

    def hang() -> None:
        never.wait(20)

    @ppl
    def think() -> Any:
        "think"
        return str(gen())

    @ppl
    def f() -> Any:
        answer = gen(messages="go", tools=[hang, think])
        return texts(answer.run_tool_calls(timeout=0.05))

    class Mute(Scripted):
        async def complete(self, request: Any, emit: Any = None) -> Any:
            if request.messages.message.content == "think":
                await asyncio.Event().wait()
            return await super().complete(request, emit)

    first = recorded(path, Mute([calling(("hang", {}), ("think", {}))]), f)
    never.set()
    assert first == [f"{name} did not finish within 0.05 s" for name in ("hang", "think")]
    assert again(path, f) == first


def test_a_program_that_calls_with_other_arguments_diverges(tmp_path):
    path = tmp_path / "a.trace"

    def add(a: int, b: int) -> int:
        return a + b

    def program(text: str) -> Any:
        backend_call = calling(("add", text))
        return backend_call

    @ppl
    def f(change: bool) -> Any:
        answer = gen(messages="go", tools=[add])
        if change:
            gen(messages="go", tools=[add]).run_tool_calls()
        return texts(answer.run_tool_calls())

    recorded(path, script(calling(("add", {"a": 1, "b": 2}))), lambda: f(False))
    with pytest.raises(DivergenceError, match=r"gen\.1"):
        again(path, lambda: f(True))


def test_a_tool_that_is_called_where_none_was_diverges(tmp_path):
    path = tmp_path / "a.trace"

    def act() -> str:
        return "acted"

    @ppl
    def f(times: int) -> Any:
        answer = gen(messages="go", tools=[act])
        return [texts(answer.run_tool_calls()) for _ in range(times)]

    recorded(path, script(calling(("act", {}))), lambda: f(1))
    with pytest.raises(DivergenceError, match=r"tool at /f.0/act.1 was not recorded .* never"):
        again(path, lambda: f(2))
    with pytest.raises(UnusedRecords, match=r"/f.0/act.0"):
        again(path, lambda: f(0))


def test_the_order_in_which_results_came_is_replayed(tmp_path):
    """A program that looks at what is there first sees the same in a replay."""
    path = tmp_path / "a.trace"
    gates = {"a": threading.Event(), "b": threading.Event()}

    def wait_for(who: str) -> str:
        gates[who].wait(20)
        if who == "b":
            gates["a"].set()
        return who

    order: list[str] = []

    @ppl
    def one(who: str) -> None:
        answer = gen(messages=who, tools=[wait_for])
        order.extend(texts(answer.run_tool_calls()))

    def f() -> list[str]:
        order.clear()
        map(one, ["a", "b"])
        return list(order)

    gates["b"].set()
    backend = Scripted(lambda r: calling(("wait_for", {"who": r.messages.message.content})))
    assert recorded(path, backend, f) == ["b", "a"]
    assert again(path, f) == ["b", "a"]


@pytest.mark.parametrize("seed", range(8))
def test_every_schedule_gives_the_same_trace(tmp_path, seed):
    counter, path = Counter(), tmp_path / "a.trace"

    @ppl
    def agent(n: int) -> Any:
        f"{n}"
        (answer := gen(tools=[counter.bump]))
        answer.run_tool_calls()
        return gen()

    def answer(request: Any) -> Any:
        last = request.messages.message
        if last.role == "tool":
            return f"<{last.content}>"
        return calling(("bump", {"by": int(last.content)}), ("bump", {"by": -1}))

    def f() -> list[str]:
        return [str(each) for each in map(agent, range(4))]

    values = recorded(path, Seeded(seed, answer), f)
    assert values == [str(each) for each in values]
    with Run(Scripted(answer), sequential=True, instruments=[log := Log()]):
        assert f() == values
    assert again(path, f) == values
    ran = [e.address for e in log.events if type(e).__name__ == "ToolStarted"]
    assert sorted(address for address, _, _ in tools_of(path)) == sorted(ran)
    assert len(ran) == 8


def test_a_block_with_a_time_limit_ends_where_it_ended(tmp_path):
    path, never = tmp_path / "a.trace", threading.Event()

    def hang() -> None:
        never.wait(20)

    @ppl
    def f() -> str:
        answer = gen(messages="go", tools=[hang])
        str(answer)
        try:
            with timeout(0.05):
                answer.run_tool_calls()
        except TimeoutError as error:
            return str(error)
        return "in time"

    first = recorded(path, script(calling(("hang", {}))), f)
    never.set()
    assert first == "not done within 0.05 s"
    assert again(path, f) == first


def test_what_a_redaction_hook_hides_is_not_in_the_trace(tmp_path):
    path = tmp_path / "a.trace"

    def find(name: str) -> str:
        return f"{name} lives in Tarn"

    def hide(message: Any) -> Any:
        return Message(message.role, "-") if message.role in ("tool", "assistant") else message

    recorder = Recorder(path, {}, durability="process", redact=hide)
    with Run(script(calling(("find", {"name": "Mira"}))), instruments=[recorder]):
        texts(gen(messages="go", tools=[find]).run_tool_calls())
    recorder.close()
    (used,) = Trace.open(path).tools.values()
    assert (used.arguments, used.message.content, used.masked) == ("-", "-", ("redact", "redact"))


def test_a_crash_while_a_tool_runs_leaves_it_in_flight(tmp_path):
    path, cut = tmp_path / "a.trace", tmp_path / "b.trace"

    def act() -> str:
        cut.write_bytes(Path(path).read_bytes())
        return "acted"

    recorded(path, script(calling(("act", {}))), lambda: texts(
        gen(messages="go", tools=[act]).run_tool_calls()))  # fmt: skip
    (used,) = Trace.open(cut).tools.values()
    assert (used.address, used.outcome, used.effect) == ("/act.0", None, "effect")


def test_a_secret_that_a_prompt_function_says_is_not_in_the_trace(tmp_path):
    path = tmp_path / "a.trace"

    @ppl
    def leak(key: str) -> Any:
        f"my key is {key}"
        return gen()

    tool = as_tool(leak, key=Secret("hush-hush"))
    backend = Scripted(
        lambda r: "ok" if "key" in r.messages.message.content else calling(("leak", {}))
    )
    recorded(path, backend, lambda: texts(gen(messages="go", tools=[tool]).run_tool_calls()))
    trace = Trace.open(path)
    prompt = trace.by_address["/leak.0/leak.0/gen.0"].messages
    assert prompt and prompt.message.content == "my key is [secret leak.key]"
    assert "hush" not in repr(list(records(path)))


@pytest.mark.parametrize(
    ("raised", "parallel", "ends"),
    [
        (KeyboardInterrupt, True, CallCancelled),  # it ends the worker's function alone
        (KeyboardInterrupt, False, KeyboardInterrupt),
        (CallCancelled, True, CallCancelled),
        (CallCancelled, False, CallCancelled),
    ],
)
def test_an_interrupted_tool_is_interrupted_again(tmp_path, raised, parallel, ends):
    path = tmp_path / "a.trace"

    def act() -> None:
        raise raised("enough")

    def f() -> BaseException | None:
        try:
            gen(messages="go", tools=[act]).run_tool_calls(parallel=parallel)
        except (CallCancelled, KeyboardInterrupt) as error:
            return error
        return None

    first = recorded(path, script(calling(("act", {}))), f)
    assert type(first) is ends
    assert repr(again(path, f)) == repr(first)
