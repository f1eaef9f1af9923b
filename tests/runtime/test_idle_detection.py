"""When all programs of a run rest: whoever holds something back is told at once, and not too soon."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appl import call, gen, ppl
from appl import map as appl_map
from appl.errors import TraceCorrupt
from appl.runtime.concurrency.fiber import Hub
from appl.runtime.concurrency.idle_detection import IdleDetection
from appl.runtime.run import Run
from appl.testing import Fake, Seeded
from appl.tracing import Recorder, Replayer, profile_data
from appl.tracing.replaying.resumer import Resumer


def watch() -> IdleDetection:
    """The watch over a run of which nothing is on its way."""
    run: Any = SimpleNamespace(over=False, busy=False)
    return IdleDetection(run, lambda final=True: False)


def on_a_thread(detection: IdleDetection, rests: bool) -> Hub:
    """The hub of a thread that has joined *detection*, and ended."""
    made: list[Hub] = []

    def program() -> None:
        hub = Hub()
        detection.joins(hub)
        if rests:
            hub.leaves()
        made.append(hub)

    thread = threading.Thread(target=program)
    thread.start()
    thread.join()
    return made[0]


def test_a_thread_that_has_ended_keeps_nobody_from_resting() -> None:
    detection = watch()
    for rests in (True, False):
        on_a_thread(detection, rests)
        assert detection.rests


class Ending(Hub):
    """A hub whose thread ends between two looks at it, having moved *other* before, if any."""

    def __init__(self, other: Hub | None = None) -> None:
        super().__init__()
        self._other, self._looks = other, 0

    def alive(self) -> bool:
        self._looks += 1
        if self._looks == 2 and self._other is not None:
            self._other.turns += 1
        return self._looks < 2


def test_a_thread_may_end_between_two_looks() -> None:
    detection, ending = watch(), Ending()
    detection.joins(ending)
    ending.leaves()
    assert detection.rests


def test_whom_it_has_woken_before_does_not_rest_yet() -> None:
    detection, other = watch(), Hub()
    for hub in (Ending(other), other):
        detection.joins(hub)
        hub.leaves()
    assert not detection.rests
    assert detection.rests, "it has come to rest since"


# -- what a replay waits for

FEW = 5
"""Of some dozens of deliveries: a machine that has no time for a thread may cost a wait or two."""


def record(path: Path, program: Callable[[], Any], backend: Any) -> Any:
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    try:
        with Run(backend, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier):
            return program()
    finally:
        recorder.close()


def replay(path: Path, program: Callable[[], Any]) -> tuple[Any, int]:
    """What *program* gives, and how often somebody was waited for in vain."""
    replayer = Replayer(path)
    run = Run(replayer.backend, instruments=[replayer], world=replayer)
    with run:
        value = program()
    replayer.finish()
    assert run.outside.idle_detection is not None
    return value, run.outside.idle_detection.waits


def resume(path: Path, program: Callable[[], Any]) -> tuple[Any, int]:
    """The same where the run goes on, which has nothing left to ask."""
    resumer, live = Resumer(path), Fake([])
    run = Run(live, instruments=[resumer], world=resumer)
    with run:
        value = program()
    assert run.outside.idle_detection is not None and not live.requests
    return value, run.outside.idle_detection.waits


@ppl
def ask(word: str) -> str:
    f"{word}"
    return str(gen())


def both(number: int) -> str:
    return ask(f"first {number}") + ask(f"second {number}")


def answer(request: Any) -> str:
    return str(request.messages.message.content.upper())


def test_a_replay_of_functions_on_worker_threads_waits_for_nobody(tmp_path: Path) -> None:
    def program() -> list[str]:
        return appl_map(both, range(20))

    values = record(tmp_path / "t.trace", program, Fake(answer))
    again, waits = replay(tmp_path / "t.trace", program)
    assert again == values
    assert waits < FEW, "nobody is outside of appl"


class Breaking(Replayer):
    """A replay that finds, when it is to give the next answer, that it cannot."""

    def idle(self, final: bool = True) -> bool:
        raise TraceCorrupt("the record of an answer is broken")


class Impatient(Resumer):
    """A resume that finds, when it is to give the next answer, that it cannot."""

    def idle(self, final: bool = True) -> bool:
        raise TraceCorrupt("the record of an answer is broken")


def caught() -> None:
    with contextlib.suppress(TraceCorrupt):
        ask("mouse")


async def in_a_coroutine() -> str:
    return await call(ask, "mouse")


@pytest.mark.parametrize(
    "program", [lambda: ask("mouse"), caught, lambda: asyncio.run(in_a_coroutine())]
)
def test_what_cannot_be_released_ends_the_run_with_the_error(tmp_path: Path, program: Any) -> None:
    path = tmp_path / "a.trace"
    record(path, program, Fake(answer))
    replayer, resumer = Breaking(path), Impatient(path)
    with pytest.raises(TraceCorrupt), Run(replayer.backend, world=replayer):
        program()
    with pytest.raises(TraceCorrupt), Run(Fake(answer), world=resumer):
        program()


@pytest.mark.parametrize("again", [replay, resume])
def test_a_thread_of_the_programs_own_that_only_waits_is_told(tmp_path: Path, again: Any) -> None:
    path = tmp_path / "a.trace"
    first = record(path, waited_for_elsewhere, Fake(answer))
    assert again(path, waited_for_elsewhere)[0] == first == ["MOUSE"]


@ppl
def waited_for_elsewhere() -> list[str]:
    "mouse"
    heard: list[str] = []
    said = gen()
    thread = threading.Thread(target=lambda: heard.append(str(said)))
    thread.start()
    thread.join()
    return heard


def side_by_side(*programs: Callable[[], None]) -> None:
    """Each of *programs* on a thread of the user's own."""
    threads = [threading.Thread(target=program) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_who_waits_for_another_is_waited_for_once(tmp_path: Path) -> None:
    def program() -> list[str]:
        over, waited, worked = threading.Event(), list[str](), list[str]()

        def waiting() -> None:
            waited.append(ask("begin"))
            over.wait()
            waited.append(ask("end"))

        def working() -> None:
            worked.extend(ask(f"step {number}") for number in range(20))
            over.set()

        side_by_side(waiting, working)
        return waited + worked

    values = record(tmp_path / "t.trace", program, Fake(answer))
    for answered in (replay, resume):
        again, waits = answered(tmp_path / "t.trace", program)
        assert again == values
        assert waits < FEW


def test_who_is_woken_by_way_of_another_thread_is_waited_for_anew(tmp_path: Path) -> None:
    def program() -> list[str]:
        asked, over, log = threading.Event(), threading.Event(), list[str]()

        def waiting() -> None:
            ask("begin")
            over.wait()
            log.append("woken")

        def helping() -> None:  # in no program
            asked.wait()
            sum(range(2_000_000))
            over.set()

        def working() -> None:
            for number in range(8):
                log.append(ask(f"step {number}"))
                if number == 5:
                    asked.set()

        side_by_side(waiting, helping, working)
        return log

    values = record(tmp_path / "t.trace", program, Seeded(0, answer))
    assert values.index("woken") == 6
    assert replay(tmp_path / "t.trace", program)[0] == values
