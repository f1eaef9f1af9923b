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
from appl.runtime.run import Run
from appl.session import record, replayed, resumed
from appl.testing import Echo, Fake, response
from appl.tracing import Trace
from appl.tracing.reading.waits import waits_in


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
    with pytest.raises(RunWaiting) as ended, recorded(path, Batched()):
        both()
    assert [entry.kind for entry in ended.value.waits] == ["batch", "batch"]
    trace = Trace.open(path)
    assert (trace.state, trace.reason) == ("finished", "waiting")
    assert waits_in(trace) == list(ended.value.waits)
    backend = Batched(ready=True)
    with on_backend(backend), resumed(path) as session:
        assert both() == ["answer", "answer"]
    assert session.tally is not None and session.tally.live.calls == 2
    assert Trace.open(path).reason == "finished"


def recorded(path: Path, backend: Any) -> Any:
    return record(path, backend=_named(backend))


_backends: dict[str, Any] = {}


def _named(backend: Any) -> str:
    _backends["it"] = backend
    return f"{__name__}:made"


def made(**_: Any) -> Any:
    """The backend of this test."""
    return _backends["it"]


def on_backend(backend: Any) -> Any:
    import contextlib

    _backends["it"] = backend
    return contextlib.nullcontext()


@ppl
def patient() -> str:
    first = str(ask("one"))
    appl.sleep(days=3)
    return first + str(ask("two"))


def test_a_long_sleep_ends_the_run_and_its_end_stays_where_it_was(tmp_path: Path) -> None:
    path, backend = tmp_path / "a.trace", Echo()
    with pytest.raises(RunWaiting) as ended, recorded(path, backend):
        patient()
    with pytest.raises(RunWaiting) as again, resumed(path):
        patient()
    assert ended.value.waits == again.value.waits
    assert [(entry.address, entry.kind) for entry in ended.value.waits] == [("/patient.0", "time")]
    assert len(backend.requests) == 1


def test_a_replay_of_a_run_that_waits_goes_as_far_and_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with pytest.raises(RunWaiting) as ended, recorded(path, Echo()):
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

    with pytest.raises(RunWaiting), recorded(tmp_path / "a.trace", backend):
        appl.map(branch, [0, 1, 2])
    assert len(backend.requests) == 4


def test_a_coroutine_waits_in_the_same_way(tmp_path: Path) -> None:
    path, backend = tmp_path / "a.trace", Echo()

    async def main() -> None:
        async with recorded(path, backend):
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
    with pytest.raises(RunWaiting), recorded(path, backend):
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
