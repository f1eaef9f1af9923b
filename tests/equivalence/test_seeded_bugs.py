"""Bugs seeded on purpose in compiler and runtime are all found by random programs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from drawn import counts

from .mutants import MUTANTS, UNHURT, hunt, text_with


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
def test_every_seeded_bug_is_found(
    every: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = MUTANTS[::every]
    with ThreadPoolExecutor(2) as pool:
        folders = [tmp_path / str(number) for number in range(len(mutants))]
        found = list(pool.map(hunt, mutants, folders))
    with capsys.disabled():
        print(f"\n{len(mutants)} seeded bugs; programs until each was found")
        for mutant, programs in zip(mutants, found, strict=True):
            begun = "" if mutant.first == 1 else f" (from program {mutant.first})"
            print(f"  {programs or 'not found':>9}  {mutant.file:22} {mutant.name}{begun}")
    assert [m.name for m, programs in zip(mutants, found, strict=True) if programs is None] == []


def test_every_seeded_bug_has_its_place() -> None:
    for mutant in MUTANTS:
        text_with(mutant)


@counts(8, 40)
def test_the_copy_without_a_bug_agrees(count: int, tmp_path: Path) -> None:
    assert hunt(UNHURT, tmp_path, seeds=count) is None
