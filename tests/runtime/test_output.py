"""Typed answers: what is asked for, what is read, what is asked again, and what the program sees."""

from __future__ import annotations

import contextlib
import datetime
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, Required, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, Field, TypeAdapter, field_validator

from appl import AIRole, Text, call, gen, ppl
from appl.backend import Response, Sample, TokenLogprob, Usage
from appl.errors import BackendError, CallCancelled, InvalidOption, OutputError
from appl.testing import (
    CallStarted,
    Delivered,
    Echo,
    Held,
    Log,
    Run,
    Scripted,
    Seeded,
    calling,
    response,
    running,
)
from appl.tracing import Recorder, Replayer, Trace, profile_data


class Person(BaseModel):
    name: str
    age: int


@dataclass
class Team:
    lead: Person
    tags: list[str] = field(default_factory=list)


class Options(TypedDict, total=False):
    loud: Required[bool]
    size: int


class Color(Enum):
    RED = "red"
    BLUE = "dark blue"


class Point(NamedTuple):
    x: int
    y: int


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


ANN = Person(name="Ann", age=30)
ANN_JSON = '{"name": "Ann", "age": 30}'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CAN = ["schema", "n", "seed", "prefill"]


def asked(seen: Scripted, address: str = "/gen.0") -> str:
    return seen.prompts[address]


# -- what becomes an object


