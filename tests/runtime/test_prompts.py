"""What programs say, and what their calls are asked."""

from __future__ import annotations

import pytest

from appl import (
    AIMessage,
    AIRole,
    Conversation,
    PromptTypeError,
    SystemMessage,
    SystemRole,
    UserRole,
    convo,
    gen,
    grow,
    ppl,
    records,
    select,
)
from appl.errors import (
    ChoiceError,
    InvalidOption,
    ModelNotFound,
    RunError,
    UnknownOption,
    Unsupported,
)
from appl.testing import Echo, Scripted, running


@ppl
def asked(value):
    value
    return gen()


def prompt_of(program, *args):
    with running(Echo()) as seen:
        program(*args)
    return seen.prompts


@ppl(ctx="copy")
def answer(question):
    f"{question}"
    return gen()


@ppl
def interview(quote, questions):
    "Name the author of the quotation, then answer the questions."
    f"{quote}"
    with AIRole():
        f"The author is {gen(stop='.')}"
    return [answer(q) for q in questions]


def test_the_interview_runs():
    with running(Scripted({"/interview.0/gen.0": "Bohr", "/interview.0/answer.0/gen.0": "yes",
                           "/interview.0/answer.1/gen.0": "no"})) as seen:  # fmt: skip
        assert [str(each) for each in interview("To be", ["a?", "b?"])] == ["yes", "no"]
    assert seen.prompts["/interview.0/answer.1/gen.0"] == (
        "user: Name the author of the quotation, then answer the questions.\nTo be\n"
        "assistant: The author is Bohr\nuser: b?"
    )


def test_a_call_sees_what_stands_before_it_in_the_same_string():
    @ppl
    def chain():
        f"A{gen()}B{gen()}"

    with running(Scripted(["1", "2"])) as seen:
        chain()
    assert seen.prompts == {"/chain.0/gen.0": "user: A", "/chain.0/gen.1": "user: A1B"}


@pytest.mark.parametrize(
    ("value", "prompt"),
    [
        (None, ""),
        ("a", "user: a"),
        (["a", ("b", None)], "user: a\nb"),
        ((c for c in "ab"), "user: a\nb"),
        (SystemMessage("s"), "system: s"),
        ([AIMessage("x"), "y"], "assistant: x\nuser: y"),
        (
            Conversation([SystemMessage("s"), {"role": "user", "content": "u"}]),
            "system: s\nuser: u",
        ),
    ],
)
def test_a_statement_says_its_value(value, prompt):
    assert prompt_of(asked, value) == {"/asked.0/gen.0": prompt}


@pytest.mark.parametrize("value", [1, 1.5, True, {"a": 1}, {1}, b"x", object(), int, ["a", 1]])
def test_what_is_not_text_raises_and_adds_nothing(value):
    with running(Echo()) as seen, pytest.raises(PromptTypeError, match="not prompt text"):
        asked(value)
    assert seen.requests == []


def test_a_call_statement_ignores_what_is_not_text():
    @ppl
    def lenient(values):
        values.pop()
        values.count("x")
        "".join(["said"])
        dict(a="b")
        gen()

    assert prompt_of(lenient, [1, 2]) == {"/lenient.0/gen.0": "user: said"}


def test_contexts():
    @ppl
    def fresh():
        "new"
        gen()

    @ppl(ctx="copy")
    def copied():
        "copied"
        gen()

    @ppl(ctx="same")
    def shared():
        "shared"
        gen()

    @ppl
    def outer():
        "outer"
        fresh()
        copied()
        shared()
        gen()

    with running(Scripted(lambda r: "!")) as seen:
        outer()
    assert seen.prompts == {
        "/outer.0/fresh.0/gen.0": "user: new",
        "/outer.0/copied.0/gen.0": "user: outer\ncopied",
        "/outer.0/shared.0/gen.0": "user: outer\nshared",
        "/outer.0/gen.0": "user: outer\nshared\n!",
    }


def test_what_a_callee_returns_is_said_by_the_statement():
    @ppl
    def facts():
        "one"
        with AIRole():
            "two"
        return records()

    @ppl
    def outer():
        "zero"
        facts()
        gen()

    assert prompt_of(outer) == {"/outer.0/gen.0": "user: zero\none\nassistant: two"}


def test_records_of_a_shared_prompt_are_not_said_twice():
    @ppl(ctx="same")
    def more():
        "more"
        return records()

    @ppl
    def outer():
        "zero"
        more()
        gen()

    assert prompt_of(outer) == {"/outer.0/gen.0": "user: zero\nmore"}


