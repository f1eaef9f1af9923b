"""The fixture ``appl_evaluate``: a threshold in a test, live and from a tape."""

from __future__ import annotations

import pytest

from appl.parts.pytest_plugin import running, thresholds  # noqa: F401 - loaded once, before pytester

pytest_plugins = "pytester"

TEST = """
import pytest
from appl import gen, ppl

def answer(question):
    return question.upper()

@ppl
def ask(question):
    f"{question}"
    return gen()

def test_right(appl_evaluate):
    found = appl_evaluate(answer, "cases.jsonl", scores=["exact"], at_least=0.5)
    assert found.mean() == 0.5

def test_wrong(appl_evaluate):
    appl_evaluate(answer, "cases.jsonl", scores=["exact", "contains"], at_least={"exact": 0.9})

def test_slip(appl_evaluate):
    appl_evaluate(answer, "cases.jsonl", at_least={"exat": 0.9})

async def test_later(appl_evaluate):
    found = await appl_evaluate(answer, "cases.jsonl", at_least=0.4)
    assert found.mean() == 0.5

@pytest.mark.appl(backend="appl.testing:Echo")
def test_taped(appl_evaluate):
    appl_evaluate(ask, "cases.jsonl", scores=[lambda answer: len(answer) > 2], samples=2, at_least=1)
"""


def ran(pytester: pytest.Pytester, test: str, *words: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=TEST)
    pytester.path.joinpath("cases.jsonl").write_text(
        '{"input": "a", "target": "A"}\n{"input": "b", "target": "x"}\n'
    )
    return pytester.runpytest_inprocess("-k", test, "--asyncio-mode=auto", *words)


@pytest.mark.parametrize("test", ["right", "later"])
def test_a_mean_that_is_high_enough_passes(pytester: pytest.Pytester, test: str):
    ran(pytester, test).assert_outcomes(passed=1, deselected=4)


def test_a_mean_that_is_too_low_fails_with_the_table(pytester: pytest.Pytester):
    done = ran(pytester, "wrong")
    done.assert_outcomes(failed=1, deselected=4)
    done.stdout.fnmatch_lines(
        ["exact is 0.500, below 0.9", "answer: 2 cases", "score *", "exact *"]
    )


def test_a_score_that_there_is_not_is_named(pytester: pytest.Pytester):
    ran(pytester, "slip").stdout.fnmatch_lines(["*there is no score 'exat' (exact)"])


def test_a_tape_answers_the_whole_evaluation(pytester: pytest.Pytester):
    assert ran(pytester, "taped").ret == 1
    ran(pytester, "taped", "--appl-record=new").assert_outcomes(passed=1, deselected=4)
    done = ran(pytester, "taped")
    done.assert_outcomes(passed=1, deselected=4)
    done.stdout.fnmatch_lines(["appl: 1 answered from tapes"])
