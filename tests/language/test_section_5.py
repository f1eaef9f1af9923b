"""`gen` and `select`: what they take, what they refuse, what they return."""

from __future__ import annotations

import asyncio

import pytest

from appl import AIMessage, Conversation, Text, UserMessage, gen, ppl, select
from appl.backend import Response, Sample
from appl.errors import ChoiceError, InvalidOption, MalformedResponse, UnknownOption, Unsupported
from appl.testing import Echo, Fake, Scripted, running


def test_an_unknown_option_names_the_nearest():
    with running(Echo()), pytest.raises(UnknownOption, match="did you mean 'temperature'"):
        gen(messages="x", temprature=1)


@pytest.mark.parametrize(
    "option",
    [
        {"max_tokens": 0}, {"max_tokens": 1.5}, {"temperature": -1}, {"temperature": float("nan")},
        {"temperature": "hot"}, {"top_p": 2}, {"seed": "a"}, {"seed": True}, {"n": 0},
        {"stop": 3}, {"stop": ["a", 3]}, {"stop": ""}, {"timeout": -1},
        {"timeout": "5"}, {"priority": "high"}, {"logprobs": 1.5}, {"model": 3},
        {"messages": 5}, {"messages": [3]}, {"messages": [("user", "a")]},
        {"messages": [{"role": "usr", "content": "a"}]}, {"choices": ["a"], "normalize": "word"},
    ],
)  # fmt: skip
def test_an_impossible_value_is_refused_before_any_call(option):
    with running(Echo()) as seen, pytest.raises(InvalidOption):
        gen(**{"messages": "x", **option})
    assert seen.requests == []


