"""Questions to people and approvals of tools: recorded, answered later, replayed, asked once."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest

import appl
from appl import as_tool, gen, ppl
from appl.backend import Request, Response
from appl.errors import (
    DivergenceError,
    InDoubtEffect,
    InvalidOption,
    NoSuchQuestion,
    QuestionExpired,
    RunWaiting,
    ToolError,
    TraceLocked,
    UntrustedTrace,
)
from appl.session import replayed, rerun
from appl.session.answers import add_answers
from appl.testing import Echo, Scripted, WallClock, calling
from appl.tracing import Trace
from appl.tracing.reading import open_questions, questions_in
from tests.waits.backends import answering, going_on, recorded


class Person(pydantic.BaseModel):
    """Somebody."""

    name: str
    age: int

    @pydantic.field_validator("age")
    @classmethod
    def _old(cls, age: int) -> int:
        if age < 18:
            raise ValueError("too young")
        return age


@ppl
def ask(question: str) -> Any:
    f"{question}"
    return gen()


def waits(path: Path, program: Callable[[], object], backend: Any = None, **options: Any) -> Any:
    """Run *program*, or go on with it, until it waits; what for."""
    with answering(backend or Echo()):
        block = going_on(path, **options) if path.exists() else recorded(path)
        with pytest.raises(RunWaiting) as ended, block:
            program()
    return [(entry.address, entry.kind, entry.text) for entry in ended.value.waits]


def ends(path: Path, program: Callable[[], object], backend: Any = None, **options: Any) -> Any:
    """Go on with *program* to its end; its value, which a replay gives again."""
    with answering(backend or Echo()), going_on(path, **options):
        value = program()
    with replayed(path):
        assert program() == value
    return value


def answer(path: Path, **answers: str) -> None:
    """Answer by the last part of the address, with an underscore for its dot."""
    add_answers(path, {k.replace("__", "."): v for k, v in answers.items()}, by="ann", via="test")


FORMS: list[tuple[Any, str, object]] = [
    (bool, "yes", True),
    (bool, "No", False),
    (str, "7", "7"),
    (int, "7", 7),
    (float, "0.5", 0.5),
    (Literal["red", "blue"], "Blue", "blue"),
    (Person, '{"name": "Ann", "age": 40}', Person(name="Ann", age=40)),
    (list[int], "[1, 2]", [1, 2]),
    (datetime.date, "2026-01-31", datetime.date(2026, 1, 31)),
]


@pytest.mark.parametrize(("kind", "text", "value"), FORMS, ids=[f"{f[0]}-{f[1]}" for f in FORMS])
def test_an_answer_is_of_the_type_that_was_asked(
    kind: Any, text: str, value: object, tmp_path: Path
) -> None:
    path = tmp_path / "a.trace"

    def program() -> Any:
        return appl.ask_person("What?", kind)

    assert [entry[1:] for entry in waits(path, program)] == [("question", "What?")]
    address = open_questions(Trace.open(path))[0].address
    add_answers(path, {address: text}, by="ann", via="test")
    assert ends(path, program) == value


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (bool, "perhaps", "yes or no"),
        (int, "seven", "integer"),
        (Literal["red", "blue"], "rod", "red, blue"),
        (Person, '{"name": "Ann"}', "'age' is a required property"),
        (Person, "{", "no JSON"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_at_once(
    kind: Any, text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.trace"
    waits(path, lambda: appl.ask_person("What?", kind))
    question, before = open_questions(Trace.open(path))[0], path.read_bytes()
    with pytest.raises(ValueError, match=said):
        add_answers(path, {question.address: text}, by="ann", via="test")
    assert path.read_bytes() == before


def test_what_the_programs_own_type_refuses_is_asked_once_more(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"

    @ppl
    def program() -> Any:
        return appl.ask_person("Who?", Person)

    waits(path, program)
    answer(path, program__0='{"name": "Tim", "age": 7}')
    ((_, _, text),) = waits(path, program)
    assert text.startswith("Who?") and "too young" in text
    answer(path, program__0='{"name": "Ann", "age": 70}')
    assert ends(path, program) == Person(name="Ann", age=70)


def test_choices_are_given_back_as_they_were_given(tmp_path: Path) -> None:
    path, colours = tmp_path / "a.trace", [None, 1, "1", True]

    @ppl
    def program() -> Any:
        return appl.ask_person("Which?", choices=["red", "blue"]), appl.ask_person(
            "Which?", choices=colours[:2]
        )

    waits(path, program)
    answer(path, program__0="red")
    waits(path, program)
    answer(path, program__0="None")
    assert ends(path, program) == ("red", None)


def test_answers_come_in_any_order_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    path, backend = tmp_path / "a.trace", Echo()

    @ppl
    def one(name: str) -> str:
        before = str(ask(f"before {name}"))
        return f"{name} {appl.ask_person(f'{name}?', bool)} {before} {ask(f'after {name}')}"

    def program() -> list[str]:
        return [str(each) for each in appl.map(one, ["a", "b", "c"])]

    first = waits(path, program, backend)
    assert [text for _, _, text in first] == ["a?", "b?", "c?"] and len(backend.requests) == 3
    answer(path, one__1="yes", one__2="no")
    assert [text for _, _, text in waits(path, program, backend)] == ["a?"]
    assert len(backend.requests) == 5
    answer(path, one__0="yes")
    values = ends(path, program, backend)
    assert [value.split()[:2] for value in values] == [["a", "True"], ["b", "True"], ["c", "False"]]
    assert len(backend.requests) == len({r.address for r in backend.requests}) == 6


def test_who_answered_and_when_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"

    @ppl
    def program() -> Any:
        return appl.ask_person("Go?", bool)

    with WallClock(at=1_000_000) as clock:
        waits(path, program)
        clock.advance(days=2)
        answer(path, program__0="yes")
    (question,) = questions_in(Trace.open(path))
    assert question.answer == {"value": True, "by": "ann", "via": "test", "at": 1_172_800.0}
    assert question.verdict == "answered"


def test_a_question_that_expires_has_its_default_or_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"

    @ppl
    def program() -> Any:
        first = appl.ask_person("Go?", bool, expires=datetime.timedelta(days=1), default=False)
        try:
            return first, appl.ask_person("Really?", bool, expires=3600)
        except QuestionExpired as error:
            return first, str(error)

    with WallClock(at=1_000_000) as clock:
        waits(path, program)
        clock.advance(days=2)
        with pytest.raises(ValueError, match="expired"):
            answer(path, program__0="yes")
        waits(path, program)
        clock.advance(hours=2)
        first, second = ends(path, program)
    assert first is False and "Really?" in second
    assert [each.verdict for each in questions_in(Trace.open(path))] == ["expired", "expired"]


def test_an_edited_question_is_asked_anew_and_others_are_not(tmp_path: Path) -> None:
    path, backend, words = tmp_path / "a.trace", Echo(), ["One?", "Two?"]

    @ppl
    def program() -> Any:
        first, told = appl.ask_person(words[0], bool), str(ask("so"))
        return first, told, appl.ask_person(words[1], bool)

    waits(path, program, backend)
    answer(path, program__0="yes")
    waits(path, program, backend)
    answer(path, program__0="yes")
    words[1] = "Two, really?"
    differs = pytest.raises(DivergenceError, match="asks or waits")
    with answering(backend), differs, going_on(path):
        program()
    assert [text for *_, text in waits(path, program, backend, edited=True)] == ["Two, really?"]
    answer(path, program__0="no")
    assert ends(path, program, backend)[::2] == (True, False)
    assert len(backend.requests) == 1


def test_an_edit_of_an_earlier_question_leaves_no_later_one_open(tmp_path: Path) -> None:
    path, words = tmp_path / "a.trace", ["One?", "Two?", "Three?"]

    @ppl
    def program() -> Any:
        return [appl.ask_person(word, bool) for word in words]

    for _ in "12":
        waits(path, program)
        answer(path, program__0="yes")
    waits(path, program)
    words[0] = "One, really?"
    waits(path, program, edited=True)
    assert [each.text for each in open_questions(Trace.open(path))] == ["One, really?"]
    answer(path, program__0="no")
    waits(path, program, edited=True)
    answer(path, program__0="yes")
    assert ends(path, program, edited=True) == [False, True, True]


def test_a_rerun_takes_the_answers_to_the_same_questions(tmp_path: Path) -> None:
    path, word = tmp_path / "a.trace", ["Two?"]

    @ppl
    def program() -> Any:
        return appl.ask_person("One?", bool), appl.ask_person(word[0], bool)

    waits(path, program)
    answer(path, program__0="yes")
    waits(path, program)
    answer(path, program__0="no")
    assert ends(path, program) == (True, False)
    with answering(Echo()), rerun(path, into=tmp_path / "b.trace", say=lambda _: None):
        assert program() == (True, False)
    word[0] = "Another?"
    edited = rerun(path, into=tmp_path / "c.trace", say=lambda _: None)
    with answering(Echo()), pytest.raises(RunWaiting) as ended, edited:
        program()
    assert [entry.text for entry in ended.value.waits] == ["Another?"]


def test_a_place_that_asks_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"

    @ppl
    def program() -> Any:
        return appl.ask_person("Go?", bool)

    waits(path, program)
    with pytest.raises(NoSuchQuestion, match=r"open: /program\.0"):
        answer(path, elsewhere__0="yes")
    answer(path, program__0="yes")
    with pytest.raises(NoSuchQuestion, match="open: nothing"):
        answer(path, program__0="yes")


def test_a_run_that_goes_on_in_another_process_is_not_added_to(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"

    @ppl
    def program() -> Any:
        return appl.ask_person("Go?", bool)

    waits(path, program)
    with answering(Echo()), pytest.raises(RunWaiting), going_on(path):
        with pytest.raises(TraceLocked):
            answer(path, program__0="yes")
        program()


# -- approvals


class Shop:
    """A shop whose refunds need approval, and a model that asks for them."""

    def __init__(self, *amounts: int, **options: Any) -> None:
        self.amounts, self.refunds = amounts, list[tuple[str, int]]()
        self.tool = as_tool(self.refund, **{"approve": True, **options})

    def refund(self, order: str, amount: int) -> str:
        """Refund a part of an order."""
        self.refunds.append((order, amount))
        return f"refunded {amount}"

    def answer(self, request: Request) -> str | Response:
        """The model: it calls the tool, and says what the results are."""
        messages = list(request.messages or ())
        results = [message.content for message in messages if message.role == "tool"]
        if results:
            return " | ".join(results)
        return calling(*(("refund", {"order": "A1", "amount": n}) for n in self.amounts))

    @property
    def backend(self) -> Scripted:
        """The model as a backend."""
        return Scripted(self.answer)

    def program(self) -> str:
        """One conversation."""
        return str(appl.gen_with_tools(messages="Refund it.", tools=[self.tool]))


def test_a_tool_runs_once_and_only_when_it_is_approved(tmp_path: Path) -> None:
    shop, path = Shop(40), tmp_path / "a.trace"
    ((address, kind, text),) = waits(path, shop.program, shop.backend)
    assert address.endswith("/refund.0") and kind == "approval"
    assert text == "Run refund(order='A1', amount=40)?" and not shop.refunds
    assert waits(path, shop.program, shop.backend) == [(address, kind, text)]
    answer(path, refund__0="yes")
    assert ends(path, shop.program, shop.backend) == "refunded 40"
    assert shop.refunds == [("A1", 40)]


def test_a_refusal_and_its_reason_are_told_to_the_model(tmp_path: Path) -> None:
    shop, path = Shop(40), tmp_path / "a.trace"
    waits(path, shop.program, shop.backend)
    answer(path, refund__0="no: too much")
    said = ends(path, shop.program, shop.backend)
    assert said == "refund was not called: a person refused it: too much" and not shop.refunds
    assert [each.verdict for each in questions_in(Trace.open(path))] == ["refused"]


def test_a_person_may_change_the_arguments(tmp_path: Path) -> None:
    shop, path = Shop(40), tmp_path / "a.trace"
    waits(path, shop.program, shop.backend)
    with pytest.raises(ValueError, match="integer"):
        answer(path, refund__0='{"amount": "all"}')
    answer(path, refund__0='{"amount": 20}')
    assert ends(path, shop.program, shop.backend).startswith("refunded 20\n")
    assert shop.refunds == [("A1", 20)]


def test_an_approval_that_nobody_gives_in_time_is_a_refusal(tmp_path: Path) -> None:
    shop, path = Shop(40, expires=3600), tmp_path / "a.trace"
    with WallClock(at=1_000_000) as clock:
        waits(path, shop.program, shop.backend)
        clock.advance(hours=2)
        said = ends(path, shop.program, shop.backend)
    assert said == "refund was not called: nobody approved it in time" and not shop.refunds


def test_only_calls_for_which_the_predicate_says_so_are_asked_about(tmp_path: Path) -> None:
    shop = Shop(5, 50, approve=lambda order, amount: amount > 10 and f"Give {amount} to {order}?")
    path = tmp_path / "a.trace"
    assert [text for *_, text in waits(path, shop.program, shop.backend)] == ["Give 50 to A1?"]
    assert shop.refunds == [("A1", 5)]
    answer(path, refund__1="yes")
    assert ends(path, shop.program, shop.backend) == "refunded 5 | refunded 50"
    assert shop.refunds == [("A1", 5), ("A1", 50)]


def test_a_predicate_that_fails_lets_nothing_run(tmp_path: Path) -> None:
    shop = Shop(40, approve=lambda order, amount: 1 / 0)
    with answering(shop.backend), recorded(tmp_path / "a.trace"):
        assert "approve= failed: ZeroDivisionError" in shop.program()
    assert not shop.refunds


def test_a_tool_without_parallel_calls_and_in_a_coroutine_asks_too(tmp_path: Path) -> None:
    shop, path = Shop(1, 2), tmp_path / "a.trace"

    async def later() -> str:
        return str(await appl.gen_with_tools(messages="Refund.", tools=[shop.tool], parallel=False))

    async def main(block: Any) -> str:
        async with block:
            return await later()

    with answering(shop.backend):
        for at in ("refund__0", "refund__1"):
            with pytest.raises(RunWaiting):
                asyncio.run(main(going_on(path) if path.exists() else recorded(path)))
            answer(path, **{at: "yes"})
        assert asyncio.run(main(going_on(path))) == "refunded 1 | refunded 2"
    assert shop.refunds == [("A1", 1), ("A1", 2)]


def test_a_host_is_told_of_a_question_and_answers_it_later(tmp_path: Path) -> None:
    shop, asked = Shop(40, 41), list[Any]()

    def host(question: Any) -> None:
        asked.append(question)
        if len(asked) == 2:  # both wait by then
            for each in asked:
                assert each.tool == "refund" and each.arguments["order"] == "A1"
                assert each.answer(each.arguments["amount"] == 40, by="bob")

    with appl.on_question(host), answering(shop.backend), recorded(tmp_path / "a.trace"):
        said = shop.program()
    assert said == "refunded 40 | refund was not called: a person refused it"
    answers = [each.answer or {} for each in questions_in(Trace.open(tmp_path / "a.trace"))]
    assert [(each["by"], each["via"]) for each in answers] == [("bob", "host")] * 2


def test_a_host_that_has_nobody_to_ask_lets_the_run_end_as_waiting(tmp_path: Path) -> None:
    shop, path = Shop(40), tmp_path / "a.trace"
    with appl.on_question(lambda question: False):
        assert len(waits(path, shop.program, shop.backend)) == 1
    with pytest.raises(InvalidOption):
        appl.on_question(None)  # type: ignore[arg-type]


def test_a_tool_that_asks_before_it_does_anything_is_not_in_doubt(tmp_path: Path) -> None:
    done, path = list[str](), tmp_path / "a.trace"

    def send(to: str) -> str:
        if appl.ask_person(f"Send to {to}?", bool):
            done.append(to)
        return f"{len(done)} sent"

    def program() -> str:
        return str(appl.gen_with_tools(messages="Send.", tools=[send]))

    def model(request: Request) -> str | Response:
        last = list(request.messages or ())[-1]
        return last.content if last.role == "tool" else calling(("send", {"to": "Ann"}))

    waits(path, program, Scripted(model))
    answer(path, send__0="yes")
    assert ends(path, program, Scripted(model)) == "1 sent" and done == ["Ann"]


def test_a_tool_that_asks_after_it_has_done_something_is_in_doubt(tmp_path: Path) -> None:
    done, path = list[str](), tmp_path / "a.trace"

    def send(to: str) -> str:
        done.append(to)
        return str(appl.ask_person(f"Again to {to}?", bool))

    def program() -> str:
        return str(appl.gen_with_tools(messages="Send.", tools=[send]))

    def model(request: Request) -> str | Response:
        last = list(request.messages or ())[-1]
        return last.content if last.role == "tool" else calling(("send", {"to": "Ann"}))

    waits(path, program, Scripted(model))
    answer(path, send__0="yes")
    with answering(Scripted(model)), pytest.raises(InDoubtEffect), going_on(path):
        program()
    assert done == ["Ann"]


def test_the_trace_of_another_user_approves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, path = Shop(40), tmp_path / "a.trace"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "theirs"))
    waits(path, shop.program, shop.backend)
    answer(path, refund__0="yes")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    with answering(shop.backend), pytest.raises(UntrustedTrace), going_on(path):
        shop.program()
    with pytest.raises(UntrustedTrace):
        answer(path, refund__0="yes")
    asked = waits(path, shop.program, shop.backend, trust=True)
    assert [kind for _, kind, _ in asked] == ["approval"] and not shop.refunds


def test_what_is_no_approval_is_refused_where_it_is_written() -> None:
    def f(expires: int) -> str:
        return ""

    with pytest.raises(ToolError, match="approve"):
        as_tool(len, approve=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="approve="):
        as_tool(Shop(1).refund, expires=3)
    with pytest.raises(ToolError, match="predefined"):
        as_tool(f, approve=True, expires=3)
    with pytest.raises(InvalidOption, match="choose"):
        appl.ask_person("Which?", choices=[])


def test_a_list_in_place_of_a_type_is_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidOption, match=r"write choices=\['a', 'b'\]"):
        appl.ask_person("Which?", ["a", "b"])
