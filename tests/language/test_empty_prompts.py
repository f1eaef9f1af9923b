"""An empty prompt is refused where the source shows where its text stands, and told once elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from appl import Conversation, PromptContext, gen, ppl
from appl.errors import InvalidOption
from appl.testing import Echo, Run, running


@ppl
def documented() -> object:
    """Name the capital of France."""
    return gen()


@ppl
def silent() -> object:
    return gen()


@ppl
def meant() -> object:
    ""
    return gen()


@ppl
def waiting() -> object:
    first = gen(messages="Name a country.")
    f"{first}"
    return gen()


def test_an_empty_prompt_is_refused_before_any_call() -> None:
    with running(Echo()) as backend:
        with pytest.raises(InvalidOption, match=r"of documented\(\) is empty: .* docstring"):
            documented()
        with pytest.raises(InvalidOption, match="outside of every prompt function"):
            gen()
        with pytest.raises(InvalidOption, match=r"gen\(messages=\[\]\) says nothing"):
            gen(messages=[])
        assert not backend.requests


@pytest.mark.parametrize(
    "ask",
    [
        lambda: gen(_ctx=PromptContext()),
        lambda: gen(messages=PromptContext().messages),
        lambda: gen(messages=Conversation()),
    ],
)
def test_an_empty_prompt_that_is_an_object_may_be_meant(ask: Callable[[], object]) -> None:
    told: list[str] = []
    with Run(Echo()) as run:
        run.reporter.tell = told.append
        for _ in range(2):
            str(ask())
    assert len(told) == 1 and "gen() was given an empty prompt" in told[0]


def test_an_empty_prompt_that_may_be_meant_is_told_once() -> None:
    told: list[str] = []
    with Run(Echo()) as run:
        run.reporter.tell = told.append
        assert str(silent()) and str(silent())
    [line] = told
    assert "test_empty_prompts.py:22: the prompt of silent() is empty" in line


@pytest.mark.parametrize("program", [meant, waiting])
def test_a_text_that_is_empty_or_pending_is_a_prompt(program: object) -> None:
    told: list[str] = []
    with Run(Echo()) as run:
        run.reporter.tell = told.append
        assert callable(program) and str(program())
    assert not told
