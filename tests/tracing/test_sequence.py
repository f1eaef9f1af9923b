"""What came next when a run was recorded: a replay knows whether it is what it would let go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import rehearsal

from appl.runtime.run import Run
from appl.tracing import Replayer
from appl.tracing.replaying.outstanding import Sequence


def nobody(address: str) -> bool:
    return False


def sequence(*due: int) -> Sequence:
    """Three things that a program was told of, those of the turns *due* about to be told again."""
    told = Sequence([((at, 1), f"/{name}.0") for at, name in enumerate("abc")])
    for at in due:
        told.comes((at, 1))
    return told


def test_what_comes_first_is_complete() -> None:
    assert sequence(0).complete((0, 1), nobody)


def test_what_came_after_something_that_nobody_waits_for_yet_is_not() -> None:
    told = sequence(0, 2)
    assert told.complete((0, 1), nobody)
    assert not told.complete((2, 1), nobody)
    told.comes((1, 1))
    assert told.complete((2, 1), nobody)


def test_nobody_has_to_ask_for_what_is_excused() -> None:
    assert sequence(0, 2).complete((2, 1), lambda address: address == "/b.0")


def test_what_nobody_was_told_comes_behind_all_that_somebody_was_told() -> None:
    told = sequence(0, 1, 7)
    assert not told.complete((7, 1), nobody)
    told.comes((2, 1))
    assert told.complete((7, 1), nobody)


class Watched(Replayer):
    """Notes of all that it lets go when everybody rests whether that came next."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.came_next: list[bool] = []

    def idle(self, final: bool = True) -> bool:
        came_next = self.due()
        released = super().idle(final)
        if released and final:
            self.came_next.append(came_next)
        return released


@pytest.mark.parametrize("seed", range(0, 40, 5))
def test_in_a_faithful_replay_all_comes_in_turn(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    values: Any = rehearsal.record(seed, path)[0]
    replayer = Watched(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert rehearsal.program(seed) == values
    assert replayer.came_next and all(replayer.came_next)
