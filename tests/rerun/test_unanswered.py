"""A program is run again after an edit, and something new that it asks is not answered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import Generation, gen, ppl
from appl.backend import Emit, Request, Response
from appl.testing import Fake, Run, response, said
from appl.tracing import Recorder, Replayer, Rerunner, profile_data
from appl.tracing.explaining import RerunReport

SOON = 5.0


def question_of(request: Request) -> str:
    return said(request).removeprefix("user: ")


class Moody(Fake):
    """Answers with the question, and one that begins with "silent" never."""

    def __init__(self) -> None:
        super().__init__(lambda request: response(question_of(request)))

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        if question_of(request).startswith("silent"):
            await asyncio.get_running_loop().create_future()
        return await super().complete(request, emit)


class Brisk(Rerunner):
    """Gives up on live calls soon."""

    live_patience_s = 0.1


def recorded_in(path: Path, program: Callable[[], Any], again: Rerunner | None = None) -> Any:
    live = Moody()
    recorder = Recorder(path, {"program": "p", "profile": profile_data(live.profile)})
    watching = [recorder] if again is None else [again, recorder]
    try:
        with Run(live, instruments=watching, gate=recorder.gate, world=again) as run:
            run.reporter.tell = _unheard
            return program()
    finally:
        recorder.close()


def _unheard(line: str) -> None:
    """Nobody is told of programs that were left."""


def rerun(
    tmp_path: Path, first: Callable[[], Any], then: Callable[[], Any], kind: type[Rerunner] = Brisk
) -> tuple[Any, RerunReport]:
    """What *then* gives where *first* is recorded, and the report; the new trace replays."""
    recorded_in(tmp_path / "first.trace", first)
    again, into, begun = kind(tmp_path / "first.trace"), tmp_path / "then.trace", time.monotonic()
    value = recorded_in(into, then, again)
    assert time.monotonic() - begun < SOON
    replayer = Replayer(into)
    with Run(replayer.backend, instruments=[replayer], world=replayer) as run:
        run.reporter.tell = _unheard
        assert then() == value
    replayer.finish()
    return value, RerunReport(again)


@ppl
def ask(question: str) -> Generation:
    f"{question}"
    return gen()


@ppl
async def ask_soon(question: str) -> str:
    f"{question}"
    return str(await gen())


@ppl
def wait_for(question: str) -> str:
    f"{question}"
    return str(gen())


def in_block(question: str) -> Callable[[], str]:
    def program() -> str:
        try:
            with appl.timeout(0.05):
                return str(ask(question))
        except TimeoutError:
            return "late"

    return program


def in_async_block(question: str) -> Callable[[], str]:
    async def main() -> str:
        try:
            async with appl.timeout(0.05):
                return await ask_soon(question)
        except TimeoutError:
            return "late"

    return lambda: asyncio.run(main())


def by_result(question: str) -> Callable[[], str]:
    def program() -> str:
        try:
            return str(ask(question).result(timeout=0.05))
        except TimeoutError:
            return "late"

    return program


LIMITS = {"a block": in_block, "a block of a coroutine": in_async_block, "a result": by_result}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_that_was_reached_then_limits_an_edited_call(limit: str, tmp_path: Path) -> None:
    program = LIMITS[limit]
    value, report = rerun(tmp_path, program("silent"), program("silent, edited"), Rerunner)
    assert value == "late" and len(report.live) == 1


@pytest.mark.parametrize("limit", LIMITS)
def test_an_edited_call_that_is_answered_in_time_is_not_late(limit: str, tmp_path: Path) -> None:
    program = LIMITS[limit]
    value, report = rerun(tmp_path, program("silent"), program("spoken"), Rerunner)
    assert value == "spoken" and len(report.live) == 1


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_that_was_reached_then_is_not_waited_for(limit: str, tmp_path: Path) -> None:
    value, report = rerun(tmp_path, LIMITS[limit]("silent"), LIMITS[limit]("silent"), Rerunner)
    assert value == "late" and not report.live


def test_a_limit_that_was_added_does_not_have_another_end_that_was_kept_then(
    tmp_path: Path,
) -> None:
    def program(added: bool) -> Callable[[], list[str]]:
        def ask_in_time() -> list[str]:
            answers = []
            if added:
                with appl.timeout(30):
                    answers.append(str(ask("first")))
            with appl.timeout(60):
                answers.append(in_block("silent")())
                answers.append(str(ask("after")))
            return answers

        return ask_in_time

    value, _ = rerun(tmp_path, program(added=False), program(added=True), Rerunner)
    assert value == ["first", "late", "after"]


def test_a_question_that_moved_is_answered_before_the_limit_around_it(tmp_path: Path) -> None:
    def program(*before: str) -> Callable[[], list[str]]:
        def ask_in_time() -> list[str]:
            answers = [str(ask(question)) for question in before]
            try:
                with appl.timeout(0.05):
                    answers.append(str(ask("in time")))
                    ask("silent").result()
            except TimeoutError:
                answers.append("late")
            return answers

        return ask_in_time

    value, report = rerun(tmp_path, program(), program("before"), Rerunner)
    assert value == ["before", "in time", "late"]
    assert report.moved == 1 and len(report.live) == 2


def left_in_a_thread() -> None:
    thread = threading.Thread(target=lambda: appl.call(wait_for, "silent"))
    thread.start()
    thread.join()


def test_questions_that_moved_do_not_wait_for_the_call_of_a_left_program(tmp_path: Path) -> None:
    def then() -> list[str]:
        left_in_a_thread()
        return [str(ask(question)) for question in ("new", "a", "b", "c")]

    def first() -> list[str]:
        return [str(ask(question)) for question in "abc"]

    value, report = rerun(tmp_path, first, then, Rerunner)
    assert value == ["new", "a", "b", "c"] and report.moved == 3 and len(report.live) == 2


def test_what_may_be_recorded_elsewhere_waits_a_while_for_a_live_call(tmp_path: Path) -> None:
    def program(*questions: str) -> Callable[[], str]:
        async def main() -> str:
            tasks = [asyncio.create_task(ask_soon(question)) for question in questions]
            done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in rest:
                each.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            return "".join(each.result() for each in done)

        return lambda: asyncio.run(main())

    first, then = program("silent", "silent, too", "spoken"), program("silent again", "spoken")
    value, report = rerun(tmp_path, first, then)
    assert value == "spoken" and report.moved == 1 and len(report.live) == 1
