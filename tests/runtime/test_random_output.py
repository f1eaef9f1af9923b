"""Typed answers of random types: whatever a model says first, the object comes out in the end."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import llguidance
import pytest
from hypothesis import given, settings, strategies as st
from shapes import Typed, schemas, types

from appl import gen, ppl
from appl.runtime import shape_of
from appl.runtime.answers.demand import constraint
from appl.runtime.answers.partial import partial_reader
from appl.testing import Run, Scripted, running
from appl.tracing import Recorder, Replayer, profile_data

GARBAGE = st.sampled_from(
    ["I cannot do that.", "", "{", '{"x": ', "```json\n{oops}\n```", "[[", '"', '{"value": "zzz', "\ud800"]
)  # fmt: skip
PROSE = st.sampled_from(
    ["{}", "Here: {}", "```json\n{}\n```", "```\n{}\n```\nDone.", "{}\n\nI hope it helps"]
)
ASKING = st.tuples(st.lists(GARBAGE, max_size=2), PROSE)


def script(wrong: list[str], prose: str, text: str) -> list[str]:
    return [*wrong, prose.replace("{}", text)]


@settings(max_examples=80, deadline=None)
@given(types, ASKING)
def test_the_object_comes_out_in_the_end(typed: Typed, asking: Any) -> None:
    wrong, prose = asking
    with running(Scripted(script(wrong, prose, typed.text))) as seen:
        answer = gen(messages="?", response_format=typed.kind)
        assert answer.result() == typed.object
        assert json.loads(json.dumps(typed.value)) in (
            _plain(answer.message.content),
            answer.message.content,
        )
    assert len(seen.requests) == 1 + len(wrong)


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@settings(max_examples=40, deadline=None)
@given(schemas, ASKING)
def test_so_does_the_value_of_a_schema(pair: Any, asking: Any) -> None:
    (schema, value), (wrong, prose) = pair, asking
    with running(Scripted(script(wrong, prose, json.dumps(value)))):
        assert gen(messages="?", response_format=schema).result() == value


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(types, ASKING), min_size=1, max_size=3))
def test_a_run_in_sequence_and_a_replay_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, cases: list[Any]
) -> None:
    scripts = [script(*asking, typed.text) for typed, asking in cases]

    @ppl
    def ask(number):
        f"{number}"
        answer = gen(response_format=cases[number][0].kind)
        f"{answer}?"
        return answer, str(gen())

    def answered(request: Any) -> str:
        parts = request.address.split("/")
        if parts[2] == "gen.1":
            return request.digest.hex()[:4]
        turn = int(parts[3][4:]) if len(parts) > 3 else 0
        return scripts[int(parts[1][4:])][turn]

    def program() -> list[Any]:
        found = [ask(number) for number in range(len(cases))]
        return [(answer.result(), answer.usage, text) for answer, text in found]

    path = tmp_path_factory.mktemp("trace") / "t.trace"
    backend = Scripted(answered)
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    with closing(recorder), Run(backend, instruments=[recorder], gate=recorder.gate):
        values = program()
    with running(Scripted(answered), sequential=True) as in_sequence:
        assert program() == values
    assert in_sequence.prompts == backend.prompts
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert program() == values
    replayer.finish()


@pytest.fixture(scope="module")
def tokens() -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer("byte")


STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def accepted(tokens: llguidance.LLTokenizer, schema: dict[str, Any], text: str) -> bool:
    grammar = llguidance.LLMatcher.grammar_from_json_schema(
        json.dumps({**schema, "x-guidance": STYLE})
    )
    matcher = llguidance.LLMatcher(tokens, grammar)
    assert not matcher.is_error(), matcher.get_error()
    return bool(matcher.consume_tokens(list(text.encode())) and matcher.is_accepting())


@settings(max_examples=80, deadline=None)
@given(types)
def test_the_constraint_allows_every_value_of_the_type(tokens: Any, typed: Typed) -> None:
    schema = shape_of(typed.kind).schema
    assert schema is not None and accepted(tokens, constraint(schema), typed.text)


@settings(max_examples=40, deadline=None)
@given(schemas)
def test_the_constraint_allows_every_value_of_the_schema(tokens: Any, pair: Any) -> None:
    assert accepted(tokens, constraint(pair[0]), json.dumps(pair[1]))


@settings(max_examples=100, deadline=None)
@given(types, st.data())
def test_every_beginning_of_an_answer_can_be_read_and_the_whole_is_the_object(
    typed: Typed, data: Any
) -> None:
    read = partial_reader(shape_of(typed.kind))
    for cut in range(len(typed.text)):
        read(typed.text[:cut])
    if isinstance(typed.value, dict | list) and typed.value not in ({}, []):
        assert read(typed.text) == typed.object
        assert read("So: " + typed.text + " is it.") == typed.object
