"""A value that cannot be meant is refused where it is given, with what could be written instead."""

from __future__ import annotations

import pytest

import appl
from appl import (
    AIMessage,
    Conversation,
    DashList,
    Definition,
    Image,
    Indexing,
    Logged,
    Message,
    PromptContext,
    Tagged,
    ToolMessage,
    UserMessage,
    define,
    empty_line,
    gen,
    ppl,
    timeout,
    traceable,
)
from appl.errors import InvalidOption, PromptTypeError, UnknownOption
from appl.testing import Echo, running


class Goal(Definition):
    name = "Goal"


class Quoted(DashList):
    def __init__(self, mark: str = ">", **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]


WRONG = [
    (lambda: Conversation(5), "a list of messages.* got 5"),
    (lambda: Conversation("text"), r"a list of messages, as in \[UserMessage.* got 'text'"),
    (lambda: Conversation(system_messages=5), "a list of messages.* got 5"),
    (lambda: Conversation().extend(5), "a list of messages.* got 5"),
    (lambda: Message("usr", "x"), "one of the roles .*got 'usr'; did you mean 'user'"),
    (lambda: Message("user", 5), "content of a message is text.* got 5"),
    (lambda: DashList(sep=5), r"DashList\(sep=...\) is text, got 5"),
    (lambda: DashList(indexing=5), r"DashList\(indexing=...\) is a method .* got 5"),
    (lambda: DashList(is_inline="yes"), r"is_inline=...\) is True or False, got 'yes'"),
    (lambda: Logged(prolog=5, epilog=""), r"Logged\(prolog=...\) is text, got 5"),
    (lambda: Tagged("a b>"), r"Tagged\(tag\) is the name alone, .* got 'a b>'"),
    (lambda: Tagged(""), r"Tagged\(tag\) is the name alone"),
    (lambda: Tagged("a", attrs={"a b": 1}), "'a b' is no name of an attribute"),
    (lambda: Tagged("a", attrs=5), r"Tagged\(attrs=...\) takes a dict, got 5"),
    (lambda: empty_line("x"), "at least 0, got 'x'"),
    (lambda: define(""), r"as in define\(.Goal.\), got ''"),
    (lambda: define(5), "a concept needs a name, .* got 5"),
    (lambda: Goal(5), r"Goal\(name\) is the concept's name, .* got 5; what states it is desc"),
    (lambda: Image("https://x", detail="hgh"), "low, high, auto; did you mean 'high'"),
    (lambda: Image("https://x", detail=5), "is one of low, high, auto"),
    (lambda: ppl(parallel="yes"), r"@ppl\(parallel=...\) is True or False, got 'yes'"),
    (lambda: ppl(auto_prime=1), r"@ppl\(auto_prime=...\) is True or False, got 1"),
    (lambda: ppl(model=""), r"@ppl\(model=...\) takes the name of a model, got ''"),
    (lambda: ppl(new_ctx_func=5), "a function that makes a PromptContext, got 5"),
    (lambda: traceable(5), "takes a function, or a name for one, got 5"),
    (lambda: traceable(metadata=5), r"traceable\(metadata=...\) takes a dict, got 5"),
    (lambda: timeout("x"), r"timeout\(seconds\) is a number of seconds, got 'x'"),
    (lambda: appl.sleep("x"), r"sleep\(seconds\) is a number of seconds, got 'x'"),
    (lambda: appl.map(len, ["a"], concurrency="x"), r"map\(concurrency='x'\)"),
    (lambda: appl.map(len, 5), r"map\(f, items\) takes a list of items, got 5"),
    (lambda: list(appl.iter(5)), r"appl.iter\(\) takes a list of items, got 5"),
    (lambda: appl.observe(5), r"got 5; write observe\(f, x\)"),
    (lambda: UserMessage("x", name=5), "name of a message's speaker, .* got 5"),
    (lambda: ToolMessage("x", tool_call_id=5), "id of a tool call, are text, got 5"),
    (lambda: AIMessage("x", tool_calls=5), "a list of ToolCall.* got 5"),
    (lambda: Indexing(5), r"Indexing\(method\) is .number.* got 5"),
    (lambda: Indexing("number", ind="x"), r"Indexing\(ind=...\) is a whole number, got 'x'"),
    (lambda: define("A", "{} {}"), r"\{\} stands for the name, got '\{\} \{\}'"),
    (lambda: appl.run(5), r"got 5; write appl.run\(f, x\), not appl.run\(f\(x\)\)"),
    (lambda: appl.render(5), r"got 5; write appl.render\(f, x\)"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_value_is_refused_where_it_is_given(wrong, said):
    with pytest.raises(InvalidOption, match=said):
        wrong()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stream": "yes"}, r"gen\(stream=...\) is True or False, got 'yes'"),
        ({"model": ""}, r"gen\(model=''\) names no model; leave it out"),
        ({"messages": []}, r"gen\(messages=\[\]\) says nothing: write gen\(messages="),
        ({"messages": None, "_ctx": 5}, r"gen\(_ctx=...\) takes a PromptContext, got 5; for mess"),
        ({"choices": 5}, "choices takes a list of strings, got 5"),
        ({"messages": [Message("user", "x"), 5]}, "got 5 in it"),
    ],
)
def test_a_wrong_option_is_refused_before_any_call(options, said):
    with running(Echo()) as backend:
        with pytest.raises(InvalidOption, match=said):
            gen(**{"messages": "x", **options})
        assert not backend.requests


def test_a_time_limit_is_a_number():
    with running(Echo()), pytest.raises(InvalidOption, match=r"result\(timeout=...\) is a number"):
        gen(messages="x").result(timeout="soon")


def test_an_unknown_setting_of_a_compositor_names_the_nearest():
    with pytest.raises(
        UnknownOption, match="DashList has no setting 'indnt'; did you mean 'indent'"
    ):
        DashList(indnt=3)
    with pytest.raises(UnknownOption, match=r"Tagged has no setting 'atrs'; .*'attrs'"):
        Tagged("a", atrs={})
    assert Quoted("|", indent=2)._format.indent == "  "


def test_grow_says_what_it_was_given():
    with pytest.raises(PromptTypeError) as error:
        PromptContext().grow(5)
    what, _, line, caret, correction = str(error.value).splitlines()
    assert (
        what == "a value of type int is not prompt text, which PromptContext().grow() takes (got 5)"
    )
    assert line[caret.index("^")] == "5" and caret.count("^") == 1
    assert correction == 'write f"{5}" to say it'


def test_what_is_meant_is_taken():
    assert str(Tagged("a b").prolog) == "<a b>"
    assert Image("https://x", detail="original").detail == "original"
    with running(Echo()):
        assert gen(messages="x", stream=None).done() in (True, False)
