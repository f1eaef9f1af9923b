"""Programs with limits, locks, pools, tasks, queues, tools, generators and shared objects.

Plain Python judges them; they are replayed in other processes, killed and gone on with, and edited.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .census import FEATURES
from .edits import EDITS
from .spread import Judged, judged

PROGRAMS, REPLAYS, CUTS, KILLS, EDITED = 64, 32, 16, 6, 20
LONG = 20_000


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judged(1, PROGRAMS, tmp_path_factory.mktemp("mixed"), (REPLAYS, CUTS, KILLS, EDITED))


def test_every_program_does_what_plain_python_does(
    found: Judged, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = found.plain.shares()
    with capsys.disabled():
        print(f"\n{PROGRAMS} programs; share of programs with")
        for name, share in sorted(shares.items(), key=lambda each: -each[1]):
            print(f"  {name:20}{share:6.1%}  {'#' * round(40 * share)}")
    assert found.plain.programs == PROGRAMS and found.plain.faults == []
    assert {name: shares[name] for name in FEATURES if shares[name] < 0.05} == {}


def test_other_processes_replay_them_and_ask_at_the_same_addresses(found: Judged) -> None:
    again = found.parts["replayed in another process"]
    assert again.programs >= REPLAYS and again.faults == []


def test_what_is_cut_off_goes_on_pays_nothing_twice_and_replays(found: Judged) -> None:
    cut = found.parts["cut off and gone on with"]
    assert cut.programs >= CUTS and cut.faults == []


def test_so_does_a_program_whose_process_is_killed(found: Judged) -> None:
    killed = found.parts["killed and gone on with"]
    assert killed.programs >= KILLS / 2 and killed.faults == []  # others end before


def test_edited_programs_get_their_own_answers_and_unedited_ones_pay_nothing(found: Judged) -> None:
    edited = found.parts["edited and rerun"]
    assert edited.programs >= EDITED and edited.faults == []
    assert set(edited.reuse.edits) == set(EDITS)
    assert edited.reuse.reused >= 0.95 * edited.reuse.ceiling > 0


def test_predictions_of_edited_programs_hold(
    found: Judged, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions = found.parts["edited and rerun"].predictions
    with capsys.disabled():
        print(f"\npredictions: {predictions}")
    assert not predictions.wrong, predictions.wrong
    # How far a program gets that cancels what races may depend on the load, and so may "at least".
    assert len(predictions.vague) <= EDITED // 50, predictions.vague


@pytest.mark.long
def test_many_more_programs(tmp_path: Path) -> None:
    assert judged(10_001, 10_000 + LONG, tmp_path).faults == []
