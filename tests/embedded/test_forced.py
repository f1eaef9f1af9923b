"""Tokens that a constraint leaves no choice about are taken without being decoded."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import numpy as np
import pytest

from appl_backends.embedded.constraint import AnswerForm, Constraint, Constraints
from appl_backends.embedded.engine import BatchEngine
from appl_backends.embedded.model import Llama
from appl_backends.embedded.sampler import Draw
from appl_backends.embedded.task import EngineTask
from appl_backends.embedded.tokenizer import Tokenizer

from .conftest import MakeEngine, drain
from .random_answers import GRAMMAR, REGEXES, SCHEMAS, strict

FORMS = [
    *(AnswerForm(schema=strict(each)) for each in SCHEMAS),
    *(AnswerForm(regex=each) for each in REGEXES),
    AnswerForm(grammar=GRAMMAR),
]
LONG_KEYS = strict({f"the_{name}_of_the_customer": {"type": "boolean"} for name in "abc"})


@pytest.fixture(scope="module")
def constraints(model: Llama, tokenizer: Tokenizer) -> Constraints:
    return Constraints(tokenizer, model.shape.vocab)


def task(constraint: Constraint | None, logprobs: int | None = None, n: int = 1) -> EngineTask:
    draws = [Draw(0.8, 0.95, 3, sample) for sample in range(n)]
    return EngineTask([0, *range(20, 40)], draws, 90, constraint=constraint, logprobs=logprobs)


def counted(engine: BatchEngine, made: EngineTask) -> tuple[list[list[int]], int, int]:
    """The answers to a task, the tokens that were forced, and the steps."""
    (answers,) = drain(engine, made)
    return answers, engine.counters.forced_tokens, engine.counters.steps


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_forced_tokens_are_those_of_the_matcher(
    constraints: Constraints, form: AnswerForm, seed: int
) -> None:
    rng, state = random.Random(seed), constraints.compile(form)
    for _ in range(80):
        listed = state.fork()._matcher.compute_ff_tokens()
        assert state.forced() == (listed[0] if listed else None) or np.flatnonzero(
            state.mask()
        ) == [1]
        token = int(rng.choice(np.flatnonzero(state.mask())))
        state.accept(token)
        if state.complete:
            break


@pytest.mark.parametrize("form", FORMS)
def test_answers_are_the_same_with_and_without(
    make_engine: MakeEngine, constraints: Constraints, form: AnswerForm
) -> None:
    plain, _, steps = counted(make_engine(jumps=False), task(constraints.compile(form), n=3))
    answers, forced, fewer = counted(make_engine(), task(constraints.compile(form), n=3))
    assert answers == plain and fewer <= steps and (forced == 0 or fewer < steps)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [{"special": True}, {"min_tokens": 60}])
def test_no_option_of_a_server_lets_an_answer_leave_its_constraint(
    make_engine: MakeEngine,
    constraints: Constraints,
    tokenizer: Tokenizer,
    form: AnswerForm,
    options: dict[str, Any],
) -> None:
    made = task(constraints.compile(form), n=8)
    stops = frozenset(range(8, tokenizer.size)) if "min_tokens" in options else frozenset()
    plain = dataclasses.replace(made, stop_tokens=stops)
    asked = dataclasses.replace(plain, **options)
    assert drain(make_engine(), asked) == drain(make_engine(), plain) and not asked.failure


def test_long_keys_take_few_steps(make_engine: MakeEngine, constraints: Constraints) -> None:
    form = AnswerForm(schema=LONG_KEYS)
    _, none, steps = counted(make_engine(jumps=False), task(constraints.compile(form)))
    (answer,), forced, fewer = counted(make_engine(), task(constraints.compile(form)))
    assert none == 0 and forced > 0.8 * len(answer) and fewer < steps / 4


def test_a_step_takes_no_more_forced_tokens_than_a_chunk(
    make_engine: MakeEngine, constraints: Constraints
) -> None:
    form = AnswerForm(regex="yes" + "ab" * 40 + "[cd]")
    whole, *_ = counted(make_engine(), task(constraints.compile(form)))
    pieces, _, steps = counted(make_engine(chunk=4), task(constraints.compile(form)))
    assert pieces == whole and steps >= 20


def test_with_log_probabilities_every_token_is_decoded(
    make_engine: MakeEngine, constraints: Constraints
) -> None:
    form = AnswerForm(schema=LONG_KEYS)
    plain, *_ = counted(make_engine(), task(constraints.compile(form)))
    made = task(constraints.compile(form), logprobs=0)
    answers, forced, _ = counted(make_engine(), made)
    assert answers == plain and forced == 0 and len(made.live[0].logprobs) == len(answers[0])


def test_a_forced_answer_ends_at_its_stop_string(
    make_engine: MakeEngine, constraints: Constraints
) -> None:
    for jumps in (True, False):
        made = task(constraints.compile(AnswerForm(regex="one two three four")))
        made.stop = ("thr",)
        (ids,), *_ = counted(make_engine(jumps=jumps), made)
        sample = made.live[0].sample()
        assert (sample.text, sample.finish_reason) == ("one two ", "stop") and len(ids) < 16


def test_a_schema_is_read_as_json(make_engine: MakeEngine, constraints: Constraints) -> None:
    made = task(constraints.compile(AnswerForm(schema=LONG_KEYS)))
    drain(make_engine(), made)
    assert len(json.loads(made.live[0].sample().text)) == 3
