"""Every published name of APPL exists, or the page says what to write in its place."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

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