METHODS = ["greedy_token_selection", "unconditional_likelihood_normalized"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("features", [(), ("choices",), ("regex",)])
def test_a_way_to_choose_needs_a_backend_that_has_it(method, features):
    with running(Echo(features=features)) as seen, pytest.raises(Unsupported, match="method="):
        select(["a", "b"], messages="x", method=method)
    assert seen.requests == []


@pytest.mark.parametrize("method", METHODS)
def test_a_way_to_choose_is_asked_of_the_backend(method):
    with running(Scripted(["a"], features=("choices", "choice_methods"))) as seen:
        assert gen(choices=["a", "b"], messages="x", method=method) == "a"
        with pytest.raises(InvalidOption, match="greedy_token_selection"):
            select(["a", "b"], messages="x", method=method, normalize="token")
    assert seen.requests[0].sampling.normalize == method


@pytest.mark.parametrize("end", [True, False, None])
def test_a_choice_says_whether_its_end_counts(end):
    with running(Scripted(["a"], features=("choices",))) as seen:
        assert select(["a", "b"], messages="x", end=end) == "a"
    assert seen.requests[0].sampling.choice_end is end
    assert ("choice_end" in seen.requests[0].sampling.canonical()) == (end is not None)


def test_the_end_is_an_option_of_choices_alone():
    with running(Echo()) as seen:
        with pytest.raises(InvalidOption, match="choices"):
            gen(messages="x", end=True)
        with pytest.raises(InvalidOption, match="True or False"):
            select(["a", "b"], messages="x", end="yes")
    assert seen.requests == []


@pytest.mark.parametrize("option", [{"regex": "a"}, {"grammar": "root ::= 'a'"}])
def test_a_constraint_needs_a_backend_that_can(option):
    with running(Echo()) as seen, pytest.raises(Unsupported, match="echo"):
        gen(messages="x", **option)
    assert seen.requests == []


def test_a_broken_pattern_is_refused():
    with running(Echo(features=["regex"])), pytest.raises(InvalidOption, match="regex"):
        gen(messages="x", regex="(")


def test_equal_numbers_of_other_types_are_other_requests():
    with running(Echo()) as seen:
        gen(messages="x", temperature=1)
        gen(messages="x", temperature=1.0)
        gen(messages="x", temperature=1)
    asked = sorted(seen.requests, key=lambda request: request.address)
    first, second, third = (request.digest for request in asked)
    assert first == third != second


@pytest.mark.parametrize(
    "messages",
    ["a", {"role": "user", "content": "a"}, [UserMessage("a")], Conversation([UserMessage("a")])],
)
def test_messages_may_be_given_in_several_forms(messages):
    with running(Echo()) as seen:
        gen(messages=messages)
    assert list(seen.prompts.values()) == ["user: a"]


def test_given_messages_may_hold_answers():
    with running(Scripted(lambda request: "x")) as seen:
        answer = gen(messages="q")
        gen(messages=answer)
        gen(messages=[AIMessage(answer), {"role": "user", "content": answer}])
    assert seen.prompts["/gen.1"] == "user: x"
    assert seen.prompts["/gen.2"] == "assistant: x\nuser: x"


def test_given_messages_leave_the_prompt_of_the_program_aside():
    @ppl
    def program():
        "in the prompt"
        return gen(messages="given")

    with running(Echo()) as seen:
        program()
    assert list(seen.prompts.values()) == ["user: given"]


def test_every_way_to_the_value_gives_the_same_text():
    async def waiting(answer):
        return await answer

    with running(Scripted(["abc"])):
        answer = gen(messages="x")
        ways = str(answer), answer.result(), answer.result(timeout=5), asyncio.run(waiting(answer))
    assert ways == ("abc",) * 4 and {type(way) for way in ways} == {Text}


def test_what_the_backend_does_not_say_is_none():
    with running(Fake(lambda request: Response((Sample("a", "stop"),)))):
        answer = gen(messages="x")
        assert answer.usage.prompt_tokens is answer.usage.cached_tokens is None
        assert answer.cost is answer.logprobs is None


@pytest.mark.parametrize("samples", [(), (Sample("a", "stop"),)])
def test_missing_samples_are_a_malformed_response(samples):
    with running(Fake(lambda request: Response(samples))):
        answer = gen(messages="x", n=2)
        with pytest.raises(MalformedResponse, match="1 of 2 samples" if samples else "no samples"):
            str(answer)


def test_a_choice_by_log_probability_says_its_scores():
    def scored(request):
        assert request.sampling.choices == ("yes", "no")
        return Response((Sample("yes", "stop"),), scores=(-0.1, -2.0))

    with running(Fake(scored, features=["choices"])):
        picked = select(["yes", "no"], messages="?")
        assert (picked, picked.choice_method) == ("yes", "logprob")
        assert picked.scores == (-0.1, -2.0) and picked.call_id == "/select.0"


def test_a_choice_by_constrained_decoding_quotes_the_options():
    with running(Fake(lambda request: "a.b", features=["regex"])) as seen:
        picked = select(["a.b", "c"], messages="?")
        assert (picked, picked.choice_method) == ("a.b", "constrained")
    assert seen.requests[0].sampling.regex == r"(a\.b|c)"


@pytest.mark.parametrize(
    ("more", "said", "cut"),
    [([], '"a \\"b\\""', '"a'), (["schema_object"], '{"value": "a \\"b\\""}', '{"value": "a')],
)
def test_a_choice_by_a_schema_where_there_is_nothing_else(more, said, cut):
    backend = Scripted([said, cut], features=["schema", *more])
    with running(backend) as seen:
        picked = select(['a "b"', "c"], messages="?")
        assert (picked, picked.choice_method) == ('a "b"', "constrained")
        with pytest.raises(ChoiceError, match="asked once"):
            select(['a "b"', "c"], messages="?").result()
    assert list(seen.prompts.values()) == ["user: ?", "user: ?"]


def test_a_choice_that_is_asked_again_counts_every_attempt():
    with running(Scripted(["maybe", "2"])) as seen:
        picked = select(["yes", "no"], messages="?")
        assert (picked, picked.choice_method) == ("no", "asked")
        assert picked.usage.completion_tokens == 2
    assert list(seen.prompts) == ["/select.0", "/select.0/ask.1"]


@pytest.mark.parametrize("said", ["2", "2.", " No ", "'no'", "Option 2", "no."])
def test_an_asked_choice_is_understood(said):
    with running(Scripted([said])):
        assert select(["yes", "no"], messages="?") == "no"


def test_a_number_is_that_of_the_option_also_among_numbers():
    with running(Scripted(["2"])):
        assert select(["3", "1", "2"], messages="?") == "1"


def test_three_wrong_answers_are_a_choice_error():
    with running(Scripted(["maybe", "7", "x"])), pytest.raises(ChoiceError, match="asked 3 times"):
        str(select(["yes", "no"], messages="?"))


def test_several_samples_of_a_choice_are_refused():
    with (
        running(Echo()),
        pytest.raises(InvalidOption, match=r"response_format=Literal\[...\], n=2"),
    ):
        gen(messages="?", choices=["a", "b"], n=2)


def test_an_answer_may_hold_anything():
    strange = "\x1b]0;owned\x07\x1b[2J \x00 \ud800 \u202e"

    @ppl
    def program():
        f"{gen()}"
        return gen()

    with running(Scripted(lambda request: strange)) as seen:
        assert program() == strange
    assert list(seen.prompts.values())[1] == f"user: {strange}"
