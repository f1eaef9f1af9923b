"""``appl.evaluate``: what is called with what, what counts as a failure, and in which kinds of code."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.backend import Request
from appl.errors import InvalidOption
from appl.parts.evaluation import Evaluation
from appl.testing import Scripted, running, said
from appl.tracing import Trace


@ppl
def answer(question: str):
    f"Q {question}"
    return gen()


@ppl
def judge(answer: object, target: object):
    f"Judge {answer} {target}"
    return gen(response_format=bool)


def echo(request: Request) -> str:
    text = said(request).removeprefix("user: ")
    return "true" if text.startswith("Judge") else text.removeprefix("Q ").upper()


def evaluated(f: Any, data: Any, **options: Any) -> Evaluation:
    with running(Scripted(echo)):
        return appl.evaluate(f, data, **options)


PAIRS = [("a", "A"), ("b", "B"), ("c", "X")]


def test_a_mean_of_answers_with_its_interval():
    found = evaluated(answer, PAIRS)
    score = found.scores["exact"]
    assert (score.mean, score.cases, score.failed) == (pytest.approx(2 / 3), 3, 0)
    assert found.mean() == found.mean("exact") == pytest.approx(2 / 3)
    assert [each.answer for each in found.samples] == ["A", "B", "C"]


def test_plain_and_coroutine_functions_partials_and_methods_are_evaluated():
    async def later(question: str):
        return str(await answer(question))

    class Agent:
        @ppl
        def ask(self, question: str):
            f"Q {question}"
            return gen()

    def plain(question: str):
        return str(answer(question))

    def many(question: str, times: int):
        return answer(question) if times == 2 else None

    for f in (later, plain, Agent().ask, functools.partial(many, times=2)):
        assert evaluated(f, PAIRS).mean() == pytest.approx(2 / 3)


async def test_it_is_awaited_in_a_coroutine():
    async def later(question: str):
        return str(await answer(question))

    async def length(answer: str, target: str):
        await asyncio.sleep(0)
        return len(answer)

    with running(Scripted(echo)):
        for f in (answer, later):
            found = await appl.evaluate(f, PAIRS, scores=["exact", length, judge])
            assert found.mean() == pytest.approx(2 / 3)
            assert found.mean("length") == 1 == found.mean("judge")


def test_it_is_a_part_of_the_program_that_calls_it():
    @ppl
    def program():
        "Hello"
        return str(appl.evaluate(answer, PAIRS).mean())

    with running(Scripted(echo)) as seen:
        program()
    assert next(iter(seen.prompts)).startswith("/program.0/evaluate.0/")


def test_a_judge_is_a_prompt_function_and_is_counted_and_placed_with_its_sample():
    with running(Scripted(echo)) as seen:
        found = appl.evaluate(answer, [{"id": "x", "input": "a"}], scores=[judge])
    assert list(seen.prompts) == ["/evaluate.0/x.0/answer.0/gen.0", "/evaluate.0/x.0/judge.0/gen.0"]
    assert found.usage.calls == 2 and found.mean() == 1


def test_scores_get_what_their_parameters_name():
    got: list[object] = []

    def by_name(answer: str, input: str, id: str, target: str, fields: dict[str, object]):
        got.append((answer, target, input, id, fields["kind"]))
        return 1

    def by_place(said: str, wanted: str):
        got.append((said, wanted))
        return True

    def alone(said: str):
        got.append(said)

    case = {"id": "x", "input": "a", "target": "T", "kind": "k"}
    found = evaluated(answer, [case], scores=[by_name, by_place, alone])
    assert set(got) == {("A", "T", "a", "x", "k"), ("A", "T"), "A"}
    assert found.scores["alone"].mean is None and found.scores["alone"].failed == 0


@pytest.mark.parametrize(
    ("value", "score"),
    [(True, 1), (0, 0), (2.5, 2.5), ("yes", 1), ("No.", 0), ("0.25", 0.25), ("false", 0)],
)
def test_what_counts_as_a_score(value: object, score: float):
    assert evaluated(answer, PAIRS, scores=[lambda answer: value]).samples[0].scores == {
        "<lambda>": score
    }


@pytest.mark.parametrize("value", ["good", [1], float("nan"), "inf", 10**400])
def test_anything_else_is_a_failure_of_the_score(value: object):
    found = evaluated(answer, PAIRS, scores=["exact", lambda answer: value])
    assert found.scores["<lambda>"].failed == 3 and found.scores["exact"].failed == 0
    assert "a score is a number" in found.samples[0].errors["<lambda>"]


def test_a_failure_is_left_out_of_the_mean_and_counts_nothing_in_a_threshold():
    def fails(question: str):
        return {"a": "A"}[question]

    found = evaluated(fails, PAIRS)
    assert found.scores["exact"].mean == 1 and found.mean() == pytest.approx(1 / 3)
    assert [each.error for each in found.failures] == ["KeyError: 'b'", "KeyError: 'c'"]


def test_a_call_that_fails_and_that_nobody_looks_at_is_a_failure_of_its_sample():
    @ppl
    def careless(question: str):
        f"Q {question}"
        gen(messages="broken")
        return gen()

    def broken(request: Request) -> str:
        if said(request).endswith("broken"):
            raise ValueError("broken")
        return echo(request)

    with running(Scripted(broken)):
        found = appl.evaluate(careless, PAIRS)
    assert [each.error for each in found.samples] == ["ValueError: broken"] * 3


def test_the_first_failure_ends_it_if_that_is_wanted():
    def fails(question: str):
        return {"a": "A"}[question]

    with pytest.raises(KeyError):
        evaluated(fails, PAIRS, fail_fast=True)


def test_so_many_run_at_once():
    running_now = most = 0

    async def slow(question: str):
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        await asyncio.sleep(0)
        running_now -= 1
        return question

    async def main():
        return await appl.evaluate(slow, [(str(i), None) for i in range(9)], concurrency=2)

    with running(Scripted(echo)):
        asyncio.run(main())
    assert most == 2


def test_another_function_runs_beside_it_and_is_compared():
    @ppl
    def lower(question: str):
        f"Q {question}"
        return str(gen()).lower()

    found = evaluated(answer, PAIRS, against=lower)
    assert found.against is not None and found.against.program == "lower"
    difference = found.differences["exact"]
    assert difference.mean == pytest.approx(2 / 3) and len(difference.better) == 2
    assert [each[0] for each in difference.better] == [each.id for each in found.samples[:2]]


@pytest.mark.parametrize("samples", [1, 3])
def test_where_nothing_changed_a_difference_still_has_an_interval(samples: int):
    found = evaluated(answer, PAIRS, against=answer, samples=samples).differences["exact"]
    assert found.low is not None and found.high is not None and found.low < 0 < found.high


def test_an_evaluation_of_before_is_compared_with_too():
    before = evaluated(lambda question: "A", PAIRS)
    found = evaluated(answer, PAIRS[1:], against=before)
    assert found.differences["exact"].cases == 2


def test_typed_answers_are_compared_and_recorded_as_data(tmp_path: Path):
    import dataclasses

    @dataclasses.dataclass
    class Place:
        name: str

    def place(question: str):
        return Place(question)

    found = evaluated(
        place, [("a", {"name": "a"}), ("b", '{"name": "b"}')], scores=["exact", "json"]
    )
    assert found.samples[0].answer == {"name": "a"}
    assert found.mean("json") == 1 and found.mean("exact") == 1


def test_it_is_read_again_from_the_trace_of_a_program(tmp_path: Path):
    path = tmp_path / "a.trace"
    with appl.record(path, backend="appl.testing:Echo"):
        found = appl.evaluate(answer, PAIRS, samples=2, against=judge_nothing)
    again = appl.parts.evaluation.recorded(path)
    assert again.samples == found.samples and again.usage == found.usage
    assert again.differences == found.differences and str(again)[:40] == str(found)[:40]
    assert appl.parts.evaluation.recorded(Trace.open(path)).program == "answer"


def judge_nothing(question: str):
    return question


def test_a_record_that_holds_anything_is_read_as_far_as_it_makes_sense(tmp_path: Path):
    from appl.parts.evaluation import all_recorded
    from appl.tracing import Observation

    def seen(address: str, kind: str, value: object) -> Observation:
        return Observation(address, 0, kind, value, 0, 0)

    odd = {"number": "x", "order": [], "scores": {"exact": "high", 3: 1.0}, "errors": 7, "error": 5}
    trace = Trace(tmp_path / "a.trace")
    trace.observations = [
        seen("/e.0", "evaluation", {"scores": 3, "against": ["x"]}),
        seen("/f.0", "evaluation", {"scores": ["exact"], "against": "/g.0"}),
        seen("/g.0", "evaluation", {"scores": ["exact"], "against": "/f.0"}),
        seen("/h.0", "evaluation", {"scores": ["exact"], "against": "/g.0"}),
        seen("/h.0/x.0", "sample", odd),
        seen("/h.0/y.0", "sample", "text"),
    ]
    for found in all_recorded(trace):
        assert str(found) and found.as_data()


def test_a_trace_without_one_says_so(tmp_path: Path):
    path = tmp_path / "a.trace"
    with appl.record(path, backend="appl.testing:Echo"):
        str(answer("x"))
    with pytest.raises(InvalidOption, match="records no evaluation"):
        appl.parts.evaluation.recorded(path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"samples": 0}, r"samples=0"),
        ({"concurrency": True}, r"concurrency=True"),
        ({"scores": []}, "at least one"),
        ({"scores": ["exat"]}, "did you mean 'exact'"),
        ({"scores": [3]}, "a score is a function"),
        ({"scores": [lambda: 1]}, "takes no answer"),
        ({"against": 3}, "takes a function, an Evaluation or the path"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(options: dict[str, Any], says: str):
    with running(Scripted(echo)) as seen, pytest.raises(InvalidOption, match=says):
        appl.evaluate(answer, PAIRS, **options)
    assert not seen.requests


def test_scores_of_one_name_are_told_apart():
    found = evaluated(answer, PAIRS, scores=[lambda answer: 1, lambda answer: 0])
    assert list(found.scores) == ["<lambda>", "<lambda>-2"]


def test_a_sequential_run_gives_the_same():
    with running(Scripted(echo), sequential=True):
        assert appl.evaluate(answer, PAIRS, scores=["exact", judge]).mean() == pytest.approx(2 / 3)
