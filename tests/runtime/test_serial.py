"""What a run loses by calls that wait one after the other is known at its end, in one line."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appl import gen, map, ppl
from appl.runtime import hubs, watchdog
from appl.runtime.concurrency.watchdog import Watchdog
from appl.runtime.frame import current
from appl.testing import Answer, Held, running

COUNT = 4
ROOT = Path(__file__).parents[2]


class Slow(Held):
    """Answers when every program waits; the watchdog has looked twice by then, 1 s apart."""

    def __init__(self, answer: Answer | None = None) -> None:
        features = {"features": ["tools"]} if answer is not None else {}
        super().__init__(lambda request: answer or f"answer {self.looks}", **features)
        self.watchdog, self.looks = Watchdog(hubs), 0

    def on_idle(self, final: bool = True) -> bool:
        waits = bool(self.waiting)
        if waits:
            self.looks += 2
            self.watchdog.look(self.looks - 1.0)
            self.watchdog.look(float(self.looks))
            self.release()
        return waits


@ppl
def think(question: object) -> str:
    f"{question}"
    return str(gen())


@ppl
def think_twice(question: object) -> str:
    f"{question}"
    idea = str(gen())
    return think(f"Is this right? {idea}")


@ppl
def think_twice_of(former: str) -> str:
    idea = think("a new idea")
    f"Compare {idea} with {former}"
    return str(gen())


@ppl(parallel=True)
def beside(question: object) -> str:
    f"{question}"
    return str(gen())


@ppl
def talks() -> None:
    for number in range(COUNT):
        f"question {number}"
        (answer := gen())
        _ = str(answer)


@ppl
async def athink(question: object) -> str:
    f"{question}"
    return str(await gen())


def chain() -> None:
    answer = "start"
    for _ in range(COUNT):
        answer = think(f"What follows from {answer}?")


def chain_of_two_steps() -> None:
    answer = "start"
    for _ in range(COUNT):
        answer = think_twice_of(answer)


async def in_turn() -> None:
    for number in range(COUNT):
        await athink(number)


async def gathered() -> None:
    await asyncio.gather(*(athink(number) for number in range(COUNT)))


def line(program: Callable[[], Any], answer: Answer | None = None) -> str:
    with running(backend := Slow(answer)):
        backend.watchdog.runs.add(run := current())
        watchdog.runs.discard(run)  # which looks at another clock
        program()
    return run.serial.line(3 * COUNT)


SERIAL: dict[str, Callable[[], Any]] = {
    "list": lambda: [think(number) for number in range(COUNT)],
    "async": lambda: asyncio.run(in_turn()),
}
FINE: dict[str, Callable[[], Any]] = {
    "map": lambda: map(think, range(COUNT)),
    "parallel": lambda: [beside(number) for number in range(COUNT)],
    "conversation": talks,
    "chain through plain text": chain,
    "chain through the second of two calls": chain_of_two_steps,
    "gather": lambda: asyncio.run(gathered()),
    "one": lambda: think(1),
}


@pytest.mark.parametrize("program", SERIAL.values(), ids=SERIAL)
def test_calls_that_wait_one_after_the_other_are_named(program: Callable[[], Any]) -> None:
    said = line(program)
    assert f"{COUNT} calls of " in said and f"({__file__}:" in said
    assert "were waited for one after the other, for 7.0 s" in said and "about 2.0 s" in said
    assert "write appl.map(" in said and "@ppl(parallel=True)" in said


@pytest.mark.parametrize("program", FINE.values(), ids=FINE)
def test_what_has_to_wait_or_does_not_is_not_told(program: Callable[[], Any]) -> None:
    assert line(program) == ""


def test_a_function_whose_own_calls_need_each_other_is_named_too() -> None:
    said = line(lambda: [think_twice(number) for number in range(COUNT)])
    assert f"{COUNT} calls of think_twice " in said and "write appl.map(think_twice, items)" in said


class Seldom(Slow):
    """Answers when every program waits; the watchdog has looked once by then."""

    def look(self) -> None:
        """Look 10 s after the last look."""
        self.looks += 10
        self.watchdog.look(float(self.looks))

    def on_idle(self, final: bool = True) -> bool:
        waits = bool(self.waiting)
        if waits:
            self.look()
            self.release()
        return waits


def test_the_time_before_a_call_is_not_taken_for_a_wait() -> None:
    with running(backend := Seldom()):
        backend.watchdog.runs.add(run := current())
        watchdog.runs.discard(run)
        for number in range(COUNT):
            think(number)
            backend.look()  # no call is under way: the next look need not come soon
    assert run.serial.line(20 * COUNT) == ""
    worst = run.serial.worst()
    assert worst is not None and worst[1].lost < 1


TOOLS_ARE_RUN = """
from appl import gen
from appl.backend import Response, Sample
from appl.prompt import ToolCall
from tests.runtime.test_serial import line

def now() -> str:
    return "noon"

calls = (ToolCall("1", "now", "{}"),)
answer = Response((Sample("", "tool_calls", tool_calls=calls),))
line(lambda: gen(messages="What time is it?", tools=[now]).run_tool_calls(), answer)
"""


def test_to_keep_what_was_said_tells_the_user_of_no_tools_that_nobody_runs() -> None:
    """In a process of its own, as that is told once in a process."""
    done = subprocess.run(
        [sys.executable, "-c", TOOLS_ARE_RUN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
