"""What came next when a run was recorded: a replay knows whether it is what it would let go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rehearsal

from appl.testing import Run
from appl.tracing import Replayer
from appl.tracing.replaying.sequencer import Missing


def told() -> Missing:
    """Three things that a program was told of, one after the other."""
    return Missing([((at, 1), f"/{name}.0") for at, name in enumerate("abc")])


def due(*turns: int) -> Callable[[tuple[int, int], str], bool]:
    """True of those things that come in these turns."""
    return lambda turn, address: turn[0] in turns


def test_nothing_is_missing_before_what_comes_first() -> None:
    assert not told().before((0, 1), due(0))


def test_what_came_before_and_nobody_waits_for_yet_is_missing() -> None:
    recorded = told()
    assert not recorded.before((0, 1), due(0, 2))
    assert recorded.before((2, 1), due(0, 2))
    assert not recorded.before((2, 1), due(0, 1, 2))


def test_what_is_excused_is_not_missing() -> None:
    assert not told().before((2, 1), lambda turn, address: address in ("/a.0", "/b.0"))


def test_what_nobody_was_told_comes_behind_all_that_somebody_was_told() -> None:
    recorded = told()
    assert recorded.before((7, 1), due(0, 1, 7))
    assert not recorded.before((7, 1), due(0, 1, 2, 7))


def test_what_is_given_up_is_not_missing_any_more() -> None:
    recorded = told()
    recorded.give_up((2, 1))
    assert not recorded.before((2, 1), due())


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
