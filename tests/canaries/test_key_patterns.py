"""The quick patterns, which are made of the tables of keys."""

from __future__ import annotations

from appl.prompt.key_patterns import FIRST

from .key_patterns import patterns


def test_the_quick_patterns_are_those_that_the_tables_give() -> None:
    assert tuple(patterns()) == FIRST, "run: python -m tests.canaries.key_patterns"
