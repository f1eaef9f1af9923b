"""Calls that workers have are listed by the run that called ``map``, and can be ended there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appl import map as appl_map
from appl.errors import CallCancelled
from appl.parts.control import words
from appl.testing import Run
from appl.testing.engine import Threads
from appl.tracing import Recorder, Trace, profile_data
from tests.ctl.live import Going, Watched, control, eventually, pause, resume
from tests.ctl.programs import answer, said
from tests.engine.worlds import replay

FIRST, SECOND = (f"/asked.{number}/answer.0/gen.0" for number in range(2))


def asked(word: str) -> str:
    return said(answer(word))


def program() -> Any:
    return appl_map(asked, ["a", "b"], engine=Threads(workers=2, at_once=1))


@contextmanager
def going(path: Path, answers: Callable[[Any], Any] | None = None, **options: Any) -> Iterator[Any]:
    """The program on two workers, whose calls are answered when the test says so."""
    backend = Watched(answers)
    recorder = Recorder(path, {"profile": profile_data(backend.profile), "seed": 5})

    def make() -> Run:
        return Run(backend, instruments=[recorder], seed=5, **options)

    made = Going(make, program)
    try:
        yield made, backend
        made.over()
    finally:
        backend.release()
        recorder.close()


def shown(made: Going) -> dict[str, str]:
    """Why each call is not answered, in words."""
    found = made.look(lambda run: control(run, "show"))
    return {each["call"]: words.reason(each, found["backends"]) for each in found["calls"]}


def test_calls_of_workers_are_listed_with_the_worker(tmp_path: Path) -> None:
    with going(tmp_path / "trace") as (made, backend):
        backend.has(FIRST, SECOND)
        eventually(lambda: set(made.why().values()) == {("worker", "asked")})
        said = shown(made)
        assert said[FIRST].startswith("on worker 1: with watched for 0.")
        assert said[SECOND].startswith("on worker 2: with watched for 0.")
        backend.release(FIRST)
        eventually(lambda: list(made.why()) == [SECOND])
        backend.release()
    assert made.look(Run.holdings) == []


def test_a_call_that_waits_for_a_slot_says_so(tmp_path: Path) -> None:
    with going(tmp_path / "trace", concurrency=1) as (made, backend):
        eventually(lambda: sorted(why for _, why in made.why().values()) == ["asked", "slot"])
        (waiting,) = [at for at, (_, why) in made.why().items() if why == "slot"]
        number = 1 if waiting == FIRST else 2
        waits = f"on worker {number}: number 1 in the queue: 1 of at most 1 are on their way"
        assert shown(made)[waiting] == waits
        made.look(pause)
        assert (
            shown(made)[waiting] == f"on worker {number}: number 1 in the queue: the run is paused"
        )
        made.look(resume)
        backend.release(FIRST, SECOND)


def test_a_call_of_a_worker_can_be_ended_and_replays_so(tmp_path: Path) -> None:
    with going(tmp_path / "trace") as (made, backend):
        backend.has(FIRST, SECOND)
        calls = eventually(lambda: len(made.why()) == 2 and made.look(Run.holdings))
        assert FIRST in [each.call.address for each in calls]
        assert made.look(lambda run: control(run, "cancel", at=FIRST))["when"] == "now"
        eventually(lambda: backend.aborted == [FIRST])
        backend.release()
        assert made.over()[0] == "cancelled"
    ended = Trace.open(tmp_path / "trace").by_address[FIRST]
    assert ended.outcome == "failed" and isinstance(ended.error, CallCancelled)
    assert replay(tmp_path / "trace", program) == made.value
