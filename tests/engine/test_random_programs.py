"""Random programs as items: recorded over workers that die at random, replayed in one process."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from appl import map as appl_map
from appl.testing import Fake, Policy, Retries
from appl.testing.engine import Threads
from tests.engine.worlds import World, replay

sys.path.insert(0, str(Path(__file__).parent.parent / "tracing"))

import rehearsal


def drawn(request):
    """What is drawn for a question, always the same."""
    return rehearsal._sampled(request, random.Random(request.digest))


class Random(World):
    """A world in which every program ends, also when what it asks for always fails."""

    def __init__(self):
        super().__init__(drawn, policy=Policy(retries=Retries(attempts=1), circuit=None))

    def backend(self):
        made = Fake(drawn, features=rehearsal.FEATURES, pieces=rehearsal._pieces)
        self.backends.append(made)
        return made


def item(seed):
    return repr(rehearsal.program(seed))


SEEDS = [seed for seed in range(400) if seed % 5]


@pytest.mark.parametrize("chance", [0, pytest.param(0.03, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "number", [0, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 2))]
)
def test_a_map_of_random_programs_replays(number, chance, tmp_path):
    seeds = SEEDS[number * 12 : number * 12 + 12]
    dice = random.Random(number)
    engine = Threads(workers=2, at_once=4, tries=40, lose=lambda _: dice.random() < chance)
    with Random().run(tmp_path / "trace"):
        values = appl_map(item, seeds, on_error="collect", engine=engine)

    def again():
        return [str(each) for each in appl_map(item, seeds, on_error="collect", engine=engine)]

    assert replay(tmp_path / "trace", again) == [str(each) for each in values]
