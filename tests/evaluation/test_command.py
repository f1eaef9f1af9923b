"""``appl eval``: tables, reuse after edits, broken-off evaluations, comparisons, exit codes."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest

from appl.parts.evaluation import recorded
from tests.cli.conftest import Project, Result

from .conftest import PROGRAM, Asked, write_cases

EDITED = PROGRAM.replace("Tone of", "Style of")


def evaluated(folder: Project, *words: str, program: str = "answer") -> Result:
    return folder.appl("eval", f"prog.py:{program}", "cases.jsonl", *words)


def scores(result: Result) -> list[dict[str, float]]:
    return [sample["scores"] for sample in result.data["samples"]]


def test_a_table_has_mean_interval_and_failures(folder: Project):
    done = evaluated(folder, "--score", "exact", "--score", "prog.py:length")
    assert done.code == 0, done.err
    title, head, exact, length, sums = done.out.splitlines()
    assert title == "answer: 20 cases"
    assert head.split() == ["score", "mean", "95%", "interval", "failed"]
    assert exact.split()[:2] == ["exact", "0.650"] and length.startswith("length")
    assert sums.startswith("60 calls, cost")


def test_the_trace_holds_the_same_evaluation(folder: Project):
    done = evaluated(folder, "--json", "--samples", "2")
    found = recorded(folder.traces[-1])
    data = done.data
    del data["trace"]
    assert {**found.as_data(), "seconds": data["seconds"]} == data
    assert found.usage.calls == 120 and found.samples[1].address == "/evaluate.0/c0.1"


def test_the_same_evaluation_again_asks_nothing(folder: Project, asked: Asked):
    first = evaluated(folder, "--json")
    assert sum(asked.take().values()) == 60
    again = evaluated(folder, "--json")
    assert not asked.take() and scores(again) == scores(first)
    assert again.data["usage"]["reused"] == 60
    told = evaluated(folder)
    assert "answered 60 calls, 0 were asked; --fresh asks all" in told.err
    evaluated(folder, "--fresh")
    assert sum(asked.take().values()) == 60


def test_samples_of_a_case_are_asked_one_by_one_and_kept_one_by_one(folder: Project, asked: Asked):
    evaluated(folder)
    asked.take()
    evaluated(folder, "--samples", "3")
    assert sum(asked.take().values()) == 120


def test_an_edit_of_one_of_three_prompts_pays_only_for_what_it_changes(
    folder: Project, asked: Asked
):
    write_cases(folder.folder, 200)
    evaluated(folder, "--fresh", "--quiet")
    before = asked.take()
    folder.write("prog.py", EDITED)
    edited = evaluated(folder, "--json")
    paid = asked.take()
    fresh = evaluated(folder, "--json", "--fresh")
    after = asked.take()
    assert sum(before.values()) == 600 == sum(after.values())
    assert paid == after - before
    assert sum(paid.values()) == 200 + 67  # all tones, and the answers that a changed tone changes
    assert scores(edited) == scores(fresh)


def test_an_edit_that_is_taken_back_pays_nothing(folder: Project, asked: Asked):
    original = (folder.folder / "prog.py").read_text()
    first = evaluated(folder, "--json")
    folder.write("prog.py", EDITED)
    evaluated(folder)
    asked.take()
    folder.write("prog.py", original)
    again = evaluated(folder, "--json")
    assert not asked.take() and scores(again) == scores(first)
    folder.write("prog.py", EDITED)
    evaluated(folder)
    assert not asked.take()


def test_an_edit_of_a_score_asks_nothing_of_the_program(folder: Project, asked: Asked):
    evaluated(folder, "--score", "prog.py:judge")
    asked.take()
    folder.write("prog.py", PROGRAM.replace("as good as", "like"))
    evaluated(folder, "--score", "prog.py:judge", "--score", "contains")
    assert all(question.startswith("Is ") for question in asked.take())


def test_cases_that_come_go_and_move_leave_the_others_alone(folder: Project, asked: Asked):
    evaluated(folder)
    asked.take()
    cases = (folder.folder / "cases.jsonl").read_text().splitlines()
    new = json.dumps({"id": "new", "input": "case 100", "target": "plain2"})
    folder.write("cases.jsonl", "\n".join([new, *reversed(cases[5:])]))
    done = evaluated(folder, "--json")
    assert [sample["id"] for sample in done.data["samples"]][:2] == ["new", "c19"]
    assert all("case 100" in question for question in asked.take())


def test_an_evaluation_of_some_cases_keeps_the_answers_of_all(folder: Project, asked: Asked):
    evaluated(folder)
    for limit in ("2", "3"):
        evaluated(folder, "--limit", limit)
    asked.take()
    evaluated(folder)
    assert not asked.take()


def killed_at(number: int, folder: Project, asked: Asked, *words: str) -> Counter[str]:
    """What the server had answered when the evaluation was killed at its answer *number*."""
    process = folder.process(
        "-m", "appl", "eval", "prog.py:answer", "cases.jsonl", *words, cold=True
    )
    plain, left = asked.server.answer, [number]

    def answer(question: str) -> str:
        left[0] -= 1
        if left[0] == 0:
            os.kill(process.pid, signal.SIGKILL)
        return plain(question)

    asked.server.answer = answer
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, (out, err)
    asked.server.answer = plain
    return asked.take()


def recorded_answers(folder: Project) -> Counter[str]:
    """The questions whose answers the last trace holds, so that they were paid for."""
    from appl.tracing import Trace

    calls = Trace.open(folder.traces[-1]).calls
    return Counter(
        str(list(call.messages or ())[-1].content) for call in calls if call.outcome == "answered"
    )


@pytest.mark.parametrize("number", [45, pytest.param(55, marks=pytest.mark.long)])
def test_an_evaluation_that_is_killed_goes_on_and_pays_nothing_twice(
    number: int, folder: Project, asked: Asked
):
    killed_at(number, folder, asked, "--concurrency", "1")
    kept = recorded_answers(folder)
    done = evaluated(folder, "--json")
    assert done.code == 0 and len(done.data["samples"]) == 20
    after = asked.take()
    assert kept and not kept & after
    assert sum((kept + after).values()) == 60


def test_a_killed_evaluation_of_an_edited_program_keeps_what_was_paid_before_the_edit(
    folder: Project, asked: Asked
):
    evaluated(folder)
    first = asked.take()
    folder.write("prog.py", EDITED)
    killed_at(8, folder, asked, "--concurrency", "1")
    kept = recorded_answers(folder)
    done = evaluated(folder, "--json")
    assert done.code == 0
    assert not (first + kept) & asked.take()


@pytest.mark.long
def test_an_evaluation_that_is_killed_again_and_again_pays_nothing_twice(
    folder: Project, asked: Asked
):
    kept: Counter[str] = Counter()
    for _ in range(9):
        paid = killed_at(5, folder, asked)
        assert not kept & paid
        kept |= recorded_answers(folder)
    done = evaluated(folder, "--json")
    assert done.data["failed"] == 0 and not kept & asked.take()


def test_a_program_is_compared_with_another_one_case_by_case(folder: Project):
    done = evaluated(folder, "--against", "prog.py:older", "--json")
    found = done.data["differences"]["exact"]
    before = {each["id"]: each["scores"]["exact"] for each in done.data["against"]["samples"]}
    after = {each["id"]: each["scores"]["exact"] for each in done.data["samples"]}
    better = [each for each in after if after[each] > before[each]]
    worse = [each for each in after if after[each] < before[each]]
    assert [each[0] for each in found["better"]] == better
    assert [each[0] for each in found["worse"]] == worse
    assert found["mean"] == pytest.approx((len(better) - len(worse)) / 20)
    shown = evaluated(folder, "--against", "prog.py:older")
    assert shown.out.splitlines()[0] == "answer against older: 20 cases"


def test_a_program_is_compared_with_a_recorded_evaluation(folder: Project, asked: Asked):
    evaluated(folder)
    run = folder.traces[-1].stem
    asked.take()
    folder.write("prog.py", PROGRAM.replace("way: {question}", "sort: {question}"))
    done = evaluated(folder, "--against", run, "--json")
    assert sum(asked.take().values()) == 20
    assert done.data["differences"]["exact"]["cases"] == 20
    assert folder.appl("trace", "replay").code == 0


def test_failures_are_counted_and_shown_and_end_nothing(folder: Project):
    done = evaluated(folder, "--score", "exact", "--score", "prog.py:broken", program="fails")
    assert done.code == 0, done.err
    assert "failed: c3, c13: ValueError: it ends with 3" in done.out
    assert "failed: c0, c7, c14: broken: KeyError: 'plain0'" in done.out
    assert "failed: 3 other errors" in done.out
    exact = next(line for line in done.out.splitlines() if line.startswith("exact"))
    assert exact.split()[-1] == "2"


def test_with_fail_fast_the_first_failure_ends_it(folder: Project):
    done = evaluated(folder, "--fail-fast", program="fails")
    assert done.code == 1 and "it ends with 3" in done.err and not done.out


@pytest.mark.parametrize(
    ("least", "code"),
    [("0.6", 0), ("exact=0.6", 0), ("0.7", 1), ("exact=0.7", 1)],
)
def test_a_mean_below_the_least_one_is_an_exit_code(folder: Project, least: str, code: int):
    done = evaluated(folder, "--at-least", least)
    assert done.code == code
    assert ("exact is 0.650, below --at-least 0.7" in done.err) == bool(code)


def test_a_failure_counts_as_nothing_for_the_least_mean(folder: Project):
    folder.write("cases.jsonl", '{"input": "x", "target": "x"}\n{"input": "x3", "target": "x3"}')
    assert evaluated(folder, "--at-least", "0.9", program="fails").code == 1
    assert evaluated(folder, "--at-least", "0.5", program="fails").code == 0


def test_an_evaluation_without_any_score_has_failed(folder: Project):
    folder.write("cases.jsonl", '{"input": "x3"}')
    assert evaluated(folder, program="fails").code == 1


def test_failed_calls_are_asked_again_by_the_same_command(folder: Project, asked: Asked):
    asked.refuses = True
    assert evaluated(folder, "--limit", "3", "--json").data["failed"] == 3
    asked.refuses = False
    done = evaluated(folder, "--limit", "3", "--json")
    assert done.data["failed"] == 0 and sum(asked.take().values()) == 9


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("prog.py:answer", "nothing.jsonl"), "nothing.jsonl: the cases cannot be read"),
        (("prog.py:answer", "prog.py"), "cases are read from .jsonl, .json and .csv files"),
        (("prog.py:answers", "cases.jsonl"), "did you mean 'answer'"),
        (("prog.py:answer", "cases.jsonl", "--score", "exat"), "did you mean 'exact'"),
        (("prog.py:answer", "cases.jsonl", "--samples", "0"), "0 is not in the range x>=1"),
        (
            ("prog.py:answer", "cases.jsonl", "--against", "norun"),
            "--against takes file.py:function",
        ),
        (("prog.py:answer", "cases.jsonl", "--at-least", "much"), "--at-least takes a mean"),
        (("prog.py:answer", "cases.jsonl", "--at-least", "x=1"), "there is no score 'x'"),
    ],
)
def test_a_slip_is_named_before_anything_is_asked(
    words: tuple[str, ...], says: str, folder: Project, asked: Asked
):
    done = folder.appl("eval", *words)
    assert done.code == 2 and says in done.err, (done.code, done.err)
    assert not asked.take()


def test_a_run_of_it_is_replayed_shown_and_run_again(folder: Project, asked: Asked):
    first = evaluated(folder, "--samples", "2")
    asked.take()
    again = folder.appl("trace", "replay")
    assert again.code == 0, again.err
    assert again.out.splitlines()[:3] == first.out.splitlines()[:3]
    assert folder.appl("trace", "rerun").code == 0
    shown = folder.appl("trace", "show").out
    assert "c0.1" in shown and "\n".join(first.out.splitlines()[:3]) in shown
    assert not asked.take()
