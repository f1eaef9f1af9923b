"""Random programs mean the same scheduled, naive, in plain Python, replayed, and as rendered."""

from __future__ import annotations

import pytest

from .census import Census, census, explained

FIRST, PROGRAMS = 427, 120
"""Of so few, the first in a row among which every feature is as frequent as it has to be."""
LONG = 5_000
CORE = (
    "try", "failing calls", "mutation after capture", "ctx=new", "ctx=copy", "ctx=same",
    "ctx=resume", "generators", "closures", "sets", "dicts", "async",
)  # fmt: skip
STRUCTURE = (
    "compositors", "block in a block", "role in a block", "records in a block",
    "compositor of a function", "appl.iter", "empty_line", "a list that is interrupted",
    "definitions", "objects that speak", "named speakers", "pictures",
)  # fmt: skip
ANSWERS = (
    "streams", "said before it is read", "streams read partly", "streams read by two",
    "typed answers", "asked again", "samples", "continued", "reasoning", "usage", "choices",
)  # fmt: skip
TOOLS = (
    "tools", "tool runs", "tool failures", "@ppl tools", "gen_with_tools", "tool steps",
    "typed answers with tools",
)  # fmt: skip
KEPT = (
    "resume on objects", "reset", "contexts by hand", "primed generators", "places", "render",
)  # fmt: skip
AROUND = (
    "side effects", "ways to call", "ctx_method", "traceable", "conversations", "copied records",
    "lazy strings", "sounds",
)  # fmt: skip
FEATURES = (*CORE, *STRUCTURE, *ANSWERS, *TOOLS, *KEPT, *AROUND)


@pytest.fixture(scope="module")
def judged() -> Census:
    return census(FIRST, FIRST + PROGRAMS - 1)


def test_every_way_to_run_a_program_agrees(judged: Census) -> None:
    assert judged.wrong == [], explained(judged.wrong[0])


def test_every_feature_runs_in_a_twentieth_of_the_programs(
    judged: Census, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{judged}")
    shares = judged.shares
    assert {name: shares.get(name, 0) for name in FEATURES if shares.get(name, 0) < 0.05} == {}


@pytest.mark.long
def test_many_more_programs_agree() -> None:
    found = census(10_001, 10_000 + LONG)
    print(found)
    assert found.wrong == [], explained(found.wrong[0])
