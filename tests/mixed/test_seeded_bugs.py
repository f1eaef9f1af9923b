"""Bugs seeded on purpose are found by random programs of their kind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .forms import FORMS
from .mutants import SEEDED, hunt


def test_every_kind_of_programs_has_a_seeded_bug() -> None:
    assert {each.feature for each in SEEDED} == {form.feature for form in FORMS} - {"uncaught"}


def test_every_seeded_bug_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        folders = [tmp_path / str(number) for number in range(len(SEEDED))]
        found = list(pool.map(hunt, SEEDED, folders))
    with capsys.disabled():
        print(f"\n{len(SEEDED)} seeded bugs; programs until each was found")
        for seeded, programs in zip(SEEDED, found, strict=True):
            print(
                f"  {programs or 'not found':>9}  {seeded.feature}, {seeded.way}: {seeded.mutant.name}"
            )
    assert None not in found
