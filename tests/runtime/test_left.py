"""Programs that are left when their thread or event loop ends: they are cancelled, never waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.backend import Emit, Request, Response
from appl.errors import CallCancelled
from appl.testing import CallEnded, CallStarted, Echo, Log, Run, RunEnded, on_backend_loop, running
from appl.tracing import Recorder, Replayer, Trace

ended: list[str] = []


@ppl
def agent(question: str) -> str:
    f"Answer: {question}"
    try:
        first = str(gen())
        f"{first}"
        return str(gen())
    finally:
        ended.append(question)


@ppl(parallel=True)
def beside(question: str) -> str:
    return str(agent(question))


@ppl
async def coroutine(question: str) -> str:
    f"Answer: {question}"
    return str(await gen())


def until_nothing_is_under_way() -> None:
    """Wait until the I/O loop has ended all that it did for calls."""

    async def over() -> None:
        here = asyncio.current_task()
        while any(is_ours(task) for task in asyncio.all_tasks() if task is not here):
            await asyncio.sleep(0.01)

    on_backend_loop(over)


def is_ours(task: asyncio.Task[Any]) -> bool:
    """True if *task* runs code of appl or of a test; libraries leave tasks of their own behind."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is None or "site-packages" not in code.co_filename


def void(_: object) -> None:
    """Nothing, for what is of no interest."""


def in_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_loop(work: Callable[[], Any]) -> None:
    async def main() -> None:
        work()
        await asyncio.sleep(0)

    asyncio.run(main())


FORMS = {
    "a thread": lambda: in_thread(lambda: beside("x")),
    "call in a thread": lambda: in_thread(lambda: appl.call(agent, "x")),
    "a loop": lambda: in_loop(lambda: beside("x")),
    "call in a loop": lambda: in_loop(lambda: appl.call(agent, "x")),
    "a coroutine in a loop": lambda: in_loop(lambda: appl.call(coroutine, "x")),
    "a loop in a thread": lambda: in_thread(lambda: in_loop(lambda: beside("x"))),
    "two levels": lambda: in_thread(lambda: appl.call(lambda: appl.call(agent, "x"))),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_left_behind_ends_with_the_run_and_is_told(form: str, tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "run.trace"
    with Run(Silent(), instruments=[recorder := Recorder(path)]) as run:
        run.reporter.tell = told.append
        FORMS[form]()
    recorder.close()
    assert len(told) == 1 and "was cancelled: its" in told[0] and "ended before it did" in told[0]
    until_nothing_is_under_way()
    assert all(call.response is None for call in Trace.open(path).calls)
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer) as run:
        run.reporter.tell = told.append
        FORMS[form]()
    assert told[1:] == told[:1]


class Silent(Echo):
    """Never answers."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        await asyncio.get_running_loop().create_future()
        raise AssertionError


def test_the_finally_blocks_of_a_left_program_run_where_its_thread_goes_on() -> None:
    ended.clear()
    with running(Silent()):
        in_loop(lambda: appl.call(agent, "in a loop"))
    assert ended == ["in a loop"]


def test_who_waits_for_a_left_program_elsewhere_is_told() -> None:
    futures: list[Any] = []
    with running(Echo()):
        in_thread(lambda: futures.append(appl.call(agent, "x")))
        with pytest.raises(CallCancelled, match=r"/agent\.0 was cancelled: its thread ended"):
            futures[0].result()


def test_a_thread_that_ends_while_the_run_waits_leaves_nobody_waiting() -> None:
    release = threading.Event()

    class Releasing(Echo):
        """Its first answer lets the thread end that would have to hear of it."""

        async def complete(self, request: Request, emit: Emit | None = None) -> Response:
            release.set()
            return await super().complete(request, emit)

    def work() -> None:
        appl.call(agent, "x")
        begun.set()
        release.wait(60)

    told: list[str] = []
    begun = threading.Event()
    with Run(Releasing()) as run:
        run.reporter.tell = told.append
        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(60)  # the run ends with the block: nothing could begin after it
    thread.join()
    assert len(told) == 1 and "its thread ended before it did" in told[0]


@pytest.mark.parametrize("form", FORMS)
def test_the_calls_of_a_left_program_begin_and_end_before_the_run_does(form: str) -> None:
    over, log = threading.Event(), Log()
    with Run(Silent(), instruments=[log], gate=lambda: void(over.wait(0.2))) as run:
        run.reporter.tell = (
            void  # the gate holds the call back until the run is over, if that comes first
        )
        FORMS[form]()
    over.set()
    until_nothing_is_under_way()
    kinds = [type(event) for event in log.events]
    assert kinds[-1] is RunEnded
    assert kinds.count(CallStarted) == kinds.count(CallEnded) == 1


def test_a_program_that_is_waited_for_in_its_thread_is_not_touched() -> None:
    answers: list[str] = []
    with running(Echo()):
        in_thread(lambda: answers.append(str(beside("x"))))
        in_loop(lambda: None)
    assert len(answers) == 1 and answers[0]