def test_records_and_convo_are_readable():
    @ppl
    def outer():
        with SystemRole():
            "sys"
        f"hi {gen()}"
        return str(records()), convo()

    with running(Scripted(["there"])):
        text, conversation = outer()
    assert text == "system: sys\nuser: hi there"
    assert conversation.as_list() == [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "hi there"},
    ]
    assert [m.content for m in conversation] == ["hi there"]


def test_roles_nest_and_are_restored_after_an_exception():
    @ppl
    def roles():
        with AIRole():
            try:
                with UserRole():
                    "u"
                    raise KeyError
            except KeyError:
                "a"
        "u2"
        gen()

    assert prompt_of(roles) == {"/roles.0/gen.0": "user: u\nassistant: a\nuser: u2"}


def test_grow_is_the_explicit_form():
    @ppl
    def explicit():
        grow("a")
        gen()

    assert prompt_of(explicit) == {"/explicit.0/gen.0": "user: a"}
    with running(Echo()), pytest.raises(RunError):
        grow("nowhere")


def test_docstrings():
    @ppl
    def quiet():
        """Documentation."""
        "text"
        gen()

    @ppl(docstring_as="system")
    def loud():
        """Be brief."""
        gen()

    assert prompt_of(quiet) == {"/quiet.0/gen.0": "user: text"}
    assert prompt_of(loud) == {"/loud.0/gen.0": "system: Be brief."}


def test_default_return_is_the_prompt():
    @ppl(default_return="prompt")
    def part():
        "part"

    @ppl
    def whole():
        part()
        gen()

    assert prompt_of(whole) == {"/whole.0/gen.0": "user: part"}


def test_an_unknown_option_names_the_nearest():
    with running(Echo()):
        with pytest.raises(UnknownOption, match="did you mean 'temperature'"):
            gen(messages="x", temprature=1)
        with pytest.raises(InvalidOption):
            gen(messages="x", temperature="hot")
        with pytest.raises(Unsupported):
            gen(messages="x", regex="a+")


def test_an_option_that_the_backend_declares_is_passed_on():
    with running(Echo(options=["mirostat"])) as seen:
        gen(messages="x", mirostat=2)
    assert seen.requests[0].sampling.extra == (("mirostat", 2),)


def test_messages_can_be_given():
    with running(Echo()) as seen:
        first = gen(messages=[{"role": "user", "content": "x"}])
        gen(messages=[{"role": "user", "content": first}])
    assert seen.prompts["/gen.0"] == "user: x"
    assert seen.prompts["/gen.1"] == f"user: {first}"


def test_select_is_constrained_where_the_backend_can():
    with running(Scripted(["b"], features=["regex"])) as seen:
        g = select(["a", "b"], messages="?")
        assert g == "b"
        assert g.choice_method == "constrained"
    assert seen.requests[0].sampling.regex == "(a|b)"


def test_select_asks_again_until_the_answer_is_an_option():
    with running(Scripted(["both", "2"])) as seen:
        g = select(["tea", "milk"], messages="What?")
        assert g == "milk"
        assert (g.choice_method, g.finish_reason) == ("asked", "stop")
    assert list(seen.prompts) == ["/select.0", "/select.0/ask.1"]


def test_select_gives_up_after_three_answers():
    neither = pytest.raises(ChoiceError, match="neither")
    with running(Scripted(lambda r: "neither")) as seen, neither:
        str(select(["tea", "milk"], messages="What?"))
    assert len(seen.requests) == 3


@pytest.mark.parametrize("options", [[], ["a", "a"], ["a", ""], "ab"])
def test_impossible_options_are_refused(options):
    with running(Echo()), pytest.raises(InvalidOption):
        select(options, messages="?")


def test_method_logprob_forbids_falling_back():
    with running(Echo(features=["regex"])), pytest.raises(Unsupported):
        select(["a"], messages="?", method="logprob")


def test_samples():
    with running(Echo()):
        g = gen(messages="x", n=3)
        assert len(g.samples) == 3
        assert g == g.samples[0]


def test_a_model_that_the_backend_does_not_have_is_refused_before_any_call():
    with running(Echo(models=("small", "large"))) as seen:
        with pytest.raises(ModelNotFound, match="did you mean 'large'"):
            gen("lagre", messages="x")
        gen("small", messages="x")
    assert [request.model for request in seen.requests] == ["small"]
