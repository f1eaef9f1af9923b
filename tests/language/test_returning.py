"""A function that says what it returns gives that value to plain Python."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import re
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NewType, TypedDict

import pydantic
import pytest

import appl
from appl import Future, Generation, Text, gen, ppl
from appl.backend import Request
from appl.base.corrections import advice
from appl.testing import Held, Scripted, Seeded, running

if TYPE_CHECKING:
    from elsewhere import Later, Word


class Ticket(pydantic.BaseModel):
    priority: int


class Row(TypedDict):
    name: str


class Pair(NamedTuple):
    first: str
    second: str


@dataclasses.dataclass
class Report:
    title: str
    parts: list[str]


class Mood(Enum):
    GOOD = "good"


UserName = NewType("UserName", str)
ANSWERS = {
    "ticket": '{"priority": 3}', "row": '{"name": "Ann"}', "number": "7", "mood": '"good"',
    "json": '{"a": 1}',
}  # fmt: skip


def answers(request: Request) -> str:
    messages = list(request.messages or ())
    return ANSWERS.get(str(messages[0].content).split("\n")[0], "Blue.")


@pytest.fixture(autouse=True)
def _models() -> Any:
    with running(Scripted(answers, features={"schema"})):
        yield


@ppl
def answer(question: str) -> str:
    f"{question}"
    return gen()


@ppl
def ticket(text: str = "ticket") -> Ticket:
    f"{text}"
    return gen(response_format=Ticket)


@ppl
def future(question: str) -> Generation:
    f"{question}"
    return gen()


@ppl
def open_(question: str):
    f"{question}"
    return gen()


# -- what ordinary code does with it


def test_json_takes_it() -> None:
    assert json.dumps({"answer": answer("Which?")}) == '{"answer": "Blue."}'


def test_a_pattern_is_found_in_it() -> None:
    assert re.search("Bl", answer("Which?"))


def test_it_is_joined_and_written() -> None:
    file = io.StringIO()
    file.write(", ".join([answer("Which?"), answer("And then?")]))
    assert file.getvalue() == "Blue., Blue."


def test_pydantic_takes_it() -> None:
    class Kept(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        text: str

    assert Kept(text=answer("Which?")).text == "Blue."


def test_it_is_an_instance_of_its_type() -> None:
    assert isinstance(ticket(), Ticket) and ticket().priority == 3
    assert type(answer("Which?")) is Text and answer("Which?").usage is not None


@ppl
def row() -> Row:
    "row"
    return gen(response_format=Row)


@ppl
def number() -> int:
    "number"
    return gen(response_format=int)


@ppl
def mood() -> Mood:
    "mood"
    return gen(response_format=Mood)


@ppl
def anything() -> dict[str, Any]:
    "json"
    return gen(response_format="json")


@ppl
def one_of() -> Literal["Blue.", "Red."]:
    "x"
    return gen()


@ppl
def perhaps() -> str | None:
    "x"
    return gen()


@ppl
def named() -> UserName:
    "x"
    return gen()


@pytest.mark.parametrize(
    ("f", "value"),
    [
        (row, {"name": "Ann"}), (number, 7), (mood, Mood.GOOD), (anything, {"a": 1}),
        (one_of, "Blue."), (perhaps, "Blue."), (named, "Blue."),
    ],
)  # fmt: skip
def test_a_value_of_any_type_is_given(f: Callable[[], Any], value: object) -> None:
    given = f()
    assert not isinstance(given, Future | Generation)
    assert given == value and type(given) in (type(value), Text)


@ppl
def several() -> list[str]:
    return [answer("a"), answer("b")]


@ppl
def nested() -> dict[str, tuple[str, set[str]]]:
    return {"a": (answer("a"), set()), "b": (answer("b"), set())}


@ppl
def report() -> Report:
    return Report(answer("a"), [answer("b")])


@ppl
def pair() -> Pair:
    return Pair(answer("a"), answer("b"))


def test_what_a_value_holds_is_given_too() -> None:
    assert json.dumps(several()) == '["Blue.", "Blue."]'
    assert json.dumps(nested()["a"][0]) == '"Blue."'
    assert json.dumps(dataclasses.asdict(report())) == '{"title": "Blue.", "parts": ["Blue."]}'
    assert json.dumps(pair()) == '["Blue.", "Blue."]' and type(pair()) is Pair


class Agent:
    @ppl(ctx="resume")
    def talk(self, word: str) -> str:
        f"{word}"
        return gen()

    @classmethod
    @ppl
    def made(cls) -> str:
        "x"
        return gen()


def test_methods_give_values() -> None:
    assert json.dumps([Agent().talk("x"), Agent.made()]) == '["Blue.", "Blue."]'


def test_a_coroutine_function_gives_its_value() -> None:
    @ppl
    async def later(word: str) -> str:
        f"{word}"
        return gen()

    async def main() -> str:
        return json.dumps([await later("a"), *await asyncio.gather(later("b"), later("c"))])

    assert asyncio.run(main()) == '["Blue.", "Blue.", "Blue."]'


def test_a_program_of_its_own_run_gives_its_value() -> None:
    assert json.dumps(appl.run(answer, "Which?")).startswith('"')


# -- what keeps the future


@pytest.mark.parametrize("f", [future, open_])
def test_a_future_is_given_where_the_annotation_says_so_or_nothing(f: Callable[..., Any]) -> None:
    assert type(f("x")) is Generation


def test_a_list_of_futures_is_given_where_the_annotation_says_so() -> None:
    @ppl
    def started() -> list[Generation]:
        return [future("a"), future("b")]

    assert [type(each) for each in started()] == [Generation, Generation]


def test_a_name_that_only_type_checkers_know_is_a_value_unless_it_says_future() -> None:
    @ppl
    def word() -> Word:
        "x"
        return gen()

    @ppl
    def later() -> Generation[Later]:
        "x"
        return gen()

    assert type(word()) is Text and type(later()) is Generation


def test_inside_a_prompt_function_calls_still_run_at_once() -> None:
    @ppl
    def program() -> list[str]:
        started = [answer(q) for q in ("a", "b", "c")]
        assert [type(each) for each in started] == [Generation] * 3
        return started

    backend = Held(lambda request: "done")
    with running(backend):
        backend.release(*(f"/program.0/answer.{n}/gen.0" for n in range(3)))
        assert json.dumps(program()) == '["done", "done", "done"]'


class Together(Seeded):
    """Notes how many calls wait for an answer whenever no program can go on."""

    def __init__(self) -> None:
        super().__init__(0, lambda request: "done")
        self.present: list[int] = []

    def on_idle(self, final: bool = True) -> bool:
        self.present.append(sum(not gate.done() for gate in self.waiting.values()))
        return super().on_idle(final)


@pytest.mark.parametrize("finish", [", ".join, sorted, max, set, list])
def test_what_an_iterator_gives_in_a_prompt_function_has_all_begun(
    finish: Callable[[object], object],
) -> None:
    @ppl
    def program() -> object:
        return finish(map(answer, ["a", "b"]))

    @ppl
    async def later() -> object:
        return finish(map(answer, ["a", "b"]))

    with running(sync := Together()):
        assert "done" in str(program())
    with running(asynchronous := Together()):
        assert "done" in str(asyncio.run(later()))
    assert max(sync.present) == max(asynchronous.present) == 2


def test_map_keeps_calls_side_by_side() -> None:
    backend = Held(lambda request: "done")
    with running(backend):
        backend.release("/answer.1/gen.0", "/answer.0/gen.0")
        assert json.dumps(appl.map(answer, ["a", "b"], progress=False)) == '["done", "done"]'
        assert [request.address for request in backend.requests] == [
            "/answer.0/gen.0", "/answer.1/gen.0",
        ]  # fmt: skip


def test_plain_helpers_of_a_program_get_values() -> None:
    def dumped(question: str) -> str:
        return json.dumps(answer(question))

    @ppl
    def program() -> str:
        return dumped("x")

    assert program() == '"Blue."'


def test_a_rendering_does_not_wait_for_the_value() -> None:
    assert "Which?" in str(answer.render("Which?"))
    assert "answer that it needs" not in str(answer.render("Which?"))


class Strict(pydantic.BaseModel):
    text: str


@pytest.mark.parametrize(
    "use",
    [
        json.dumps, lambda answer: re.search("x", answer), lambda answer: ", ".join([answer]),
        io.StringIO().write, lambda answer: Strict(text=answer),
    ],
)  # fmt: skip
def test_where_code_cannot_take_a_future_the_advice_says_what_to_write(
    use: Callable[[Any], object],
) -> None:
    with pytest.raises((TypeError, pydantic.ValidationError)) as caught:
        use(future("x"))
    assert "write str(answer)" in advice(caught.value) and "-> str" in advice(caught.value)


# -- failures


def test_a_failed_answer_raises_where_the_function_is_called() -> None:
    with running(Scripted([KeyError("lost")])), pytest.raises(KeyError, match="lost"):
        answer("x")


def test_a_failed_answer_cancels_the_others_of_the_value() -> None:
    backend = Held(lambda request: KeyError("lost") if "a" in str(request.messages) else "x")
    with running(backend), pytest.raises(KeyError, match="lost"):
        backend.release("/several.0/answer.0/gen.0")
        several()
    assert not backend.waiting  # the run has ended although nobody released the other call
