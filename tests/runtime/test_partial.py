"""The beginning of a typed answer as an object, and the stream of such objects."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field, RootModel, field_validator
from typing_extensions import TypedDict

from appl import gen
from appl.backend import Response, Sample
from appl.errors import OutputError
from appl.runtime import shape_of
from appl.runtime.answers.extract import candidates, kinds_of
from appl.runtime.answers.partial import partial_reader
from appl.testing import Run, Scripted, running
from appl.tracing import Recorder, Replayer, profile_data


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    age: int | None = None


class Team(BaseModel):
    title: str = Field(alias="Title", min_length=3)
    since: datetime.date
    lead: Person
    others: list[Person] = []
    color: Optional[Color] = Color.RED  # noqa: UP045 # as people write it


@dataclass(frozen=True)
class Note:
    lines: list[str]
    marks: dict[str, bool] = field(default_factory=dict)
    kind: str = "note"


class Options(TypedDict, total=False):
    loud: bool
    name: str


def beginnings(kind: Any, text: str, wrapped: bool = False) -> list[Any]:
    """What the growing *text* is worth, without repetitions."""
    read = partial_reader(shape_of(kind), wrapped)
    found: list[Any] = []
    for end in range(len(text) + 1):
        value = read(text[:end])
        if not found or value != found[-1]:
            found.append(value)
    return found


def test_a_model_grows_field_by_field_and_text_letter_by_letter():
    text = '{"Title": "Team", "since": "2024-01-02", "lead": {"name": "Al", "age": 30}, "color": "blue"}'
    found = beginnings(Team, text)
    assert found[0] is None and all(type(each) is Team for each in found[1:])
    assert [each.title for each in found[1:6]] == ["", "T", "Te", "Tea", "Team"]
    assert [each.since for each in found[5:7]] == [None, datetime.date(2024, 1, 2)]
    leads = [(each.lead.name, each.lead.age) for each in found[7:12]]
    assert leads == [(None, None), ("", None), ("A", None), ("Al", None), ("Al", 30)]
    assert [each.color for each in found[-2:]] == [Color.RED, Color.BLUE]
    assert found[-1] == Team.model_validate_json(text)


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        (list[int], "[1, 22, 3]", [None, [1], [1, 22], [1, 22, 3]]),
        (list[Color], '["red", "blue"]', [None, [], [Color.RED], [Color.RED, Color.BLUE]]),
        (tuple[int, str], '[1, "ab"]', [None, (1,), (1, ""), (1, "a"), (1, "ab")]),
        (dict[str, int], '{"a": 1, "b": 22}', [None, {"a": 1}, {"a": 1, "b": 22}]),
        (Options, '{"loud": true, "name": "x"}', [
            None, {"loud": True}, {"loud": True, "name": ""}, {"loud": True, "name": "x"}]),
        (Note, '{"lines": ["a"], "marks": {"b": true}}', [
            None, Note([]), Note([""]), Note(["a"]), Note(["a"], {"b": True})]),
        (list[Person | int], '[3, {"name": "A"}]', [
            None, [3], [3, Person.model_construct(name=None)], [3, Person(name="")],
            [3, Person(name="A")]]),
        (str, "ab", [None, "a", "ab"]), (Color, '"red"', [None, Color.RED]), (Color, "red", [None, Color.RED]),
        (int, "42", [None]), (bool, "true", [None]),
        (Annotated[str, Field(min_length=2)], '"abc"', [None, "a", "ab", "abc"]),
        ("json", '{"a": [1, {"b": "x"}]}', [
            None, {"a": []}, {"a": [1]}, {"a": [1, {}]}, {"a": [1, {"b": ""}]}, {"a": [1, {"b": "x"}]}]),
        (Literal["a", "b"], "so: b", [None]), (RootModel[list[int]], "[1, 2]", [
            None, RootModel[list[int]]([1]), RootModel[list[int]]([1, 2])]),
    ],
)  # fmt: skip
def test_every_kind_grows(kind, text, found):
    assert beginnings(kind, text) == found


def test_what_stands_around_is_left_out_and_a_wrapping_too():
    assert beginnings(list[int], "Sure:\n```json\n[1, 2]\n```") == [None, [1], [1, 2]]
    assert beginnings(list[int], '{"value": [1, 2]}', wrapped=True) == [None, [1], [1, 2]]
    assert beginnings(Color, '{"value": "red"}', wrapped=True) == [None, Color.RED]


def test_validators_that_stumble_over_unfinished_data_do_no_harm():
    class Strict(BaseModel):
        word: str
        rest: list[int]

        @field_validator("word")
        @classmethod
        def _long(cls, word: str) -> str:
            return f"{word[0].upper()}{word[1:]}"  # IndexError when there is no letter yet

    found = beginnings(Strict, '{"word": "abc", "rest": [1]}')
    assert [each and each.word for each in found][:4] == [None, "", "a", "ab"]
    assert found[-1] == Strict(word="abc", rest=[1])


def test_the_stream_of_a_typed_answer_yields_objects():
    with running(Scripted(['{"name": "Al", "age": 3}'], features=["schema"], pieces=list)):
        answer = gen(messages="?", response_format=Person, stream=True)
        names = [each.name for each in answer.text_stream]
        assert names == ["", "A", "Al", "Al"] and all(isinstance(n, str) for n in names)
        assert [*answer.text_stream][-1] == answer.result() == Person(name="Al", age=3)


def test_a_long_answer_is_read_once_for_each_percent_that_it_grows():
    numbers = list(range(3000))
    text = str(numbers)
    with running(Scripted([text], features={"stream"}, pieces=list)):
        objects = list(gen(messages="Count.", response_format=list[int], stream=True).text_stream)
    assert objects[-1] == numbers and len(objects) < 700
    assert all(len(a) < len(b) for a, b in pairwise(objects))


def test_asking_again_begins_anew():
    with running(Scripted(["[1, 2, oops", "[3, 4]"], pieces=list)):
        answer = gen(messages="?", response_format=list[int], stream=True)
        assert list(answer.text_stream) == [[1], [1, 2], [3], [3, 4]]


def test_a_sample_that_is_not_the_first_is_asked_again_unseen():
    answers = [Response((Sample("[1]", "stop"), Sample("no", "stop"))), "[2]"]
    with running(Scripted(answers)) as seen:
        answer = gen(messages="?", response_format=list[int], n=2, stream=True)
        assert list(answer.text_stream) == [[1]]
        assert [sample.response_obj for sample in answer.samples] == [[1], [2]]
    assert len(seen.requests) == 2


def test_an_error_comes_after_what_was_streamed():
    with running(Scripted(["[1, oops", "x", "y"], pieces=list)):
        seen: list[Any] = []
        with pytest.raises(OutputError):
            for each in gen(messages="?", response_format=list[int], stream=True).text_stream:
                seen.append(each)
        assert seen == [[1]]


def test_a_replay_streams_the_same_objects(tmp_path: Path):
    def program() -> list[Any]:
        return list(gen(messages="?", response_format=list[int], stream=True).text_stream)

    backend = Scripted(["[1, 2, oops", "[3, 4]"], pieces=list)
    recorder = Recorder(tmp_path / "t", {"profile": profile_data(backend.profile)})
    with Run(backend, instruments=[recorder], gate=recorder.gate):
        values = program()
    recorder.close()
    replayer = Replayer(tmp_path / "t")
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert program() == values
    replayer.finish()


@pytest.mark.parametrize("bit", ["{", "[", '{"a":', "[1,", '"', "```\n", "{}", "[{", "1 ", "true "])
def test_whatever_a_model_writes_is_searched_in_time(bit):
    text = bit * (200_000 // len(bit))
    began = time.process_time()
    for kind in (Person, list[int], int, Color, bool):
        shape = shape_of(kind)
        for _ in candidates(text, kinds_of(shape.schema), shape.options):
            pass
        partial_reader(shape)(text)
    assert time.process_time() - began < 5  # seconds of CPU, where quadratic time takes minutes
