"""Every published name of APPL exists, or the page says what to write in its place."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import appl
from appl.parts import compat

from .surface import exists, names

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-appl.md"


def gone() -> set[str]:
    """The names in the first column of the page's last table."""
    table = PAGE.read_text("utf-8").partition("## Gone")[2]
    rows = re.findall(r"^\| (.*?) \|", table, flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_every_name_is_here_or_has_a_replacement() -> None:
    missing = [name for name in names() if not exists(name)]
    told = gone()
    assert [name for name in missing if name not in told and _module(name) not in told] == []


def test_the_page_calls_nothing_gone_that_is_here() -> None:
    published = set(names())
    assert sorted(gone() - published) == []
    assert [name for name in sorted(gone()) if exists(name)] == []


def _module(name: str) -> str:
    return ".".join(name.split(".")[:2])


def test_there_are_as_many_names_as_were_published() -> None:
    assert len(list(names())) > 300 and len(set(names())) == len(list(names()))


def test_a_star_import_offers_one_name_for_each_thing_and_none_of_appl_0_2() -> None:
    values = {name: getattr(appl, name) for name in appl.__all__}
    assert len({id(value) for value in values.values()}) == len(values)
    assert not {*compat.WHERE, *compat.MODULES} & set(values)


def test_a_name_of_appl_0_2_is_imported_without_a_warning() -> None:
    code = "".join(f"from appl import {name}\n" for name in (*compat.WHERE, *compat.MODULES))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_name_of_appl_0_2_is_loaded_before_it_is_used() -> None:
    code = "import sys\nfrom appl import gen, ppl, map, call\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith("appl.parts.compat.")]
