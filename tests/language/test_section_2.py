"""What an expression statement adds to the prompt."""

from __future__ import annotations

import asyncio
import collections

import pytest

from appl import (
    AIMessage,
    AIRole,
    PromptTypeError,
    ToolMessage,
    UserMessage,
    gen,
    grow,
    ppl,
    records,
)
from appl.testing import Echo, Held, Scripted, Seeded, running


def prompts(program, *args, backend=None):
    with running(backend or Echo()) as seen:
        program(*args)
    return list(seen.prompts.values())


def test_iterables_of_any_kind_say_their_items_in_order():
    @ppl
    def listing(*values):
        for value in values:
            value
        gen()

    values = map(str, [1, 2]), collections.deque("x"), {"key": 1}.keys(), ["a", ("b", None)]
    assert prompts(listing, *values) == ["user: 1\n2\nx\nkey\na\nb"]


def test_calls_that_an_iterable_makes_run_side_by_side():
    in_flight = []

    @ppl
    def about(word):
        f"{word}?"
        return gen()

    @ppl
    def listing():
        answers = map(about, "abc")
        answers
        return str(gen())

    def answer(request):
        in_flight.append(len(backend.requests))
        return "x"

    with running(Seeded(1, answer)) as backend:
        listing()
    assert in_flight[0] == 3
    assert list(backend.prompts.values())[-1] == "user: x\nx\nx"


def test_a_promptable_says_what_it_returns_recursively():
    class Inner:
        def __prompt__(self):
            return ["inner", None]

    class Outer:
        def __prompt__(self):
            return ("outer", Inner())

    @ppl
    def showing():
        Outer()
        value = Outer()
        value
        gen()

    assert prompts(showing) == ["user: outer\ninner\nouter\ninner"]


def test_a_promptable_class_is_not_its_instance():
    class Thing:
        def __prompt__(self):
            return "thing"

    @ppl
    def wrong():
        Thing

    with running(Echo()), pytest.raises(PromptTypeError, match="type type"):
        wrong()


def test_messages_keep_their_roles_wherever_they_are_said():
    @ppl
    def said():
        "u"
        with AIRole():
            ToolMessage("t")
            "a"
        message = UserMessage("v")
        message
        gen()

    assert prompts(said) == ["user: u\ntool: t\nassistant: a\nuser: v"]


def test_a_message_may_hold_an_answer():
    def made_elsewhere(answer):
        return AIMessage(answer)

    @ppl
    def chat():
        "u"
        made_elsewhere(gen())
        gen()

    assert prompts(chat, backend=Scripted(["x", "y"]))[1] == "user: u\nassistant: x"


def test_an_answer_is_said_as_a_future():
    backend = Held()

    @ppl
    def chat():
        (first := gen())
        second = gen()
        return first, second

    with running(backend):
        first, second = chat()
        assert first._pending.outcome is None and second._pending.outcome is None
        first.cancel()
        second.cancel()


def test_the_correction_names_the_expression():
    @ppl
    def wrong(points):
        points[0]

    with running(Echo()), pytest.raises(PromptTypeError, match=r'write f"\{points\[0\]\}"'):
        wrong([1])


def test_the_line_of_a_wrong_statement_is_the_innermost_of_the_users():
    @ppl
    def wrong(count):
        "text"
        count

    with running(Echo()), pytest.raises(PromptTypeError) as caught:
        wrong(3)
    own = [
        str(entry.statement).strip() for entry in caught.traceback if entry.path.name in __file__
    ]
    assert own[-1] == "count"


def test_parts_of_an_f_string_are_sent_before_the_next_is_asked():
    @ppl
    def parts():
        f"A{gen()}B{gen()}"

    assert prompts(parts, backend=Scripted(["1", "2"])) == ["user: A", "user: A1B"]


def test_specs_and_conversions_keep_their_meaning():
    @ppl
    def shown():
        answer = gen(messages="?")
        width = 4
        f"{answer!r}|{answer:>{width}}|{3.14159:.2f}|{answer=}"
        gen()

    assert prompts(shown, backend=Scripted(["7", ""]))[1] == "user: '7'|   7|3.14|answer='7'"


def test_every_kind_of_expression_may_be_said():
    @ppl
    def expressions(yes, name):
        "ab"
        "x" if yes else "y"
        yes and "and"
        name
        "<" + name + ">"
        ["p", "q"][1]
        "{}".format("call")
        gen()

    assert prompts(expressions, True, "n") == ["user: ab\nx\nand\nn\n<n>\nq\ncall"]


def test_a_call_statement_says_all_of_a_list_or_nothing():
    class Source:
        def good(self):
            return ["l", ("m", None)]

        def bad(self):
            return ["l", 1]

        def lazy(self):
            return (letter for letter in "g")

        def iterator(self):
            return iter(["no"])

    @ppl
    def calls(source):
        source.good()
        source.bad()
        source.lazy()
        source.iterator()
        gen()

    assert prompts(calls, Source()) == ["user: l\nm\ng"]


def test_an_awaited_call_is_a_call_statement():
    @ppl
    async def words():
        return "words"

    async def number():
        return 5

    @ppl
    async def body():
        await words()
        await number()
        gen()

    assert prompts(lambda: asyncio.run(body())) == ["user: words"]


def test_a_bad_item_adds_nothing():
    @ppl
    def careful():
        try:
            ["a", 3]
        except PromptTypeError:
            "caught"
        gen()

    assert prompts(careful) == ["user: caught"]


def test_a_bare_yield_says_what_is_sent_in():
    @ppl
    def hearing():
        yield 1
        yield 2
        yield str(gen())

    def conversation():
        program = hearing()
        next(program)
        program.send("sent")
        program.send(None)

    assert prompts(conversation) == ["user: sent"]


def test_grow_says_the_same_as_the_statement():
    @ppl
    def statements(value):
        value
        f"{gen(messages='?')}"
        gen()

    @ppl
    def grown(value):
        grow(value)
        grow(f"{gen(messages='?')}")
        gen()

    value = ["a", UserMessage("u"), ("b", None)]
    assert prompts(statements, value) == prompts(grown, value)


def test_grow_refuses_what_the_statement_refuses():
    @ppl
    def wrong():
        grow(3)

    with running(Echo()), pytest.raises(PromptTypeError):
        wrong()


def test_records_of_another_function_are_its_items():
    @ppl
    def inner():
        "a"
        AIMessage("b")
        return records()

    @ppl
    def outer():
        "x"
        inner()
        gen()

    assert prompts(outer) == ["user: x\na\nassistant: b"]


def test_data_in_three_quotes_is_not_touched():
    @ppl
    def quoted(value):
        """Documentation."""
        data = """
          raw
        """
        f"""
        margin {value}
          kept
        """
        f"{data!r}"
        gen()

    assert prompts(quoted, "a\n b") == ["user: margin a\n b\n  kept\n'\\n          raw\\n        '"]
