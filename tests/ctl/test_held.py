"""Calls that an earlier run's record holds back are listed with the reason, and can be cancelled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appl.errors import ControlError
from appl.parts.control import words
from appl.session import replayed
from appl.session.resume import resume_session
from appl.testing import Run
from appl.tracing import Rerunner, Resumer, Trace

from .live import Going, Recorded, Watched, control, eventually, recorded
from .programs import answer, said

LIVE, KNOWN, LATER = (f"/answer.{number}/gen.0" for number in range(3))


class Steps:
    """A program that stops between two of its calls, until it may go on."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def __call__(self) -> list[str]:
        live, known = answer("live"), answer("known")
        self.may_go_on.wait(60)
        return [said(known), said(answer("later")), said(live)]


class Waits(Resumer):
    """Lets nothing go before its program goes on."""

    program: Steps

    def idle(self, final: bool = True) -> bool:
        return self.program.may_go_on.is_set() and super().idle(final)


class Looks(Rerunner):
    """Looks for calls that have moved when it may."""

    may = threading.Event()

    def idle(self, final: bool = True) -> bool:
        return self.may.is_set() and super().idle(final)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The trace of a run that was broken off when one of its calls had no answer yet."""
    path, cut = tmp_path / "whole.trace", tmp_path / "cut.trace"
    program = Steps()
    program.may_go_on.set()
    with recorded(program, path) as made:
        made.backend.has(LIVE, KNOWN)
        made.backend.release(KNOWN)
        made.backend.has(LATER)
        made.backend.release(LATER)
        eventually(lambda: getattr(Trace.open(path).by_address.get(LATER), "response", None))
        cut.write_bytes(path.read_bytes())
    return cut


@contextmanager
def resumed(path: Path) -> Iterator[tuple[Recorded, Steps]]:
    """The run of *path* goes on, up to where its program stops."""
    program, resumer = Steps(), Waits(Trace.open(path))
    resumer.program = program
    made = Recorded(lambda: resume_session(resumer, say=lambda line: None), program)
    try:
        eventually(lambda: made.session.control_server.path and len(shown(made)) == 2)
        yield made, program
    finally:
        program.may_go_on.set()
        made.backend.release()
        made.close()


def shown(made: Recorded) -> dict[str, Any]:
    return {each["call"]: each for each in made.ask("show")["calls"]}


def sentences(made: Recorded) -> dict[str, str]:
    return {address: words.reason(each) for address, each in shown(made).items()}


def test_what_is_held_back_is_listed_with_what_is_still_to_come(broken: Path) -> None:
    with resumed(broken) as (made, program):
        assert sentences(made) == {
            LIVE: "held back: 2 recorded ends are still to come",
            KNOWN: "its recorded end comes in its turn",
        }
        counts = made.ask("run")["counts"]
        assert counts == {"worker": 0, "queue": 0, "prompt": 0, "record": 2}
        assert words.counts({"counts": counts}).endswith("2 held back by the record")
        program.may_go_on.set()
        made.backend.has(LIVE)
        assert list(shown(made)) == [LIVE]
        made.backend.release()
        assert len(made.over()) == 3
    assert made.backend.came == [LIVE]


def test_what_is_held_back_can_be_cancelled_and_is_never_asked(broken: Path) -> None:
    with resumed(broken) as (made, program):
        assert made.ask("cancel", at=LIVE)["when"] == "later"
        assert sentences(made)[LIVE] == (
            "was cancelled by appl ctl, which takes effect later: 2 recorded ends are still to come"
        )
        program.may_go_on.set()
        value = made.over()
    assert value[2] == "cancelled" and made.backend.came == []
    with replayed(broken):
        assert program() == value


def test_what_is_recorded_cannot_be_cancelled_any_more(broken: Path) -> None:
    with resumed(broken) as (made, program):
        with pytest.raises(ControlError, match="had ended before the run was broken off"):
            made.ask("cancel", at=KNOWN)
        program.may_go_on.set()
        made.backend.has(LIVE)
        made.backend.release()
        assert "cancelled" not in made.over()


def test_what_may_have_moved_is_held_back_in_a_rerun(broken: Path) -> None:
    rerunner = Looks(Trace.open(broken))
    made = Going(
        lambda: Run(Watched(), world=rerunner, instruments=[rerunner]),
        lambda: [said(each) for each in [answer("known"), answer("known")]],
    )
    eventually(lambda: len(made.why()) == 2)
    assert made.why() == {LIVE: ("record", "stray"), KNOWN: ("record", "recorded")}
    made.look(lambda run: [control(run, "cancel", at=held.call.address) for held in run.holdings()])
    rerunner.may.set()
    assert made.over() == ["cancelled", "cancelled"] and not rerunner.asked