@pytest.mark.parametrize(
    ("wanted", "said", "value", "text"),
    [
        (Person, ANN_JSON, ANN, ANN_JSON),
        (Team, f'{{"lead": {ANN_JSON}}}', Team(ANN), f'{{"lead": {ANN_JSON}}}'),
        (Options, '{"loud": true}', {"loud": True}, '{"loud": true}'),
        (list[Options], '[{"loud": true, "size": 1}]', [{"loud": True, "size": 1}], None),
        (dict[str, Options], '{"a": {"loud": false}}', {"a": {"loud": False}}, None),
        (Optional[Options], "null", None, "null"),  # noqa: UP045 # as people write it
        (Color, '"red"', Color.RED, "red"),
        (Color, "dark blue", Color.BLUE, "dark blue"),
        (Point, "[1, 2]", Point(1, 2), "[1, 2]"),
        (Tree, '{"value": 1, "children": [{"value": 2}]}', Tree(value=1, children=[Tree(value=2)]), None),
        (Literal["yes", "no"], '"no"', "no", "no"),
        (Literal[1, 2], "2", 2, "2"),
        (int, "42", 42, "42"), (float, "1.5", 1.5, "1.5"), (bool, "true", True, "true"),
        (str, ' a "b" ', ' a "b" ', ' a "b" '), (list[int], "[1, 2]", [1, 2], "[1, 2]"),
        (dict[str, int], '{"a": 1}', {"a": 1}, None), (int | None, "3", 3, "3"),
        (tuple[int, str], '[1, "a"]', (1, "a"), None), (set[int], "[1, 1]", {1}, None),
        (datetime.date, '"2024-02-03"', datetime.date(2024, 2, 3), "2024-02-03"),
        (Annotated[int, Field(ge=1)], "1", 1, "1"), (TypeAdapter(list[Person]), "[]", [], "[]"),
        ("json", '{"a": [1]}', {"a": [1]}, None), (SCHEMA, '{"n": 1, "m": 2}', {"n": 1, "m": 2}, None),
        ({"type": "json_object"}, "{}", {}, "{}"), (Any, "[null]", [None], None),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, '{"n": 1}', {"n": 1}, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("features", [[], CAN])
def test_an_answer_becomes_an_object_and_keeps_its_text(wanted, said, value, text, features):
    with running(Scripted([said], features=features)):
        answer = gen(messages="?", response_format=wanted)
        assert answer.result() == answer.response_obj == value
        assert type(answer.result()) is type(value)
        assert answer.message.content == (said if text is None else text)


@pytest.mark.parametrize(
    ("wanted", "said", "value"),
    [
        (Person, f"Sure! Here it is:\n```json\n{ANN_JSON}\n```\nAnything else?", ANN),
        (Person, f"{{thinking}} I say {ANN_JSON} and that is all {{really}}", ANN),
        (Person, f'First {{"name": "Bob", "age": 1}}, no: {ANN_JSON}.', ANN),
        (Person, f"[1] says so: {ANN_JSON}", ANN),
        (list[int], "They are [1, 2], I think", [1, 2]),
        (int, "The answer is 42.", 42), (int, "**42**", 42), (int, "-7 degrees", -7),
        (int, "42, I mean 42", 42), (int, '{"value": 42}', 42), (float, "about 1.5e3 m", 1500.0),
        (bool, "True", True), (bool, "It is false.", False), (bool, "Yes", True),
        (int | None, "None", None), (Literal["yes", "no"], "**No.**", "no"),
        (Literal["yes", "no"], "The answer is yes", "yes"), (Color, "I like dark blue best", Color.BLUE),
        (Literal["B", "A"], "A", "A"), (Optional[Color], "Red!", Color.RED),  # noqa: UP045
    ],
)  # fmt: skip
def test_the_value_is_found_in_prose(wanted, said, value):
    with running(Scripted([said])) as seen:
        assert gen(messages="?", response_format=wanted).result() == value
    assert len(seen.requests) == 1


@pytest.mark.parametrize(
    ("wanted", "said", "problem"),
    [
        (Person, "I do not know", "it holds no JSON"),
        (Person, '{"name": "Ann"}', "age: Field required"),
        (Person, '{"name": "Ann", "age": "old"}', "age: Input should be a valid integer"),
        (Person, '{"name": "Ann", "age": 3', "cannot be read"),
        (Person, '{"p": {"name": "Ann", "age": 3}, oops}', "cannot be read"),
        (list[Person], '[{"name": "Ann"}]', "0.age: Field required"),
        (int, "4 or 5", "it does not say one"), (int, "1,234", "it does not say one"),
        (bool, "true or false", "it does not say one"), (int, "many", "it does not say one"),
        (Literal["yes", "no"], "yes and no", "it does not say one"),
        (Literal["yes", "no"], "yesterday", "it does not say one"),
        (SCHEMA, '{"n": "1"}', "n: '1' is not of type 'integer'"),
        (SCHEMA, "[]", "[] is not of type 'object'"),
        ("json", "[1]", "is not of type 'object'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_to_the_model(wanted, said, problem):
    with running(Scripted([said, "x", "x"])) as seen:
        with pytest.raises(OutputError) as caught:
            str(gen(messages="?", response_format=wanted))
        assert caught.value.text == "x"
    last = asked(seen, "/gen.0/ask.1").rpartition("user: ")[2]
    assert problem in last and "Answer again" in last


def test_json_that_is_cut_off_does_not_give_its_inner_part():
    class Loose(BaseModel):
        a: int = 0

    with running(Scripted(['{"b": {"a": 5}, "c": "unfin', '{"a": 1}'])):
        assert gen(messages="?", response_format=Loose).result() == Loose(a=1)


# -- how it is asked for


def test_a_backend_that_constrains_gets_the_schema_and_the_prompt_as_it_is():
    with running(Scripted([ANN_JSON], features=CAN)) as seen:
        str(gen(messages="?", response_format=Person))
    (request,) = seen.requests
    assert asked(seen) == "user: ?"
    schema = json.loads(request.sampling.schema)
    assert list(schema["properties"]) == ["name", "age"]
    assert schema["additionalProperties"] is False


def test_fields_are_asked_for_in_the_order_in_which_they_are_declared():
    class Thought(BaseModel):
        why: str
        answer: int

    class Other(BaseModel):
        answer: int
        why: str

    with running(Scripted(lambda r: '{"why": "", "answer": 1}', features=CAN)) as seen:
        gen(messages="?", response_format=Thought).result()
        gen(messages="?", response_format=Other).result()
    one, two = (request.sampling.schema for request in seen.requests)
    assert one.index('"why"') < one.index('"answer"')
    assert two.index('"answer"') < two.index('"why"')
    assert seen.requests[0].digest != seen.requests[1].digest


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (int, "Answer with one whole number"), (bool, "Answer with true or false"),
        (Color, "- red\n- dark blue"), (Literal[1, "a"], "- 1\n- a"), ("json", "one JSON object"),
        (Person, '{"properties": {"name": {"type": "string"}, "age": {"type": "integer"}}'),
        (str, None),
    ],
)  # fmt: skip
def test_a_backend_that_does_not_constrain_is_asked_in_words(wanted, words):
    with running(Scripted(lambda request: "x")) as seen, contextlib.suppress(OutputError):
        gen(messages="?", response_format=wanted, max_asks=1).result()
    said = asked(seen)
    assert said == "user: ?" if words is None else words in said and said.startswith("user: ?\n")
    assert seen.requests[0].sampling.schema is None


def test_types_that_are_equal_keep_their_own_order():
    for wanted, words in ((Literal["b", "a"], "- b\n- a"), (Literal["a", "b"], "- a\n- b")):
        with running(Scripted(["a"])) as seen:
            assert gen(messages="?", response_format=wanted).result() == "a"
        assert words in asked(seen)


def test_the_question_is_asked_after_all_that_was_said():
    @ppl
    def program():
        "How old?"
        with AIRole():
            "She is "
        return gen(response_format=int)

    with running(Scripted(["30"])) as seen:
        assert program() == 30
    assert asked(seen, "/program.0/gen.0") == (
        "user: How old?\nassistant: She is \nuser: Answer with one whole number, and with nothing else."
    )


def test_where_only_objects_can_be_asked_for_others_are_wrapped_and_unwrapped():
    answers = ['{"value": [1, 2]}', '{"value": "red"}', ANN_JSON, '{"value": {"value": 1}}']
    with running(Scripted(answers, features=[*CAN, "schema_object"])) as seen:
        listed = gen(messages="1", response_format=list[int])
        assert (listed.result(), listed.message.content) == ([1, 2], "[1, 2]")
        color = gen(messages="2", response_format=Color)
        assert (color.result(), color.message.content) == (Color.RED, "red")
        assert gen(messages="3", response_format=Person).result() == ANN
        tree = gen(messages="4", response_format={"anyOf": [{"$ref": "#/$defs/n"}], "$defs": {
            "n": {"type": "object", "properties": {"value": {"type": "integer"}}}}})  # fmt: skip
        assert tree.result() == {"value": 1}
    schemas = [json.loads(request.sampling.schema) for request in seen.requests]
    assert all(schema["type"] == "object" for schema in schemas)
    assert "value" not in schemas[2]["properties"]
    assert schemas[3]["properties"]["value"]["anyOf"] == [{"$ref": "#/properties/value/$defs/n"}]


def test_what_a_backend_cannot_constrain_is_left_to_the_validation():
    schema = {
        "type": "array", "uniqueItems": True, "items": {"type": "integer", "not": {"const": 0}},
        "title": "T", "default": [], "contains": {"const": 1},
    }  # fmt: skip
    with running(Scripted(["[1, 1]", "[1, 0]", "[1, 2]"], features=CAN)) as seen:
        assert gen(messages="?", response_format=schema).result() == [1, 2]
    sent = json.loads(seen.requests[0].sampling.schema)
    assert sent == {"type": "array", "items": {"type": "integer"}}
    assert "non-unique" in asked(seen, "/gen.0/ask.1") and "[1, 1]" in asked(seen, "/gen.0/ask.1")


# -- asking again


def test_every_attempt_has_its_address_and_counts():
    answers = [
        Response((Sample("no", "stop"),), Usage(10, 1, None), cost=5),
        Response((Sample("{}", "stop"),), Usage(20, 2, 4), cost=7),
        Response((Sample(ANN_JSON, "stop"),), Usage(30, 3, 5), cost=9),
    ]
    with running(Scripted(answers), instruments=[log := Log()]) as seen:
        answer = gen(messages="?", response_format=Person)
        assert answer.result() == ANN
        assert answer.usage == Usage(60, 6, None) and answer.cost == 21
        assert answer.call_id == "/gen.0"
    assert list(seen.prompts) == ["/gen.0", "/gen.0/ask.1", "/gen.0/ask.2"]
    edges = [event.edges for event in log.of(CallStarted)]
    assert edges == [(), ("/gen.0",), ("/gen.0/ask.1",)]
    assert [event.address for event in log.of(Delivered)] == list(seen.prompts)


def test_the_model_sees_its_answer_and_what_was_wrong_with_it():
    with running(Scripted(["no", "0", "5"])) as seen:
        assert gen(messages="?", response_format=Annotated[int, Field(gt=3)]).result() == 5
    assert asked(seen, "/gen.0/ask.2").startswith(
        asked(seen, "/gen.0/ask.1") + "\nassistant: 0\nuser: "
    )
    assert "Input should be greater than 3" in asked(seen, "/gen.0/ask.2")


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_it_is_asked_so_often_and_then_fails(limit):
    with running(Scripted(lambda request: "nothing")) as seen:
        with pytest.raises(OutputError, match="Person") as caught:
            gen(messages="?", response_format=Person, max_asks=limit).result()
        assert (caught.value.text, caught.value.problem) == ("nothing", "it holds no JSON")
    assert len(seen.requests) == limit


def test_three_times_is_the_default():
    with (
        running(Scripted(lambda request: "x")) as seen,
        pytest.raises(OutputError, match="3 times"),
    ):
        gen(messages="?", response_format=int).result()
    assert len(seen.requests) == 3


@pytest.mark.parametrize("features", [[], CAN])
def test_a_cut_by_the_token_limit_says_so(features):
    cut = response('{"name": "Ann", "a', "length")
    with running(Scripted([cut, ANN_JSON], features=features)) as seen:
        assert gen(messages="?", response_format=Person, max_tokens=7).result() == ANN
    assert "cut by the token limit, max_tokens=7, before its end" in asked(seen, "/gen.0/ask.1")


def test_a_number_that_was_cut_is_no_answer_but_a_closed_object_is():
    with running(Scripted([response("12", "length"), "123"])):
        assert gen(messages="?", response_format=int).result() == 123
    with running(Scripted([response(ANN_JSON + "\nI hope th", "length")])) as seen:
        assert gen(messages="?", response_format=Person).result() == ANN
    assert len(seen.requests) == 1


def test_a_backend_error_in_between_is_raised_as_it_is():
    with running(Scripted(["x", BackendError("down")])), pytest.raises(BackendError, match="down"):
        gen(messages="?", response_format=int).result()


class InOrder(Held):
    """Answers each of *order* when no program can go on, and nothing else."""

    def __init__(self, order: list[str]) -> None:
        super().__init__(lambda request: "x")
        self._order = order

    def on_idle(self, final: bool = True) -> bool:
        if not self._order:
            return False
        self.release(self._order.pop(0))
        return True


def cancelled_while_asked_again() -> str:
    answer, other = gen(messages="?", response_format=int), gen(messages="other")
    assert other == "x"
    answer.cancel()
    with pytest.raises(CallCancelled) as caught:
        answer.result()
    return str(caught.value)


def test_cancelling_ends_what_is_being_asked_again_and_a_replay_knows(tmp_path: Path):
    backend = InOrder(["/gen.0", "/gen.1"])
    recorder = Recorder(tmp_path / "t.trace", {"profile": profile_data(backend.profile)})
    with Run(backend, instruments=[recorder], gate=recorder.gate):
        said = cancelled_while_asked_again()
    recorder.close()
    assert said == "the call /gen.0/ask.1 was cancelled" and backend.aborted == ["/gen.0/ask.1"]
    replayer = Replayer(tmp_path / "t.trace")
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert cancelled_while_asked_again() == said
    replayer.finish()


# -- validators of the user


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n == 99:
            raise KeyError("a bug")
        if n % 2:
            raise ValueError("it must be even")
        places.append(threading.current_thread().name)
        return n


places: list[str] = []


@pytest.mark.parametrize("features", [[], CAN])
def test_a_validator_may_have_it_asked_again(features):
    with running(Scripted(['{"n": 3}', '{"n": 4}'], features=features)) as seen:
        assert gen(messages="?", response_format=Even).result().n == 4
    assert "it must be even" in asked(seen, "/gen.0/ask.1")


def test_a_validator_never_runs_on_the_io_thread():
    places.clear()
    with running(Scripted(['{"n": 4}'])):
        gen(messages="?", response_format=Even).result()
    assert places and "appl-io" not in places


def test_a_long_answer_is_read_beside_the_loop_and_each_candidate_once():
    places.clear()
    text = json.dumps({"n": 4, "note": "x" * 50_000})
    with running(Scripted([text, f'{{"m": 1}} {text}'])):
        assert gen(messages="1", response_format=Even).result().n == 4
        assert gen(messages="2", response_format=Even).result().n == 4
    assert len(places) == 2


def test_a_bug_in_a_validator_is_raised_where_the_value_is_needed():
    with running(Scripted(['{"n": 99}'])), pytest.raises(KeyError, match="a bug") as caught:
        gen(messages="?", response_format=Even).result()
    assert "in call /gen.0" in caught.value.__notes__[0]


# -- what the program sees


def test_python_sees_the_object_and_prompts_the_text():
    @ppl
    def program():
        "Who?"
        with AIRole():
            f"{(who := gen(response_format=Person))}"
        "How loud?"
        (loud := gen(response_format=float))
        f"Not {loud:.1f} but {loud!r}?"
        gen()
        return who.name, json.dumps(who.model_dump()), loud + 1, who

    with running(Scripted(lambda r: ANN_JSON if r.ordinal == 0 else "0.25", features=CAN)) as seen:
        name, dumped, more, who = program()
        assert (name, dumped, more) == ("Ann", ANN_JSON, 1.25)
        assert who == ANN and who.age == 30 and isinstance(who.message.content, str)
        assert f"{who}" == str(who) == str(ANN) and who.finish_reason == "stop"
    assert asked(seen, "/program.0/gen.2") == (
        f"user: Who?\nassistant: {ANN_JSON}\nuser: How loud?\n0.25\nNot 0.2 but 0.25?"
    )


def test_a_false_answer_is_false():
    with running(Scripted(["false", "[]", "0"], features=CAN)):
        assert not gen(messages="1", response_format=bool)
        assert len(gen(messages="2", response_format=list[int])) == 0
        assert gen(messages="3", response_format=int) == 0


async def test_a_coroutine_sees_the_same():
    @ppl
    async def program():
        answer = gen(messages="?", response_format=Person)
        return answer.usage, answer.name, (await answer).age, await answer

    async with Run(Scripted([ANN_JSON])):
        used, name, age, who = await program()
    assert used.completion_tokens == 4 and (name, age, who) == ("Ann", 30, ANN)


def test_without_a_type_there_is_no_object():
    with running(Scripted(["a"])):
        answer = gen(messages="?")
        assert answer.response_obj is None and type(answer.result()) is Text


def test_it_waits_in_the_graph_not_in_the_program():
    order: list[str] = []

    @ppl
    def program():
        f"{gen(messages='1', response_format=int)}"
        answer = gen()
        order.append("issued")
        return answer

    def answered(request):
        order.append(request.address)
        return "no" if request.address.endswith("gen.0") else "7"

    with running(Seeded(0, answered)) as seen:
        program()
    assert order == [
        "issued", "/program.0/gen.0", "/program.0/gen.0/ask.1", "/program.0/gen.1",
    ]  # fmt: skip
    assert asked(seen, "/program.0/gen.1") == "user: 7"


def test_samples_are_validated_each_and_asked_again_each():
    def answered(request):
        if request.n == 3:
            return Response((Sample("1", "stop"), Sample("one", "stop"), Sample("uno", "stop")))
        return {"/gen.0/ask.1": "2", "/gen.0/ask.2": "drei", "/gen.0/ask.3": "3"}[request.address]

    with running(Scripted(answered)) as seen:
        answer = gen(messages="?", response_format=int, n=3)
        assert [sample.response_obj for sample in answer.samples] == [1, 2, 3]
        assert answer == 1 and answer.samples[1].samples == answer.samples
    assert list(seen.prompts) == ["/gen.0", "/gen.0/ask.1", "/gen.0/ask.2", "/gen.0/ask.3"]
    assert "assistant: one" in asked(seen, "/gen.0/ask.1")
    assert "assistant: uno" in asked(seen, "/gen.0/ask.2")
    assert "assistant: drei" in asked(seen, "/gen.0/ask.3")


# -- what is refused


T = TypeVar("T")


class Plain:
    pass


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("yaml", "the only name is 'json'"), (ANN, "write response_format=Person, without the call"),
        (Plain, "Plain"), (3, "3"), (list["Nowhere"], "Nowhere"), (Callable[[int], int], "no JSON form"),  # noqa: F821
        (T, "type variable"), ({}, "empty schema"), ({"type": "objekt"}, "no JSON schema"),
        (Literal, "Literal"), ([Person], "Person"), (pytest.fixture, "tools="),
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused_before_any_call(wanted, hint):
    with running(Echo()) as seen, pytest.raises(InvalidOption, match=hint):
        gen(messages="?", response_format=wanted)
    assert seen.requests == []


@pytest.mark.parametrize(
    "option", [{"choices": ["a"]}, {"regex": "a"}, {"grammar": "root ::= 'a'"}, {"max_asks": 0}]
)
def test_only_one_option_can_say_what_the_answer_looks_like(option):
    backend = Echo(features=["regex", "grammar", "choices"])
    with running(backend) as seen, pytest.raises(InvalidOption):
        gen(messages="?", response_format=int, **option)
    assert seen.requests == []


def test_a_limit_of_asking_needs_a_type():
    with running(Echo()) as seen, pytest.raises(InvalidOption, match="response_format"):
        gen(messages="?", max_asks=2)
    assert seen.requests == []


def test_a_type_may_be_an_answer_of_a_function():
    with running(Scripted(["5"])):
        assert gen(messages="?", response_format=call(lambda: int)).result() == 5


# -- recorded, replayed, in sequence


def flaky(request: Any) -> str:
    """Two answers of three are wrong, depending on the question alone."""
    digest = request.digest
    return ['{"name": 3}', "what?", ANN_JSON][digest[0] % 3] if digest[1] % 4 else "{"


@ppl
def one(word: str) -> Any:
    f"{word}"
    who = gen(response_format=Person, max_asks=4)
    try:
        return f"{word}: {who.name} {who.usage.prompt_tokens}"
    except OutputError as error:
        return f"{word}: {error.problem}"


def everyone() -> list[Any]:
    done: list[str] = []

    def note(word: str) -> str:
        found = one(word)
        done.append(word)
        return found

    answers = [call(note, word) for word in "abcdefgh"]
    return [[answer.result() for answer in answers], done]


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_gives_the_same_in_the_same_order(tmp_path: Path, seed: int):
    backend = Seeded(seed, flaky)
    recorder = Recorder(tmp_path / "t.trace", {"profile": profile_data(backend.profile)})
    with Run(backend, instruments=[recorder], gate=recorder.gate):
        values = everyone()
    recorder.close()
    assert len(backend.requests) > 8
    replayer = Replayer(Trace.open(tmp_path / "t.trace"))
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        again = everyone()
    replayer.finish()
    assert again == values


def test_a_sequential_run_gives_the_same():
    with running(Scripted(flaky)) as side_by_side:
        values, _ = everyone()
    with running(Scripted(flaky), sequential=True) as in_sequence:
        assert everyone()[0] == values
    assert in_sequence.prompts == side_by_side.prompts


# -- beside other options


@pytest.mark.parametrize("features", [["prefill"], [*CAN, "constrained_prefill"]])
def test_a_typed_answer_that_is_cut_may_be_continued(features):
    answers = {
        "/gen.0": response('{"name": "An', "length"),
        "/gen.0/more.1": response('n", "age": "o', "length"),
        "/gen.0/more.2": 'ld"}',
        "/gen.0/ask.1": response('{"name": "Ann",', "length"),
        "/gen.0/ask.1/more.1": ' "age": 30}',
    }
    with running(Scripted(answers, features=features), instruments=[log := Log()]) as seen:
        answer = gen(messages="?", response_format=Person, max_tokens=4, max_relay_rounds=2)
        assert answer.result() == ANN and answer.message.content == ANN_JSON
    assert list(seen.prompts) == list(answers)
    assert '{"name": "Ann", "age": "old"}\nuser: That answer' in asked(seen, "/gen.0/ask.1")
    assert [event.address for event in log.of(Delivered)] == list(answers)


def test_an_answer_that_calls_tools_is_not_yet_an_object():
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    backend = Scripted([calling(("add", {"a": 1, "b": 2})), "3"], features=["tools"])
    with running(backend):
        step = gen(messages="1 + 2?", response_format=int, tools=[add])
        assert step.response_obj is None and step.tool_calls[0].name == "add"
        done = gen(messages="1 + 2 is 3", response_format=int, tools=[add])
        assert done == 3 and done.tool_calls == ()


def test_log_probabilities_and_reasoning_stay():
    said = Sample("42", "stop", (TokenLogprob("42", -0.5),), reasoning="it always is")
    with running(Scripted([Response((said,))], features=[*CAN, "logprobs"])):
        answer = gen(messages="?", response_format=int, logprobs=0)
        assert answer == 42 and answer.reasoning == "it always is"
        assert answer.logprobs[0].logprob == -0.5 and answer.finish_reason == "stop"


def test_what_a_kept_answer_needs_is_not_cancelled_with_its_function():
    kept: list[Any] = []

    @ppl
    def failing():
        first = gen(messages="1")
        f"{first}"
        kept.append(gen(response_format=int))
        del first
        raise RuntimeError("later")

    with running(Seeded(0, lambda request: "1")) as seen:
        with pytest.raises(RuntimeError):
            failing()
        assert kept[0] == 1
    assert len(seen.requests) == 2 and not seen.aborted
