"""The options of ``gen``: one list of names for help, signatures, type checkers and the run."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable
from typing import Any

import pytest

from appl import GenOptions, gen, gen_with_tools, select
from appl.errors import InvalidOption, UnknownOption
from appl.testing import Echo, Scripted, running

OPTIONS = {*GenOptions.__annotations__, "model", "response_format"}


def test_the_signature_of_gen_lists_every_option_once() -> None:
    found = inspect.signature(gen).parameters
    assert set(found) - {"options"} == OPTIONS
    assert found["n"].default == 1 and found["stream"].default is False


def test_help_describes_every_option_of_gen() -> None:
    text = pydoc.render_doc(gen, renderer=pydoc.plaintext)
    described = set(re.findall(r"^ {8,}(\w+): ", text, flags=re.MULTILINE))
    assert described == OPTIONS
    assert "@ppl" in text


@pytest.mark.parametrize("f", [select, gen_with_tools])
def test_help_shows_an_example(f: Callable[..., Any]) -> None:
    assert "@ppl" in pydoc.render_doc(f, renderer=pydoc.plaintext)


def test_options_of_the_backend_are_given_apart_or_among_the_others() -> None:
    seen: list[Any] = []

    def answer(request: Any) -> str:
        seen.append(request.sampling.extra)
        return "x"

    with running(Scripted(answer, options={"top_k"})):
        str(gen(messages="q", backend_options={"top_k": 4}))
        str(gen(messages="q", top_k=4))  # type: ignore[call-overload]
    assert seen == [(("top_k", 4),)] * 2


def test_an_unknown_option_of_the_backend_names_the_nearest() -> None:
    with running(Echo()), pytest.raises(UnknownOption, match=r"'tempratur'.*temperature"):
        gen(messages="q", backend_options={"tempratur": 1})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend_options": {"seed": 1}}, r"write gen\(seed=…\)"),
        ({"backend_options": {"top_k": 1}, "top_k": 2}, "stands in backend_options= too"),
        ({"backend_options": 5}, "takes a dict .* got 5"),
    ],
)
def test_an_option_in_the_wrong_place_is_an_error(options: dict[str, Any], words: str) -> None:
    with running(Echo()), pytest.raises(InvalidOption, match=words):
        gen(messages="q", **options)


def test_select_refuses_options_that_only_gen_has() -> None:
    with running(Echo()), pytest.raises(UnknownOption, match=r"select\(\) has no .*'max_tokens'"):
        select(["a", "b"], messages="q", max_tokens=3)  # type: ignore[call-arg]
