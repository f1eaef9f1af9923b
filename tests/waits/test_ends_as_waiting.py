"""Runs that end as waiting, and go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.backend import Emit, Request, Response
from appl.errors import Awaited, RunError, RunWaiting
from appl.session import replayed
from appl.testing import Echo, Fake, Run, response
from appl.tracing import Trace
from appl.tracing.reading import waits_in
from tests.waits.backends import answering, going_on, recorded


class Batched(Fake):
    """A backend whose answers come in a later process: *ready* says which are there."""

    def __init__(self, ready: bool = False) -> None:
        super().__init__(lambda request: "answer", name="batched")
        self.ready = ready
        self.held: dict[str, Request] = {}

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.requests.append(request)
        if self.ready:
            return response("answer")
        self.held[request.address] = request
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    def away(self) -> Iterator[Awaited]:
        """The calls that are away."""
        for address in self.held:
            yield Awaited(address, "batch", "batch b1 of 2 calls", None)


@ppl
def ask(question: str) -> Any:
    f"{question}"
    return gen()


@ppl
def both() -> list[str]:
    answers = [ask("one"), ask("two")]
    return [str(answer) for answer in answers]


def test_a_run_whose_batch_is_away_ends_as_waiting_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with pytest.raises(RunWaiting) as ended, answering(Batched()), recorded(path):
        both()
    assert [entry.kind for entry in ended.value.waits] == ["batch", "batch"]
    trace = Trace.open(path)
    assert (trace.state, trace.reason) == ("finished", "waiting")
    assert waits_in(trace) == list(ended.value.waits)
    backend = Batched(ready=True)
    with answering(backend), going_on(path) as session:
        assert both() == ["answer", "answer"]
    assert session.tally is not None and session.tally.live.calls == 2
    assert Trace.open(path).reason == "finished"


@ppl
def patient() -> str:
    first = str(ask("one"))
    appl.sleep(days=3)
    return first + str(ask("two"))


def test_a_long_sleep_ends_the_run_and_its_end_stays_where_it_was(tmp_path: Path) -> None:
    path, backend = tmp_path / "a.trace", Echo()
    with pytest.raises(RunWaiting) as ended, answering(backend), recorded(path):
        patient()
    with pytest.raises(RunWaiting) as again, going_on(path):
        patient()
    assert ended.value.waits == again.value.waits
    assert [(entry.address, entry.kind) for entry in ended.value.waits] == [("/patient.0", "time")]
    assert len(backend.requests) == 1


def test_a_replay_of_a_run_that_waits_goes_as_far_and_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with pytest.raises(RunWaiting) as ended, answering(Echo()), recorded(path):
        patient()
    with pytest.raises(RunWaiting) as again, replayed(path):
        patient()
    assert ended.value.waits == again.value.waits


def test_other_branches_go_on_until_nothing_else_can(tmp_path: Path) -> None:
    backend = Echo()

    def branch(number: int) -> str:
        if number == 1:
            appl.sleep(days=1)
        return str(ask(f"{number}")) + str(ask(f"{number} again"))

    with pytest.raises(RunWaiting), answering(backend), recorded(tmp_path / "a.trace"):
        appl.map(branch, [0, 1, 2])
    assert len(backend.requests) == 4


def test_a_coroutine_waits_in_the_same_way(tmp_path: Path) -> None:
    path, backend = tmp_path / "a.trace", Echo()

    async def main() -> None:
        with answering(backend):
            async with recorded(path):
                await asyncio.gather(sleepy(), asker())

    async def sleepy() -> None:
        await appl.sleep(days=2)  # type: ignore[misc]

    async def asker() -> None:
        await ask("one")

    with pytest.raises(RunWaiting):
        asyncio.run(main())
    assert len(backend.requests) == 1
    assert Trace.open(path).reason == "waiting"


def test_a_program_that_swallows_the_end_still_ends_as_waiting(tmp_path: Path) -> None:
    path, backend = tmp_path / "a.trace", Echo()
    with pytest.raises(RunWaiting), answering(backend), recorded(path):
        try:
            appl.sleep(days=1)
        except BaseException:
            with pytest.raises(RunWaiting):
                ask("one")
    assert not backend.requests
    assert Trace.open(path).reason == "waiting"


def test_a_run_that_is_not_recorded_does_not_end_as_waiting() -> None:
    with pytest.raises(RunError, match="not recorded"), Run(Echo()):
        appl.sleep(days=1)


def test_a_run_around_one_that_waits_waits_too_and_both_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPL_HOME", str(tmp_path))
    path, backend = tmp_path / "a.trace", Echo()

    def outer() -> list[str]:
        return [str(ask("outer")), str(appl.run(inner, own=True)), str(ask("after"))]

    def inner() -> str:
        return str(ask("inner")) + str(appl.ask_person("Go?", bool))

    with answering(backend), pytest.raises(RunWaiting), recorded(path):
        outer()
    assert [entry.text for entry in waits_in(Trace.open(path))] == ["Go?"]
    host = appl.on_question(lambda question: question.answer(True))
    with answering(backend), host, going_on(path):
        assert outer()[1].endswith("True")
    assert len(backend.requests) == 2  # the run inside has a model of its own


def test_words_of_a_question_that_look_like_a_key_do_no_harm(tmp_path: Path) -> None:
    path, key = tmp_path / "a.trace", "sk-proj-" + "a1B2c3D4" * 6

    def program() -> bool:
        return bool(appl.ask_person(f"Is {key} right?", bool))

    with answering(Echo()), pytest.raises(RunWaiting), recorded(path):
        program()
    assert key.encode() not in path.read_bytes()
    host = appl.on_question(lambda question: question.answer(True))
    with answering(Echo()), host, going_on(path):
        assert program()
