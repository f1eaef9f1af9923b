"""``appl.optimize``: what is tried, what is kept, and in which kinds of code."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import appl
from appl.backend import Request
from appl.errors import InvalidOption
from appl.parts.optimization import Optimization, Reflection
from appl.testing import Scripted, running

from . import program
from .program import answer, judge, later, measured, spoken

CASES = [{"id": f"c{i}", "input": f"q{i}", "target": f"A{i}"} for i in range(12)]


def model(request: Request) -> str:
    """Right answers for the prompts that hold the word Well, and for every fourth case."""
    text = "\n".join(message.content for message in request.messages or ())
    if text.startswith("Topic"):
        return "t"
    if text.startswith("Judge"):
        return "1"
    number = int(text.rsplit("q", 1)[1].split()[0])
    return f"A{number}" if "Well" in text or number % 4 == 0 else "no"


def better(reflection: Reflection) -> str:
    return f"```\nWell: {reflection.text}\n```"


def optimized(f: Any = answer, cases: Any = CASES, **options: Any) -> Optimization:
    options = {"proposer": better, "progress": False, **options}
    with running(Scripted(model)):
        return appl.optimize(f, cases, **options)


def test_the_better_text_wins_and_is_measured_on_cases_that_are_held_out():
    found = optimized()
    assert [(each.name, text) for each, text in found.texts.items()] == [
        ("answer[1]", "Well: Answer.")
    ] and found.is_better
    assert len(found.before.samples) == len(found.after.samples) == 4
    ids = [{each.id for each in one.samples} for one in (found.train_before, found.before)]
    assert not ids[0] & ids[1] and len(ids[0] | ids[1]) == 12
    assert found.after.mean() == 1 and found.train_after.mean() == 1
    assert "cases to learn from have the full score" in found.ended


def test_nobody_proposes_for_a_program_that_is_right():
    def never(reflection: Reflection) -> str:
        raise AssertionError

    found = optimized(cases=CASES[::4], held_out=CASES[1:2], proposer=never)
    assert not found.texts and not found.diff and not found.is_better
    assert "no better text was found" in str(found)


def test_the_proposer_sees_failed_cases_to_learn_from_with_values_of_placeholders():
    seen: list[Reflection] = []

    def proposer(reflection: Reflection) -> str:
        seen.append(reflection)
        return reflection.text

    found = optimized(proposer=proposer, proposals=3)
    held = {each.input for each in found.before.samples}
    shown = {each.target for reflection in seen for each in reflection.examples}
    assert shown and not shown & {f"A{str(each)[1:]}" for each in held}
    about = next(each for each in seen if each.function == "topic")
    assert all(prompt.startswith("{question}: q") for e in about.examples for prompt, _ in e.calls)
    assert all(each.scores == "exact 0" for each in about.examples)
    assert {each.reason for each in found.proposals} == {"it was tried before"}


def test_what_did_not_help_is_told_the_next_time():
    seen: list[Reflection] = []

    def proposer(reflection: Reflection) -> str:
        seen.append(reflection)
        return f"{reflection.text} {len(seen)}"

    optimized(proposer=proposer, proposals=6)
    again = [each for each in seen if each.earlier]
    assert again and again[0].earlier[0][1] == "Its mean score was 0.000 for 0.000."


def test_it_is_awaited_in_a_coroutine_and_finds_the_same():
    async def awaited(f: Any) -> Optimization:
        return await appl.optimize(f, CASES, proposer=better, progress=False)

    found = optimized()
    for f in (answer, later):
        with running(Scripted(model)):
            again = asyncio.run(awaited(f))
        assert again.diff == found.diff and again.spent == found.spent


def test_coroutine_functions_methods_and_system_messages():
    assert optimized(later).is_better
    assert optimized(program.Agent().ask).is_better
    assert [each.function for each in optimized(program.spoken).texts] == ["spoken"]


def test_the_text_of_a_score_is_not_changed():
    found = optimized(scores=["exact", judge])
    assert {each.component.partition("[")[0] for each in found.proposals} <= {"topic", "answer"}


def test_samples_of_a_case_do_not_share_an_answer():
    found = optimized(samples=3)
    assert found.use_before.calls == 2 * 3 * 4


def test_another_seed_makes_other_choices():
    def tried(seed: int) -> list[Any]:
        seen: list[Any] = []

        def proposer(reflection: Reflection) -> str:
            seen.append([each.target for each in reflection.examples])
            return f"{reflection.text}."

        optimized(proposer=proposer, seed=seed, proposals=2)
        return seen

    assert tried(0) == tried(0) != tried(1)


def test_a_proposer_that_fails_is_a_proposal_that_failed():
    def broken(reflection: Reflection) -> str:
        raise KeyError("x")

    found = optimized(proposer=broken, proposals=2)
    assert [each.reason for each in found.proposals] == ["the proposer failed: KeyError: 'x'"] * 2


def asked(f: Any = answer, cases: Any = CASES, **options: Any) -> tuple[Optimization, Counter[str]]:
    """What is found, and how often each prompt is sent."""
    prompts: Counter[str] = Counter()

    def counted(request: Request) -> str:
        prompts["\n".join(message.content for message in request.messages or ())] += 1
        return model(request)

    with running(Scripted(counted)):
        found = appl.optimize(f, cases, **{"proposer": better, "progress": False, **options})
    return found, prompts


MANY = [{"id": f"c{i}", "input": f"q{i}", "target": f"A{i}"} for i in range(90)]


def test_a_poor_program_answers_only_the_cases_that_decisions_need():
    found, _ = asked(cases=MANY)
    before, after = (len(each.samples) for each in (found.train_before, found.train_after))
    assert before < after == 60 and found.is_better
    assert f"on {before}; 1.000 after, on 60" in str(found)


def test_cases_held_out_are_not_asked_where_nothing_is_better():
    def no_help(reflection: Reflection) -> str:
        return f"{reflection.text}."

    found, prompts = asked(proposer=no_help, proposals=4)
    assert not found.texts and not found.before.samples and not found.after.samples
    inputs = {prompt.rsplit("q", 1)[1].split()[0].rstrip("?.") for prompt in prompts}
    assert len(inputs) == 8 and "the table is of 8 cases" in str(found)


def test_a_candidate_that_is_worse_on_more_cases_is_given_up_before_it_has_answered_all():
    def said(request: Request) -> str:
        text = "\n".join(message.content for message in request.messages or ())
        number = int(text.rsplit("q", 1)[1].split()[0])
        return f"A{number}" if (number % 8 == 0) == ("Only" in text) else "no"

    def only(reflection: Reflection) -> str:
        return f"Only: {reflection.text}"

    with running(Scripted(said)):
        found = appl.optimize(spoken, MANY, proposer=only, proposals=1, progress=False)
    assert [each.reason for each in found.proposals] == [
        "on more cases, it cannot reach the best one"
    ]
    tried = found.of_candidates.calls - len(found.train_before.samples)
    assert tried < len(found.train_before.samples)


@pytest.mark.parametrize(("temperature", "times"), [(0.0, 1), (0.5, 3)])
def test_equal_prompts_of_several_cases_are_asked_once_at_temperature_0(
    temperature: float, times: int
):
    equal = [{**each, "id": f"{each['id']}-{number}"} for each in CASES for number in range(3)]
    given = [
        {**each, "input": {"question": each["input"], "temperature": temperature}} for each in equal
    ]
    _, prompts = asked(measured, given)
    assert max(prompts.values()) == times


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"proposals": 0}, r"proposals=0"),
        ({"batch": True}, r"batch=True"),
        ({"proposer": 3}, "takes the name of a model, or a function"),
        ({"scores": ["exat"]}, "did you mean 'exact'"),
        ({"cases": CASES[:2]}, "a third of the cases is held out, and there are 2"),
        ({"held_out": CASES}, "all cases of the data are held out"),
        ({"f": len}, "no text to improve"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(options: dict[str, Any], says: str):
    with pytest.raises(InvalidOption, match=says):
        optimized(**options)
