"""A run that goes on and on does not grow with the calls that it has made and nobody refers to."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import AIRole, call, gen, ppl
from appl.backend import Request
from appl.errors import BackendError
from appl.runtime import SerialWaits
from appl.testing import Held, Instant, Run, Scripted, running
from appl.tracing import Recorder

FEW, MANY = 150, 600
SLACK = 1500
"""Objects that may be there at one moment and not at another: lists are gone through at times.

Each call that was kept would be at least ten.
"""


@ppl
def ask(number: object):
    f"{number}"
    return gen()


@ppl
async def later(number: object) -> Any:
    f"{number}"
    return await gen()


@ppl
def tell(number: object):
    f"{number}"
    with AIRole():
        f"{gen()}"


def in_turn(times: int) -> None:
    for number in range(times):
        _ = str(ask(number))


@ppl
def in_a_body(times: int):
    for number in range(times):
        _ = str(ask(number))
        counted()


@ppl
def in_a_body_that_catches(times: int):
    try:
        for number in range(times):
            _ = str(ask(number))
            counted()
    except ValueError:
        pass


def beside(times: int) -> None:
    for number in range(times):
        assert call(ask, number).result() == "ok"


def on_workers(times: int) -> None:
    for number in range(times):
        assert call(str, number).result() == str(number)


def mapped(times: int) -> None:
    for _ in range(times // 10):
        assert [str(answer) for answer in appl.map(ask, range(10))]


def streamed(times: int) -> None:
    for number in range(times):
        assert list(ask(number).text_stream) == ["ok"]


def programs(times: int) -> None:
    for number in range(times):
        assert list(appl.stream(tell, number))[-1] == "ok"


def polled(times: int) -> None:
    for number in range(times):
        answer = ask(number)
        assert answer.result(timeout=60) == "ok" and answer.done()


def failing(times: int) -> None:
    for _ in range(times):
        with pytest.raises(TypeError):
            str(gen(messages="x", no_such_option=1))


@ppl
def clock():
    appl.now()


def observing(times: int) -> None:
    for _ in range(times):
        clock()


def threads(times: int) -> None:
    for _ in range(times // 10):
        thread = threading.Thread(target=in_turn, args=(10,))
        thread.start()
        thread.join()


def a_pool(times: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        for number in range(times):
            pool.submit(lambda number=number: str(ask(number))).result()


def on_a_loop(one: Callable[[int], Coroutine[Any, Any, Any]]) -> Callable[[int], None]:
    async def main(times: int) -> None:
        for number in range(times):
            await one(number)

    return lambda times: asyncio.run(main(times))


async def awaited(number: int) -> None:
    await ask(number)


async def gathered(number: int) -> None:
    await asyncio.gather(ask(number), later(number))


async def tasks(number: int) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(later(number))
        group.create_task(awaited(number))


PROGRAMS = {
    "in turn": in_turn,
    "beside": beside,
    "on workers": on_workers,
    "mapped": mapped,
    "streamed": streamed,
    "programs": programs,
    "polled": polled,
    "failing": failing,
    "observing": observing,
    "threads": threads,
    "a pool": a_pool,
    "awaited": on_a_loop(awaited),
    "gathered": on_a_loop(gathered),
    "tasks": on_a_loop(tasks),
}


def kept() -> int:
    """The number of objects of the runtime that are there."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return sum(kind.__module__.startswith(("appl.", "greenlet", "_contextvars")) for kind in kinds)


def growth(program: Callable[[int], object]) -> int:
    program(FEW)
    before = kept()
    program(MANY)
    return kept() - before


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_keeps_no_call_that_nobody_refers_to(name: str) -> None:
    with running(Instant()):
        assert growth(PROGRAMS[name]) < SLACK


def test_a_recorded_run_does_not_either(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "x.trace", {})
    with Run(Instant(), instruments=[recorder], gate=recorder.gate):
        assert growth(in_turn) < SLACK
    recorder.close()


COUNTS: list[int] = []


def counted() -> None:
    """Called once a call, in the midst of a function that goes on."""
    COUNTS.append(kept() if len(COUNTS) in (FEW, FEW + MANY) else 0)


@pytest.mark.parametrize("body", [in_a_body, in_a_body_that_catches])
def test_a_function_that_goes_on_keeps_no_call_either(body: Any) -> None:
    COUNTS.clear()
    with running(Instant()):
        body(FEW + MANY + 1)
    assert COUNTS[FEW + MANY] - COUNTS[FEW] < SLACK


def test_a_failure_that_nobody_looked_at_is_kept_and_raised_at_the_end() -> None:
    def answered(request: Request) -> Any:
        return BackendError("no") if request.address == "/ask.7/gen.0" else "ok"

    def program() -> None:
        for number in range(500):
            answer = ask(number)
            if number != 7:
                assert answer == "ok"

    with pytest.raises(BackendError) as failed, running(Scripted(answered)):
        program()
    assert "/ask.7/gen.0" in failed.value.__notes__[0]


def test_what_is_unfinished_is_waited_for_at_the_end_however_many_there_are() -> None:
    with running(backend := Held(lambda _: "ok")):
        for number in range(300):
            ask(number)
            if number % 2:
                backend.release(f"/ask.{number}/gen.0")
        backend.release(*(f"/ask.{number}/gen.0" for number in range(0, 300, 2)))
    assert len(backend.requests) == 300 and not backend.waiting


def test_worker_threads_leave_no_greenlets() -> None:
    def greenlets() -> int:
        gc.collect()
        return sum(type(each).__name__ == "greenlet" for each in gc.get_objects())

    with running(Instant()):
        on_workers(20)
        before = greenlets()
        on_workers(200)
        assert greenlets() - before < 50


def test_a_run_counts_the_time_of_many_calls_in_little_room() -> None:
    class Waited:
        request = outcome = None
        file, line = "x.py", 1

        def __init__(self, number: int) -> None:
            self.address = f"/ask.{number}/gen.0"

        def edges(self) -> tuple[str, ...]:
            return ()

    waits = SerialWaits()
    for number in range(20_000):
        waits.note(Waited(number), 0.25)
    name, calls = waits.worst() or ("", None)
    assert calls is not None and (name, calls.count, calls.took) == ("ask", 20_000, 5000.0)
    assert calls.lost == 5000.0 - 0.25 and len(calls.seconds) <= 1000
