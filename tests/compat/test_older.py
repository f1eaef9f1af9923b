"""Older spellings do what the newer ones do, and warn once."""

from __future__ import annotations

import warnings

import pytest

from appl import AIMessage, Text, ToolCall, as_tool, call, gen, ppl
from appl.backend import Response, Sample
from appl.errors import InvalidOption, OutputError, UnknownOption, Unsupported
from appl.parts.compat.older import told_once
from appl.testing import Echo, Scripted, running
from appl.types import ExecutorType


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_a_spelling_warns_once_where_it_is_used() -> None:
    with pytest.warns(DeprecationWarning, match="one-of-a-kind is an older spelling") as seen:
        for _ in range(3):
            told_once("one-of-a-kind", "another")
    assert len(seen) == 1 and seen[0].filename == __file__


def test_options_of_the_decorator(quiet) -> None:
    @ppl(include_docstring=True)
    def documented():
        """Be brief."""
        return gen()

    with running(Echo()) as seen:
        str(documented())
    assert list(seen.prompts.values()) == ["user: Be brief."]
    with pytest.raises(UnknownOption, match="'compos'"):
        ppl(compos=1)


def test_options_of_gen_and_call(quiet) -> None:
    def add(a, b):
        return a + b

    def own(executor_type):
        return executor_type

    with running(Echo(models=("a", "b"))) as seen:
        str(gen(server="b", messages="x"))
        assert call(add, 1, b=2, executor_type=ExecutorType.NEW_THREAD).result() == 3
        assert call(own, executor_type=4).result() == 4
    assert seen.requests[0].model == "b"


def test_a_response_model_is_a_response_format(quiet) -> None:
    with running(Scripted(["none", "4", "none", "none", "7"])):
        answer = gen(messages="x", response_model=int, max_retries=1)
        assert answer.result() == 4
        with pytest.raises(OutputError, match="asked 2 times for int"):
            gen(messages="x", response_model=int, max_retries=1).result()
        assert gen(messages="x", response_format=int, max_retries=0).result() == 7
        with pytest.raises(InvalidOption, match="they are the same; leave out response_model"):
            gen(messages="x", response_format=int, response_model=int)
        with pytest.raises(InvalidOption, match="takes a whole number, got 'x'"):
            gen(messages="x", response_model=int, max_retries="x")
        with pytest.raises(UnknownOption, match="write max_asks="):
            gen(messages="x", max_retries=2)
    with running(Echo(options=frozenset({"max_retries"}))) as seen:
        str(gen(messages="x", max_retries=2))
    assert seen.requests[0].sampling.extra == (("max_retries", 2),)


def test_an_option_that_has_gone_says_what_to_write() -> None:
    with running(Echo()), pytest.raises(UnknownOption, match="every call starts at once"):
        gen(messages="x", lazy_eval=True)


def test_log_probabilities_of_a_prompt_are_refused_before_the_call() -> None:
    with running(Echo()) as seen:
        with pytest.raises(UnknownOption, match=r"write gen\(prompt_logprobs=0\)"):
            gen(messages="x", logprob_start_len=0)
        with pytest.raises(Unsupported, match="prompt_logprobs"):
            gen(messages="x", prompt_logprobs=0)
    assert not seen.requests


def test_attributes_of_answers(quiet) -> None:
    tools = Response((Sample("", "tool_calls", tool_calls=(ToolCall("1", "f", "{}"),)),))
    with running(Scripted(["text", tools])):
        said, called = gen(messages="a"), gen(messages="b")
        assert (said.is_message, said.is_tool_call, said.is_obj) == (True, False, False)
        assert (called.is_message, called.is_tool_call) == (False, True)
        assert said.results == said.response == said.as_prompt() == "text"
        assert [each.name for each in called.results] == ["f"]
        assert (said.response_type, called.response_type) == ("text", "tool_calls")
        assert said.id == said.call_id
        assert said.str_future == "text"
        assert isinstance(said.result(), Text) and said.result().is_message
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            said.nonsense
        assert said.result().id == said.call_id


def test_attributes_of_messages_and_tools(quiet) -> None:
    def double(x: int) -> int:
        """Twice x."""
        return 2 * x

    assert AIMessage("hi").get_content() == "hi"
    assert as_tool(double).openai_schema["function"]["name"] == "double"


def test_sampling_in_openais_words(quiet) -> None:
    with running(Echo(features=frozenset({"logprobs"}))) as seen:
        str(gen(messages="x", logprobs=True, top_logprobs=3, max_completion_tokens=5))
        str(gen(messages="x", logprobs=True))
        str(gen(messages="x", logprobs=False, top_logprobs=None))
        with pytest.raises(InvalidOption, match="they mean the same; leave one out"):
            gen(messages="x", max_tokens=4, max_completion_tokens=5)
        with pytest.raises(UnknownOption, match=r"\[backends.NAME\] headers"):
            gen(messages="x", extra_headers={"X-Team": "blue"})
    found = [(each.sampling.logprobs, each.sampling.max_tokens) for each in seen.requests]
    assert found == [(3, 5), (0, None), (None, None)]
