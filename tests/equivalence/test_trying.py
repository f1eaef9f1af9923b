"""``try`` means what it means in Python: programs full of it, judged by plain Python."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from .trying import BODIES, Trying, difference

PROGRAMS = 60
LONG = 20_000
BLOCK = 30
FEATURES = (*BODIES, "except*", "else", "finally", "async", "dare_same", "dare_again", "dare_copy")


def wrong(first: int, last: int) -> list[str]:
    """What is wrong with the programs of these seeds."""
    found = ((seed, difference(Trying(seed))) for seed in range(first, last + 1))
    return [f"program {seed}: {said}\n{Trying(seed).text}" for seed, said in found if said]


def all_wrong(first: int, last: int) -> list[str]:
    """The same in two processes."""
    firsts = range(first, last + 1, BLOCK)
    lasts = [min(each + BLOCK - 1, last) for each in firsts]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        return [each for part in pool.map(wrong, firsts, lasts) for each in part]


def test_every_program_does_what_plain_python_does() -> None:
    found = all_wrong(1, PROGRAMS)
    assert found == [], f"{len(found)} of {PROGRAMS} programs; the first: {found[0]}"


def test_every_form_stands_in_a_twentieth_of_the_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    marks: Counter[str] = Counter()
    for seed in range(1, PROGRAMS + 1):
        marks.update(set(Trying(seed).marks))
    shares = {name: marks[name] / PROGRAMS for name in FEATURES}
    with capsys.disabled():
        print(f"\n{PROGRAMS} programs full of try; share of programs with")
        for name, share in sorted(shares.items(), key=lambda each: -each[1]):
            print(f"  {name:20}{share:6.1%}  {'#' * round(40 * share)}")
    assert {name: share for name, share in shares.items() if share < 0.05} == {}


@pytest.mark.long
def test_many_more_programs_do_what_plain_python_does() -> None:
    assert all_wrong(10_001, 10_000 + LONG) == []
