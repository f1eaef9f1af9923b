"""The options of ``gen``: one list of names for help, signatures, type checkers and the run."""

from __future__ import annotations

import functools
import inspect
import json
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import GenOptions, gen, gen_with_tools, select
from appl.backend import FEATURES
from appl.errors import InvalidOption, UnknownOption
from appl.runtime.answers.gen_options import FEATURES as NEEDED
from appl.testing import Echo, Scripted, running
from appl.tracing import Trace

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


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_gen_takes_each_of_its_options(name: str) -> None:
    default = inspect.signature(gen).parameters[name].default
    with running(Echo()):
        try:
            gen(**{name: default, "messages": "q"})
        except UnknownOption:
            pytest.fail(f"{name!r} is a field of neither Sampling nor RequestOptions")


def test_a_backend_can_state_the_feature_of_each_option_that_needs_one() -> None:
    """The others are taken by every backend: ``_EVERYWHERE`` lists them."""
    assert {*NEEDED} & OPTIONS <= FEATURES, "add the name to FEATURES in appl/backend/__init__.py"


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


def test_a_json_schema_may_be_a_text() -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
    with running(Scripted(['{"a": 1}'])):
        assert gen(messages="q", response_format=schema).result() == {"a": 1}  # type: ignore[call-overload]


def test_the_stops_and_the_nucleus_of_a_run_are_defaults_of_its_calls(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    defaults: dict[str, Any] = {"stop": ["END"], "top_p": 0.5}
    with appl.record(path, backend="appl.testing:Echo", **defaults):
        str(gen(messages="q"))
        str(gen(messages="q", top_p=0.9))
    sent = [json.loads(call.sampling) for call in Trace.open(path).calls]
    assert [(each["stop"], each["top_p"]) for each in sent] == [(["END"], 0.5), (["END"], 0.9)]


def test_plain_code_tells_a_future_from_a_text_as_the_page_on_waiting_says() -> None:
    @functools.singledispatch
    def kind(value: object) -> str:
        return "object"

    @kind.register
    def _(value: str) -> str:
        return "text"

    with running(Echo()):
        future, value = gen(messages="q"), gen(messages="q").result()
        assert (kind(future), kind(value)) == ("object", "text")
        assert (isinstance(future, str), isinstance(value, str)) == (False, True)
