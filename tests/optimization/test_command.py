"""``appl optimize``: what is paid, what is written, and what it says."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.cli.conftest import Project, Result
from tests.evaluation.conftest import Asked

from .conftest import PROGRAM, PROPOSED


def optimized(folder: Project, *words: str) -> Result:
    return folder.appl("optimize", "prog.py:answer", "cases.jsonl", "--score", "exact", *words)


def test_a_diff_of_the_source_and_scores_before_and_after_on_cases_held_out(folder: Project):
    done = optimized(folder)
    assert done.code == 0, done.err
    head, columns, exact = done.out.splitlines()[:3]
    assert head.startswith("answer: 16 cases to learn from, 8 held out;")
    assert columns.split()[:3] == ["score", "answer", "answer"] and exact.startswith("exact  1.000")
    assert f'+    f"{PROPOSED["answer"]}"' in done.out
    assert folder.folder.joinpath("prog.py").read_text() == PROGRAM


def test_the_diff_applies_with_patch_and_is_what_write_writes(folder: Project):
    done = optimized(folder, "--patch", "better.patch")
    subprocess.run(["patch", "-s", "-p1", "-i", "better.patch"], cwd=folder.folder, check=True)
    patched = folder.folder.joinpath("prog.py").read_text()
    assert patched != PROGRAM and PROPOSED["answer"] in patched
    folder.write("prog.py", PROGRAM)
    written = optimized(folder, "--write")
    assert written.code == 0 == done.code and "wrote prog.py" in written.err
    assert folder.folder.joinpath("prog.py").read_text() == patched


def test_the_same_command_again_asks_nothing_and_finds_the_same(folder: Project, asked: Asked):
    first = optimized(folder, "--json").data
    assert sum(asked.take().values()) == first["spent"]["all"]["calls"]
    again = optimized(folder, "--json").data
    assert not asked.take()
    assert again["diff"] == first["diff"] and again["proposals"] == first["proposals"]
    assert again["spent"]["all"]["earlier"] == first["spent"]["all"]["calls"]


def test_no_question_is_asked_twice_at_one_place(folder: Project, asked: Asked):
    done = optimized(folder, "--json").data
    counts = asked.take()
    assert set(counts.values()) == {1}  # each case has its own questions
    topics = [question for question in counts if question.startswith("Topic")]
    assert len(topics) == 24  # though several candidates were tried
    assert done["spent"]["all"]["reused"] > 50


def test_equal_questions_at_temperature_0_are_paid_once_also_by_a_repetition(
    folder: Project, asked: Asked
):
    folder.write("prog.py", PROGRAM.replace("max_tokens=20", "max_tokens=20, temperature=0"))
    cases = [(f"c{i}", f"case {i // 2}", f"a{i // 2}") for i in range(24)]
    rows = [dict(zip(("id", "input", "target"), case, strict=True)) for case in cases]
    folder.write("cases.jsonl", "\n".join(map(json.dumps, rows)))
    first = optimized(folder, "--json").data
    counts = asked.take()
    proposals = [question for question in counts if question.startswith("You improve")]
    assert {counts[question] for question in counts if question not in proposals} == {1}
    again = optimized(folder, "--json").data
    assert not asked.take()
    spent = again["spent"]["all"]
    assert spent["earlier"] == spent["calls"] == first["spent"]["all"]["calls"]
    assert again["diff"] == first["diff"] and again["use"] == first["use"]


def test_a_replay_asks_nobody(folder: Project, asked: Asked):
    done = optimized(folder)
    asked.take()
    again = folder.appl("trace", "replay")
    assert again.code == 0, again.err
    assert not asked.take() and again.out.splitlines()[:3] == done.out.splitlines()[:3]


@pytest.mark.parametrize("number", [20, 75, 95])
def test_one_that_is_killed_goes_on_and_pays_nothing_twice(
    number: int, folder: Project, asked: Asked
):
    whole = optimized(folder, "--json").data
    paid = asked.take()
    folder.appl("trace", "rm", "--yes", folder.traces[-1].stem)
    process = folder.process(
        "-m", "appl", "optimize", "prog.py:answer", "cases.jsonl", "--score", "exact", cold=True
    )
    plain, left = asked.server.answer, [number]

    def answer(question: str) -> str:
        left[0] -= 1
        if left[0] == 0:
            process.send_signal(signal.SIGKILL)
        return plain(question)

    asked.server.answer = answer
    process.communicate()
    asked.server.answer = plain
    assert process.returncode == -signal.SIGKILL
    before = asked.take()
    again = optimized(folder, "--json").data
    after = asked.take()
    assert again["diff"] == whole["diff"]
    assert set(before + after) == set(paid)
    twice = sum((before + after).values()) - sum(paid.values())
    # The answers that were on their way (of 32 calls at most), or not yet on the disk, are asked
    # for again.
    assert twice <= 32 + 16


def test_a_budget_holds_for_the_command_and_its_repetitions(folder: Project, asked: Asked):
    for _ in range(2):
        done = optimized(folder, "--json", "--budget", "calls=100")
        assert "budget is used up" in done.data["ended"]
    assert sum(asked.take().values()) <= 100
    more = optimized(folder, "--json", "--budget", "calls=1000").data
    assert (
        sum(asked.take().values())
        == more["spent"]["all"]["calls"] - more["spent"]["all"]["earlier"]
    )


def test_a_budget_that_is_too_small_for_the_program_says_so(folder: Project, asked: Asked):
    done = optimized(folder, "--budget", "calls=10")
    assert done.code == 1 and sum(asked.take().values()) <= 10
    assert "does not suffice to evaluate the program as it is, on 16 cases" in done.err


def test_the_prompt_of_a_score_is_never_changed(folder: Project):
    done = folder.appl(
        "optimize", "prog.py:answer", "cases.jsonl", "--score", "exact", "--score", "prog.py:judge",
        "--json",
    )  # fmt: skip
    assert {each["component"] for each in done.data["proposals"]} == {"topic", "tone", "answer"}


def test_another_function_may_propose(folder: Project):
    text = json.dumps("Carefully, {question} {topic(question)} {tone(question)}")
    folder.write("own.py", f"def own(reflection):\n    return {text}\n")
    done = optimized(folder, "--json", "--proposer", "own.py:own", "--proposals", "3")
    assert done.data["spent"]["proposer"]["calls"] == 0
    reasons = {each["component"]: each["reason"] for each in done.data["proposals"]}
    assert "stands there 0 times in place of 1" not in reasons["answer"]


def test_a_text_without_its_placeholders_is_not_tried(folder: Project):
    folder.write("own.py", "def own(reflection):\n    return 'Say {question} and {question}'\n")
    done = optimized(folder, "--json", "--proposer", "own.py:own", "--proposals", "3")
    assert done.code == 1 and not done.data["diff"]
    assert any(
        "{question} stands there 2 times in place of 1" in p["reason"]
        for p in done.data["proposals"]
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["prog.py:answr", "cases.jsonl"], "did you mean 'answer'"),
        (["prog.py:answer", "none.jsonl"], "the cases cannot be read"),
        (["prog.py:answer", "cases.jsonl", "--score", "exat"], "no ready score 'exat'"),
        (["prog.py:answer", "cases.jsonl", "--budget", "token=5"], "--budget has no limit 'token'"),
        (["prog.py:answer", "cases.jsonl", "--budget", "tokens=x"], "--budget tokens must be"),
        (["plain.py:main", "cases.jsonl"], "there is no text to improve"),
        (["prog.py:answer", "two.jsonl"], "a third of the cases is held out, and there are 2"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    words: list[str], says: str, folder: Project, asked: Asked
):
    folder.write("plain.py", "def main(question):\n    return question\n")
    folder.write("two.jsonl", '{"input": "a"}\n{"input": "b"}\n')
    done = folder.appl("optimize", *words)
    assert done.code == 2 and says in done.err, done.err
    assert not asked.take()
