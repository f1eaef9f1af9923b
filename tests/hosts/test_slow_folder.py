"""A run whose trace is slow to open, to write, to sync or to close holds up no other run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import appl
from appl import config
from appl.session.session import Session, make_session
from appl.tracing import Recorder, Trace

PATIENCE_S = 60.0


@appl.ppl
def ask(question: str) -> str:
    f"{question}"
    return str(appl.gen())


@appl.ppl
async def aask(question: str) -> str:
    f"{question}"
    return str(await appl.gen())


class Gate:
    """Stops whoever passes it until somebody opens it; ``passing`` is set when one has come."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.passing, self.opened = threading.Event(), threading.Event()

    def __call__(self, point: str) -> None:
        if point == self.point:
            self.passing.set()
            assert self.opened.wait(PATIENCE_S)


def session(recorder: Callable[[Session], Recorder]) -> Session:
    settings = config.load({"backend": "appl.testing:Echo"})
    return make_session(settings, recorder=recorder, say=lambda line: None)


@contextmanager
def slow_run(gate: Gate, folder: Path) -> Iterator[threading.Thread]:
    """A run in *folder* that has come to *gate*; at the end the gate is opened."""

    def recorder(session: Session) -> Recorder:
        gate("before-open")
        return Recorder(folder / "slow.trace", {}, fault=gate)

    def run() -> None:
        slow = session(recorder)
        with slow.run:
            ask("slow?")
        slow.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert gate.passing.wait(PATIENCE_S)
    try:
        yield thread
    finally:
        gate.opened.set()
        thread.join(PATIENCE_S)


def still_waits(slow: threading.Thread, gate: Gate) -> bool:
    """True if the *slow* run stands at its *gate*; one that waits to be synced has ended before."""
    if gate.point == "before-sync":
        slow.join(PATIENCE_S)
        return not slow.is_alive() and not gate.opened.is_set()
    return slow.is_alive() and not gate.opened.is_set()


@pytest.mark.parametrize("point", ["before-open", "before-write", "before-sync"])
def test_a_slow_folder_holds_up_no_run_in_another_folder(point: str, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    gate = Gate(point)
    with slow_run(gate, tmp_path / "far") as thread:
        for number in range(3):
            with appl.record(tmp_path / f"{number}.trace", backend="appl.testing:Echo"):
                ask("quick?")
        assert still_waits(thread, gate)
    traces = [Trace.open(tmp_path / name) for name in ("far/slow.trace", "0.trace", "2.trace")]
    assert [(trace.state, len(trace.calls)) for trace in traces] == [("finished", 1)] * 3


@pytest.mark.parametrize("point", ["before-open", "before-sync"])
def test_runs_of_one_folder_wait_for_no_opening_and_no_sync_of_another(
    point: str, tmp_path: Path
) -> None:
    gate = Gate(point)
    with slow_run(gate, tmp_path) as thread:
        with appl.record(tmp_path / "quick.trace", backend="appl.testing:Echo"):
            ask("quick?")
        assert still_waits(thread, gate)
    assert len(Trace.open(tmp_path / "slow.trace").calls) == 1


def test_calls_that_wait_for_the_trace_start_in_their_order(tmp_path: Path) -> None:
    gate, questions = Gate("before-open"), [str(number) for number in range(20)]

    def recorder(session: Session) -> Recorder:
        gate("before-open")
        return Recorder(tmp_path / "run.trace", {})

    async def run() -> None:
        many = session(recorder)
        async with many.run:
            await asyncio.gather(*map(aask, questions))
        many.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert gate.passing.wait(PATIENCE_S)
    gate.opened.set()
    thread.join(PATIENCE_S)
    calls = Trace.open(tmp_path / "run.trace").calls
    starts = [call.started for call in calls]
    assert len(calls) == 20 and starts == sorted(starts)


def test_a_call_that_is_cancelled_while_its_trace_is_opened_asks_nobody(tmp_path: Path) -> None:
    gate = Gate("before-open")

    def recorder(session: Session) -> Recorder:
        gate("before-open")
        return Recorder(tmp_path / "run.trace", {})

    @appl.ppl
    async def leave() -> None:
        "cancelled?"
        appl.gen()
        assert await asyncio.to_thread(gate.passing.wait, PATIENCE_S)
        raise KeyError("the program fails")

    async def left() -> None:
        async with run.run:
            await leave()

    run = session(recorder)
    with pytest.raises(KeyError):
        asyncio.run(left())
    gate.opened.set()
    run.close()
    (call,) = Trace.open(tmp_path / "run.trace").calls
    assert call.started is None and call.outcome == "cancelled"


def test_each_call_is_refused_with_an_error_of_its_own_while_the_trace_cannot_be_opened(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("no folder")
    tries: list[int] = []

    def recorder(session: Session) -> Recorder:
        tries.append(1)
        return Recorder(tmp_path / "file" / "run.trace", {})

    refused = session(recorder)
    with refused.run:
        errors = appl.map(ask, ["a", "b", "c"], on_error="collect")
    refused.close()
    assert len(tries) == 3 and len({id(error) for error in errors}) == 3
    assert all("cannot record to" in str(error) for error in errors)
