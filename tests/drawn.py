"""Random examples: some in each run of the tests, and many more in the long ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings


def counts(often: int, seldom: int, name: str = "count") -> pytest.MarkDecorator:
    """A test has the number *often* as *name* in each run, and *seldom* in the long ones."""
    return pytest.mark.parametrize(name, [often, pytest.param(seldom, marks=pytest.mark.long)])


def examples(
    often: int, seldom: int, *drawn: Any, **named: Any
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """A test gets what is *drawn*, as by ``hypothesis.given``, so many times in a run."""

    def made(check: Callable[..., None]) -> Callable[[int], None]:
        def test(count: int) -> None:
            settings(max_examples=count)(given(*drawn, **named)(check))()

        test.__name__, test.__module__, test.__doc__ = (
            check.__name__, check.__module__, check.__doc__
        )  # fmt: skip
        return counts(often, seldom)(test)

    return made
