"""``appl trace fuzz``: orders and faults that a program depends on are found, and repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appl import cli
from appl.errors import BackendBusy
from appl.testing.clock import VirtualClock
from appl.tracing import Recorder, Trace, profile_data
from appl.tracing.replaying import FAULTS, Fuzzer, Plan, plan

PROGRAM = """
import asyncio, json
import appl
from appl import gen, ppl
from appl.errors import BackendError

@ppl
def ask(question):
    f"{question}"
    return gen()

@ppl
async def wonder(question):
    f"{question}"
    return str(await gen())

def steady():
    return [str(x) for x in [ask(f"q{i}") for i in range(4)]]

async def shared():
    log = []
    async def one(i):
        log.append(await wonder(f"q{i}"))
        return await wonder(f"so far {len(log)}")
    await asyncio.gather(*(one(i) for i in range(3)))

async def first():
    tasks = [asyncio.ensure_future(wonder(f"q{i}")) for i in range(3)]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    return sorted(task.result() for task in done)[0]

def careful():
    try:
        return str(ask("q"))
    except BackendError:
        return "nobody knows"

def parses():
    return json.loads(str(ask("json?")))["a"]

@ppl
def looks(q: str):
    "Look it up."
    (answer := gen(tools=[search]))
    return [r.content for r in answer.run_tool_calls()]

def search(q: str) -> str:
    "Search."
    raise SystemExit("a tool ran")

def reads():
    return str(ask(appl.observe(lambda: "seen") + str(appl.now())))
"""
ANSWERS = """
from appl.testing import Scripted, calling

def answer(request):
    said = request.messages.message.content
    if request.sampling.tools:
        return calling(("search", {"q": "x"}))
    return '{"a": [1, 2, 3, 4]}' if said == "json?" else f"about {said}"

class Answers(Scripted):
    def __init__(self):
        super().__init__(answer)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "answers.py").write_text(ANSWERS)
    (tmp_path / "appl.toml").write_text('backend = "answers:Answers"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def fuzzed(
    capsys: pytest.CaptureFixture[str], function: str, *words: str, program: str = ""
) -> tuple[int, dict[str, Any]]:
    assert cli.main(["run", f"program.py:{function}"]) == 0
    capsys.readouterr()
    code = cli.main(["trace", "fuzz", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def kinds(told: dict[str, Any]) -> set[str]:
    return {each["kind"] for each in told["findings"]}


def test_a_program_that_waits_for_all_depends_on_no_order_and_outlives_a_fault_that_passes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = fuzzed(capsys, "steady", "--seeds", "60")
    assert code == 0
    assert kinds(told) == {"unhandled"}
    assert all("at each attempt" in each["plan"] for each in told["findings"])
    again = cli.main(["trace", "fuzz", "--seeds", "60", "--strict", "--json"])
    assert (again, json.loads(capsys.readouterr().out)) == (1, told)


def test_a_prompt_that_depends_on_the_order_is_found_with_a_seed_that_repeats_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = fuzzed(capsys, "shared", "--seeds", "20")
    found = [each for each in told["findings"] if each["kind"] == "order"]
    assert code == 1 and found
    assert "+ so far" in found[0]["details"]
    seed = found[0]["seeds"][0]
    assert cli.main(["trace", "fuzz", "--seed", str(seed)]) == 1
    shown = capsys.readouterr()
    assert found[0]["address"] in shown.out
    assert f"--seed {seed}` repeats one" in shown.err


def test_a_value_that_depends_on_the_order_is_found_without_a_prompt_that_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = fuzzed(capsys, "first", "--seeds", "20")
    assert code == 1
    assert any("the value depended on the order" in each["text"] for each in told["findings"])


def test_a_fault_that_is_handled_is_none_and_bad_json_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = fuzzed(capsys, "careful", "--seeds", "40")
    assert (code, told["findings"]) == (0, [])
    code, told = fuzzed(capsys, "parses", "--seeds", "40")
    found = [each for each in told["findings"] if each["kind"] == "fault"]
    assert code == 1
    assert "JSONDecodeError" in found[0]["text"]
    assert "program.py" in found[0]["details"]


def test_a_fault_can_be_named_with_its_call(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--fault", "garbled", "--call", "/ask.0/gen.0"]
    code, told = fuzzed(capsys, "parses", *words)
    assert code == 1
    assert {each["address"] for each in told["findings"]} == {"/ask.0/gen.0"}
    assert cli.main(["trace", "fuzz", "--fault", "busy", "--call", "/ask.0/gen.1"]) == 2
    assert "did you mean '/ask.0/gen.0'" in capsys.readouterr().err
    assert cli.main(["trace", "fuzz", "--call", "/ask.0/gen.0"]) == 2
    code, told = fuzzed(capsys, "steady", "--fault", "busy")
    assert (code, len(told["findings"])) == (0, 1)


def test_no_tool_runs_and_what_was_seen_is_seen_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "program.py").read_text()
    (folder / "program.py").write_text(text.replace('raise SystemExit("a tool ran")', "return q"))
    assert cli.main(["run", "program.py:looks", "--q", "x"]) == 0
    (folder / "program.py").write_text(text)
    assert cli.main(["trace", "fuzz", "--seeds", "20"]) == 0
    code, told = fuzzed(capsys, "reads", "--seeds", "20")
    assert (code, kinds(told)) == (0, {"unhandled"})


def test_a_run_that_does_not_replay_is_not_fuzzed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "program.py:steady"]) == 0
    (folder / "program.py").write_text(PROGRAM.replace('f"q{i}"', 'f"p{i}"'))
    assert cli.main(["trace", "fuzz"]) == 3


def test_plans_are_those_of_their_seeds_and_cover_every_fault(tmp_path: Path) -> None:
    from appl import gen, ppl
    from appl.testing import Echo, Run

    @ppl
    def ask(question: str) -> str:
        f"{question}"
        return str(gen())

    backend = Echo()
    recorder = Recorder(tmp_path / "a.trace", {"profile": profile_data(backend.profile)})
    with Run(backend, instruments=[recorder], gate=recorder.gate):
        said = ask("q")
    recorder.close()
    trace = Trace.open(tmp_path / "a.trace")
    plans = [plan(trace, seed) for seed in range(40)]
    assert plans == [plan(trace, seed) for seed in range(40)]
    assert {each.fault for each in plans} == {None, *FAULTS}
    clock = VirtualClock()
    once = Fuzzer(trace, Plan(1, "busy", "/ask.0/gen.0"), clock.advance)
    from appl.testing import Policy

    with Run(once, world=once, instruments=[once], policy=Policy(clock=clock)):
        assert ask("q") == said
    always = Fuzzer(trace, Plan(1, "busy", "/ask.0/gen.0", lasting=True), clock.advance)
    with Run(always, world=always, policy=Policy(clock=clock)), pytest.raises(BackendBusy):
        ask("q")
